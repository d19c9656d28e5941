"""Time as an argument: the two clocks that shells read and hand to the sans-IO core.

`Clock.now()` is monotonic and in seconds: for deadlines, latencies and everything that is compared. `Clock.wall()` is seconds since the
Unix epoch: for timestamps that people read. Nothing is ever ordered by the second one.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Where the time comes from; tests hand in one that they move themselves."""

    def now(self) -> float:
        """Monotonic seconds; only differences mean something."""
        ...

    def wall(self) -> float:
        """Seconds since the Unix epoch."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()


class LoopClock(SystemClock):
    """The running event loop's time, which tests may run faster than real time, and the machine's calendar."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()
