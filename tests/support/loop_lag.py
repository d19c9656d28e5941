"""How long an event loop was held up, seen from inside of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

EVERY_S = 0.005


@dataclass
class LoopLag:
    """late_s: how late a timer was, each time. held_s: how much processor time the loop's thread took between two looks, where other work
    of the machine does not count; this is what the loop itself is to blame for."""

    late_s: list[float] = field(default_factory=list)
    held_s: list[float] = field(default_factory=list)

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[LoopLag]:
        """Watch the running loop while the block runs."""
        task = asyncio.get_running_loop().create_task(self._look())  # a group must not be left open over a yield
        try:
            yield self
        finally:
            task.cancel()

    def forget(self) -> None:
        """Begin anew."""
        self.late_s.clear()
        self.held_s.clear()

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due, used = loop.time() + EVERY_S, time.thread_time()
            await asyncio.sleep(EVERY_S)
            self.late_s.append(loop.time() - due)
            self.held_s.append(time.thread_time() - used)
