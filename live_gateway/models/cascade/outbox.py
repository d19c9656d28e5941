"""What a connection has to say and nobody took yet: bounded, in order, and without what belongs to an answer that was stopped."""

from __future__ import annotations

from live_gateway.channel import Channel, ChannelClosed
from live_gateway.models.live import LiveMessage, TurnComplete


class Outbox:
    """Messages towards `receive`. Those of an answer carry its number; `discard` makes the ones that still wait disappear.

    `answering` is the number of the answer that is being made or not yet taken to its end, 0 for none.
    """

    def __init__(self, capacity: int) -> None:
        self._channel: Channel[tuple[int, LiveMessage]] = Channel(capacity)
        self._discarded = 0
        self._last = 0
        self._error: Exception | None = None
        self.answering = 0

    def begin_answer(self) -> int:
        """A new answer begins: its number."""
        self._last += 1
        self.answering = self._last
        return self._last

    async def put(self, message: LiveMessage, answer: int = 0) -> None:
        """Add a message, waiting for room. One of an answer that was stopped vanishes, one after the end as well."""
        if answer and answer <= self._discarded:
            return
        try:
            await self._channel.put((answer, message))
        except ChannelClosed:
            return

    async def get(self) -> LiveMessage | None:
        """The next message; None at a clean end. Raises what `fail` was given."""
        while True:
            try:
                answer, message = await self._channel.get()
            except ChannelClosed:
                if self._error is not None:
                    raise self._error from self._error.__cause__
                return None
            if answer and answer <= self._discarded:
                continue
            if isinstance(message, TurnComplete) and answer == self.answering:
                self.answering = 0
            return message

    async def discard(self) -> None:
        """Stop the answer: nothing more of it, nor of the ones before, comes out. Its room is free at once."""
        self._discarded = self._last
        self.answering = 0
        waiting = [await self._channel.get() for _ in range(len(self._channel))]  # none of these waits: the items are there
        for answer, message in waiting:
            if not answer and not self._channel.closed:
                self._channel.put_nowait((answer, message))

    @property
    def closed(self) -> bool:
        """Whether nothing more will be taken."""
        return self._channel.closed

    def close(self) -> None:
        """The end: what waits still comes out."""
        self._channel.close()

    def fail(self, error: Exception) -> None:
        """The connection broke: `get` raises this after what waits."""
        self._error = self._error or error
        self._channel.close()
