"""A bounded, closable queue between tasks.

Why not `asyncio.Queue`: it has no end. A channel is closed by whoever writes to it, its readers first get what is left and then the end of
the iteration; nobody has to invent a sentinel, and nobody waits for ever. Single event loop, any number of readers and writers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class ChannelClosed(Exception):
    """The channel takes no more items, or has none left."""


class ChannelFull(Exception):
    """`put_nowait` found no room."""


class Channel(Generic[T]):
    """FIFO of at most `capacity` items. `put` waits for room, `put_nowait` raises `ChannelFull`; iteration ends when closed and empty."""

    __slots__ = ("_capacity", "_closed", "_getters", "_items", "_putters")

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"a channel needs room for at least one item, not {capacity}")
        self._capacity = capacity
        self._items: deque[T] = deque()
        self._getters: deque[asyncio.Future[None]] = deque()
        self._putters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        return len(self._items)

    @property
    def closed(self) -> bool:
        """Whether `close` was called; items may still be waiting."""
        return self._closed

    def put_nowait(self, item: T) -> None:
        """Add an item. Raises `ChannelClosed` or `ChannelFull`."""
        if self._closed:
            raise ChannelClosed
        if len(self._items) >= self._capacity:
            raise ChannelFull
        self._items.append(item)
        _wake_one(self._getters)

    async def put(self, item: T) -> None:
        """Add an item, waiting for room. Raises `ChannelClosed` also while it waits."""
        while not self._closed and len(self._items) >= self._capacity:
            await _wait(self._putters)
        self.put_nowait(item)

    async def get(self) -> T:
        """Take the oldest item, waiting for one. Raises `ChannelClosed` when closed and empty."""
        while not self._items:
            if self._closed:
                raise ChannelClosed
            await _wait(self._getters)
        item = self._items.popleft()
        _wake_one(self._putters)
        return item

    def take_rest(self) -> list[T]:
        """Everything that waits now, oldest first, without waiting."""
        rest = list(self._items)
        self._items.clear()
        for _ in rest:
            _wake_one(self._putters)
        return rest

    def close(self) -> None:
        """Take no more items and wake everybody who waits. Closing twice is fine."""
        self._closed = True
        for waiters in (self._getters, self._putters):
            while waiters:
                _wake_one(waiters)

    def __aiter__(self) -> Channel[T]:
        return self

    async def __anext__(self) -> T:
        try:
            return await self.get()
        except ChannelClosed:
            raise StopAsyncIteration from None


async def _wait(waiters: deque[asyncio.Future[None]]) -> None:
    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiters.append(waiter)
    try:
        await waiter
    except asyncio.CancelledError:
        if waiter in waiters:
            waiters.remove(waiter)
        elif not waiter.cancelled():
            _wake_one(waiters)  # it had been woken for an item that it will not take: pass the wake-up on
        raise


def _wake_one(waiters: deque[asyncio.Future[None]]) -> None:
    while waiters:
        waiter = waiters.popleft()
        if not waiter.done():
            waiter.set_result(None)
            return
