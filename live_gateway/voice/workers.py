"""The threads in which the networks run, so that the event loop never does.

One thread listens: a recognition that takes long must not delay the detector that says when somebody speaks. Two more recognise and
synthesise. Each connection has at most one job of each kind waiting, so the queues are as bounded as the connections are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Workers:
    """Threads for voice activity (one) and for recognition and synthesis (`heavy`). They are made when first needed."""

    def __init__(self, heavy: int = 2) -> None:
        self._light = ThreadPoolExecutor(1, thread_name_prefix="live-gateway-vad")
        self._heavy = ThreadPoolExecutor(heavy, thread_name_prefix="live-gateway-voice")

    async def light(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run something that takes at most a few milliseconds."""
        return await asyncio.get_running_loop().run_in_executor(self._light, lambda: call(*args, **kwargs))

    async def heavy(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a recognition or a synthesis. Whoever is cancelled while it runs no longer waits for it; it still runs to its end."""
        return await asyncio.get_running_loop().run_in_executor(self._heavy, lambda: call(*args, **kwargs))

    def close(self) -> None:
        """Let the threads end when their work is done. Nothing can be run any more."""
        self._light.shutdown(wait=False, cancel_futures=True)
        self._heavy.shutdown(wait=False, cancel_futures=True)
