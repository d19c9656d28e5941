"""Ends an iterator before its end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any


async def close(iterator: AsyncIterator[Any]) -> None:
    """Run the iterator's clean-up, if it has one: whatever it runs is cancelled when this returns."""
    closing = getattr(iterator, "aclose", None)
    if closing is not None:
        await closing()


def has_ended(iterator: AsyncIterator[Any]) -> bool:
    """Whether it is known that nothing more comes: a generator that returned or raised, or an iterator that says so."""
    if hasattr(iterator, "ag_frame"):
        return iterator.ag_frame is None
    return bool(getattr(iterator, "ended", False))
