"""Talks to a live model's connection and keeps what it says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from live_gateway.models.live import AudioOut, LiveConnection, LiveMessage, LiveModel, LiveSetup, TextOut, Transcript, TurnComplete

DEADLINE_S = 30.0


class Talk:
    """One connection. `messages`: all it said so far. `held`: while set to hold, nothing is taken from it."""

    def __init__(self, connection: LiveConnection) -> None:
        self.connection = connection
        self.messages: list[LiveMessage] = []
        self.error: Exception | None = None
        self.ended = False
        self.flow = asyncio.Event()
        self.flow.set()
        self._changed = asyncio.Event()

    async def run(self) -> None:
        try:
            while True:
                await self.flow.wait()
                message = await self.connection.receive()
                if message is None:
                    break
                self.messages.append(message)
                self._changed.set()
        except Exception as error:
            self.error = error
        self.ended = True
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds; it is looked at after each message."""
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                assert not self.ended, f"the connection ended: {self.error!r}"
                self._changed.clear()
                await self._changed.wait()

    async def end(self) -> None:
        """Wait until the connection has ended; `error` is then what it ended with."""
        async with asyncio.timeout(DEADLINE_S):
            while not self.ended:
                self._changed.clear()
                await self._changed.wait()

    async def turns(self, count: int) -> None:
        """Wait until the model has completed so many turns."""
        await self.until(lambda: len(self.of(TurnComplete)) >= count)

    def of(self, *kinds: type) -> list[LiveMessage]:
        return [message for message in self.messages if isinstance(message, kinds)]

    @property
    def kinds(self) -> list[str]:
        """What came, in order, repeated kinds once; a transcript by its role, with `!` when finished."""
        names: list[str] = []
        for message in self.messages:
            name = type(message).__name__
            if isinstance(message, Transcript):
                name = message.role + ("!" if message.finished else "~")
            if not names or names[-1] != name:
                names.append(name)
        return names

    @property
    def said_by_user(self) -> list[str]:
        """The finished transcripts of the user."""
        return [m.text for m in self.messages if isinstance(m, Transcript) and m.role == "user" and m.finished]

    @property
    def said_by_model(self) -> str:
        """All that the model said: its transcript, or its text."""
        return "".join(m.text for m in self.messages if isinstance(m, TextOut) or (isinstance(m, Transcript) and m.role == "model"))

    @property
    def audio(self) -> bytes:
        return b"".join(m.pcm for m in self.messages if isinstance(m, AudioOut))


@asynccontextmanager
async def talk_to(model: LiveModel, setup: LiveSetup | None = None) -> AsyncIterator[Talk]:
    """Open a connection and take its messages in a task, for the time of the block."""
    async with model.connect(setup or LiveSetup()) as connection:
        talk = Talk(connection)
        async with asyncio.TaskGroup() as group:
            reader = group.create_task(talk.run())
            try:
                yield talk
            finally:
                reader.cancel()


async def play(talk: Talk, pieces: Sequence[bytes], frame_bytes: int = 1_280) -> None:
    """Send audio in 40 ms frames, as fast as it is taken."""
    pcm = b"".join(pieces)
    for start in range(0, len(pcm), frame_bytes):
        await talk.connection.send_audio(pcm[start : start + frame_bytes])
