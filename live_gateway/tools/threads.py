"""Threads for tools that block: bounded, apart from everybody else's, and never in the way of the program's end.

A thread cannot be stopped from outside. When its caller has given up (time-out, cancellation) it is *leaked*: it goes on, its result is
dropped, it counts against the bound until it ends. The threads are daemons, so even one that never ends does not keep the process alive.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, TypeVar

from live_gateway.errors import ToolError

T = TypeVar("T")

LIMIT = 32


class ToolThreads(Executor):
    """At most `limit` threads; what is handed in beyond waits for one, as long as its caller waits."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._waiting: deque[Job] = deque()
        self._running = 0
        self._leaked = 0

    @property
    def running(self) -> int:
        """Threads at work, leaked ones included."""
        return self._running

    @property
    def leaked(self) -> int:
        """Threads at work for nobody."""
        return self._leaked

    async def run(self, job: Job) -> Any:
        """Run a job and wait for its result. Who gives up leaks its thread, or takes it out of the line."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self, job)
        except asyncio.CancelledError:
            self._abandon(job)
            raise

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """What an event loop's `run_in_executor` calls."""
        job = fn if isinstance(fn, Job) else Job(partial(fn, *args, **kwargs))
        with self._lock:
            room = self._running < self._limit
            if room:
                self._running += 1
            else:
                self._waiting.append(job)
        if room:
            threading.Thread(target=self._work, args=(job,), name="live-gateway-tool", daemon=True).start()
        return job.future

    def _work(self, first: Job) -> None:
        job: Job | None = first
        while job is not None:
            job.execute()
            with self._lock:
                job.ended = True
                if job.abandoned:
                    self._leaked -= 1
                job = self._waiting.popleft() if self._waiting else None
                if job is None:
                    self._running -= 1

    def _abandon(self, job: Job) -> None:
        with self._lock:
            if job.future.cancel():
                if job in self._waiting:
                    self._waiting.remove(job)
            elif not job.ended:
                job.abandoned = True
                self._leaked += 1


class Job:
    """A call that waits for a thread, runs in it, or has ended."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._context = contextvars.copy_context()
        self.future: Future[Any] = Future()
        self.ended = False
        self.abandoned = False

    def __call__(self) -> Any:
        """Run the call, with the caller's context variables."""
        return self._context.run(self._call)

    def execute(self) -> None:
        """Run the call unless its caller has given up. Whatever it raises ends up in the future, as an exception that a loop can take."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self()
        except BaseException as error:
            self.future.set_exception(as_failure(error))
        else:
            self.future.set_result(result)


def as_failure(error: BaseException) -> Exception:
    """The error as one that only fails the call: a tool may neither end the program nor raise what an asyncio future does not take."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    failure = ToolError(f"the tool raised {type(error).__name__}")
    failure.__cause__ = error
    return failure


TOOL_THREADS = ToolThreads()
"""The threads that all function tools of the process share."""
