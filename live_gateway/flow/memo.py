"""Remembers what was derived from an immutable piece of history, for as long as that piece lives."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

from pydantic import BaseModel

T = TypeVar("T")


class Memo(Generic[T]):
    """Values by the object that they were derived from.

    Stored events never change, so what a prompt makes of one need be made once: building a prompt then costs a look-up per event. Nothing
    is kept alive by it; an entry goes when its source goes, which is why a value must not refer to its source.
    """

    __slots__ = ("_kept", "_make")

    def __init__(self, make: Callable[..., T]) -> None:
        self._make = make
        self._kept: dict[int, tuple[weakref.ref[BaseModel], T]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, source: BaseModel, *details: object) -> T:
        """The value for the source, made now if there is none. `details` must be the same each time for one source."""
        key = id(source)
        kept = self._kept.get(key)
        if kept is not None and kept[0]() is source:
            return kept[1]
        value = self._make(source, *details)
        self._kept[key] = (weakref.ref(source, lambda _: self._kept.pop(key, None)), value)
        return value


class Memos(Generic[T]):
    """A family of memos, one per setting under which values are made. Holds at most `limit` settings; beyond, it starts anew."""

    __slots__ = ("_limit", "_make", "_memos")

    def __init__(self, make: Callable[..., T], limit: int = 256) -> None:
        self._make = make
        self._limit = limit
        self._memos: dict[tuple[object, ...], Memo[T]] = {}

    def under(self, *setting: object) -> Memo[T]:
        """The memo of this setting."""
        memo = self._memos.get(setting)
        if memo is None:
            if len(self._memos) >= self._limit:
                self._memos.clear()
            memo = self._memos[setting] = Memo(self._make)
        return memo
