"""Cancellation that somebody asked for, and cancellation that merely came out of somebody else's code.

A library whose own task was cancelled may let `CancelledError` out to whoever waits for it. Where it gets through, it ends the waiting task
as if that had been wanted: quietly, past every `except Exception`. So wherever the package waits for code that is not its own (a model, a
store, a plugin), it does so inside `foreign_code`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


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
