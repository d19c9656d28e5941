"""How fast this machine is now: bounds on processor time are set against it, since a busy or a slow machine takes longer for everything."""

from __future__ import annotations

import time
from collections.abc import Callable


def processor_s(work: Callable[[], object]) -> float:
    """Seconds of processor time that the work takes in this thread, the best of three."""
    taken = []
    for _ in range(3):
        began = time.thread_time()
        work()
        taken.append(time.thread_time() - began)
    return min(taken)


def yardstick_s() -> float:
    """Seconds of processor time for adding up a million numbers: five to twenty milliseconds."""
    return processor_s(lambda: sum(range(1_000_000)))
