"""Cancellation that somebody asked for, and cancellation that merely came out of somebody else's code.

A library whose own task was cancelled may let `CancelledError` out to whoever waits for it. Where it gets through, it ends the waiting task
as if that had been wanted: quietly, past every `except Exception`. So wherever the package waits for code that is not its own (a model, a
store, a plugin), it does so inside `foreign_code`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class ForeignCancellation(Exception):
    """Code that was waited for was cancelled from within."""


@contextmanager
def foreign_code(what: str) -> Iterator[None]:
    """Turn a cancellation that nobody asked this task for into `ForeignCancellation`. A real one passes."""
    try:
        yield
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise ForeignCancellation(f"{what} was cancelled from within") from error


class Interruptible:
    """A place where a task waits that `interrupt` takes it out of: the body of `with` then ends, and what follows is done.

    What `asyncio.timeout(None)` and a later `reschedule` do, at a fifth of the cost: for a wait that is begun for every frame. For one task
    at a time; a cancellation that comes from elsewhere passes.
    """

    __slots__ = ("_cancelling", "_interrupted", "_task")

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._interrupted = False

    def __enter__(self) -> None:
        self._task = task = asyncio.current_task()
        assert task is not None
        self._cancelling = task.cancelling()
        self._interrupted = False

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        task, self._task = self._task, None
        assert task is not None
        if not self._interrupted:
            return False
        return task.uncancel() <= self._cancelling and kind is asyncio.CancelledError

    def interrupt(self) -> None:
        """End the wait, if there is one."""
        if self._task is not None and not self._interrupted:
            self._interrupted = True
            self._task.cancel()
