"""The waiting part of a mailbox: one task takes what a live session has for its listener."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from live_gateway.channel import ChannelClosed
from live_gateway.live.items import LiveItem
from live_gateway.live.mailbox import Mailbox, MailboxItem


class Listener:
    """A mailbox with somebody waiting at it: any number of writers on the loop, one reader.

    now: monotonic seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.mailbox = Mailbox()
        self._now = now
        self._waiting: asyncio.Future[None] | None = None

    def put(self, item: LiveItem) -> None:
        """Add an item. Never waits, never raises; ignored once closed."""
        self.mailbox.put(item, self._now())
        if self._waiting is not None:
            self._wake()

    def close(self) -> None:
        """Take no more items. The reader gets what is left and then the end. Closing twice is fine."""
        self.mailbox.close()
        self._wake()

    async def get(self) -> MailboxItem:
        """The next item, waiting for one. Cancelling loses none.

        Raises `ChannelClosed` when closed and empty, `SlowConsumer` once when too much had waited (reading may go on), `RuntimeError` when
        another task is already waiting.
        """
        if self._waiting is not None:
            raise RuntimeError("a live session has one listener, and it is already waiting for the next item")
        while not self.mailbox:
            if self.mailbox.closed:
                raise ChannelClosed
            self._waiting = asyncio.get_running_loop().create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        item = self.mailbox.take(self._now())
        assert item is not None, "what is not empty has a next item"
        return item

    def __aiter__(self) -> Listener:
        return self

    async def __anext__(self) -> MailboxItem:
        try:
            return await self.get()
        except ChannelClosed:
            raise StopAsyncIteration from None

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
