"""An event loop whose time jumps: tests of time-outs and timers take no time, and give the same result on a busy machine.

While something can run, it runs. When nothing can, the clock jumps to the next timer. Two things stop the jumps, because their results
come from outside of the loop and must not be skipped over: a call in a thread made with `run_in_executor` or `asyncio.to_thread`, and a
`hold()` block, for everything else that takes real time (sockets, subprocesses, a database with threads of its own). When nothing can run
and there is no timer either, the loop raises `DeadlockError`, which lists what waits and where, instead of hanging for ever.

    asyncio.Runner(loop_factory=VirtualTimeLoop).run(main())
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, TypeVar

from live_gateway.clock import LoopClock

T = TypeVar("T")

PATIENCE_S = 5.0
"""Real seconds to wait for a thread, or for a wake-up from outside, before it counts as a deadlock."""
_EPOCH = 1_767_225_600.0  # 2026-01-01T00:00:00Z


class DeadlockError(RuntimeError):
    """Nothing in the loop can run, and nothing will."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop with virtual time. It starts at 0 seconds."""

    def __init__(self) -> None:
        self._virtual_now = 0.0
        self._holds = 0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._virtual_now

    @property
    def held(self) -> bool:
        """Whether time stands still because a thread or a `hold` block is at work."""
        return self._holds > 0

    def jump(self, seconds: float) -> None:
        """Move the time forward."""
        self._virtual_now += seconds

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Time stands still inside of the block; what is waited for may take real time."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1

    def run_in_executor(self, executor: Executor | None, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """As usual; time stands still until the future is done."""
        future: asyncio.Future[T] = super().run_in_executor(executor, func, *args)
        self._holds += 1
        future.add_done_callback(self._release)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """As usual, in real time."""
        with self.hold():
            await super().shutdown_default_executor()

    def _release(self, _done: asyncio.Future[Any]) -> None:
        self._holds -= 1


class VirtualClock(LoopClock):
    """The running loop's time, and a calendar that goes with it from 2026-01-01 on."""

    def wall(self) -> float:
        return _EPOCH + self.now()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is not None and not self._loop.held:
            self._loop.jump(timeout)
            return []
        ready = super().select(PATIENCE_S)
        if not ready:
            raise DeadlockError(_who_waits(self._loop))
        return ready


def _who_waits(loop: VirtualTimeLoop) -> str:
    why = "a thread or a hold block does not end" if loop.held else "nothing can run and there is no timer"
    tasks = "\n".join(f"  {task.get_name()}: {_place(task)}" for task in asyncio.all_tasks(loop))
    return f"{why}; at {loop.time():.3f} s of virtual time these tasks wait:\n{tasks}"


def _place(task: asyncio.Task[Any]) -> str:
    waiting: Any = task.get_coro()
    frame = None
    while waiting is not None and getattr(waiting, "cr_frame", None) is not None:
        frame = waiting.cr_frame
        waiting = waiting.cr_await
    return "?" if frame is None else f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"
