"""How long an event loop was held up, seen from inside of it."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

EVERY_S = 0.005


@dataclass
class LoopLag:
    """What was measured, once every 5 ms.

    late_s: how late a timer was, each time. held_s: how much processor time the loop's thread took between two looks; this is what the loop
    itself is to blame for. Other work of the machine does not count, nor does collecting garbage, of which a process of tests has much.
    """

    late_s: list[float] = field(default_factory=list)
    held_s: list[float] = field(default_factory=list)
    _collecting_s: float = 0.0
    _collecting_since: float = 0.0

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[LoopLag]:
        """Watch the running loop while the block runs."""
        task = asyncio.get_running_loop().create_task(self._look())  # a group must not be left open over a yield
        gc.callbacks.append(self._collects)
        try:
            yield self
        finally:
            gc.callbacks.remove(self._collects)
            task.cancel()

    def forget(self) -> None:
        """Begin anew."""
        self.late_s.clear()
        self.held_s.clear()

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due, used, collected = loop.time() + EVERY_S, time.thread_time(), self._collecting_s
            await asyncio.sleep(EVERY_S)
            self.late_s.append(loop.time() - due)
            self.held_s.append(time.thread_time() - used - (self._collecting_s - collected))

    def _collects(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting_since = time.thread_time()
        else:
            self._collecting_s += time.thread_time() - self._collecting_since
