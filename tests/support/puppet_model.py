"""A live model whose strings the test pulls: it says what it is told to, when it is told to, and its sends can be slow or fail.

Unlike `ScriptedLiveModel` it has no script, so any interleaving can be played, also one that no decent model would produce.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from live_gateway.channel import Channel, ChannelClosed
from live_gateway.content import Content, FunctionResponse, text_of
from live_gateway.models.live import Activity, LiveMessage, LiveSetup


@dataclass(slots=True)
class Sending:
    """How the next sends go. delay_s: each takes so long. gate: they wait for it. before, after: raised by one send, before or after the
    model has got what was sent."""

    delay_s: float = 0.0
    gate: asyncio.Event | None = None
    before: BaseException | None = None
    after: BaseException | None = None


class PuppetModel:
    """A `LiveModel` with one connection at a time. connecting: raised while the connection opens; opens_in_s: how long that takes."""

    name = "puppet"

    def __init__(self, *, opens_in_s: float = 0.0, connecting: BaseException | None = None, leaving: Leaving | None = None) -> None:
        self.opens_in_s = opens_in_s
        self.connecting = connecting
        self.leaving = leaving or Leaving()
        self.connections: list[PuppetConnection] = []

    @property
    def connection(self) -> PuppetConnection:
        return self.connections[-1]

    @property
    def taken(self) -> list[LiveMessage]:
        """What was taken of what it said, over all connections."""
        return [message for connection in self.connections for message in connection.taken]

    @property
    def answers(self) -> list[FunctionResponse]:
        """The answers that it has got, over all connections."""
        return [answer for connection in self.connections for answer in connection.answers]

    @property
    def contents(self) -> list[str]:
        """The messages that it has got, over all connections."""
        return [text for connection in self.connections for text in connection.contents]

    def connect(self, setup: LiveSetup) -> PuppetConnection:
        self.connections.append(PuppetConnection(self, setup))
        return self.connection


@dataclass(slots=True)
class Leaving:
    """How a connection closes. takes_s: it takes so long. error: and then raises this. stubborn: it takes that long even when cancelled."""

    takes_s: float = 0.0
    error: Exception | None = None
    stubborn: bool = False


class PuppetConnection:
    """A `LiveConnection`. contents, answers, activities: what it has got. left_at: when it was closed, in the loop's time."""

    def __init__(self, model: PuppetModel, setup: LiveSetup) -> None:
        self.setup = setup
        self.sending = Sending()
        self.contents: list[str] = []
        self.answers: list[FunctionResponse] = []
        self.activities: list[Activity] = []
        self.interrupts = 0
        self.audio_bytes = 0
        self.taken: list[LiveMessage] = []
        self.leave_began_at: float | None = None
        self.left_at: float | None = None
        self._model = model
        self._said: Channel[LiveMessage | BaseException] = Channel(10_000)

    async def __aenter__(self) -> Self:
        try:
            await asyncio.sleep(self._model.opens_in_s)
            if self._model.connecting is not None:
                raise self._model.connecting
        except BaseException as error:
            self.left_at = asyncio.get_running_loop().time()  # it never opened, so nothing is to be closed
            if isinstance(error, asyncio.CancelledError) and self._model.leaving.error is not None:
                raise self._model.leaving.error from None
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        loop = asyncio.get_running_loop()
        self.leave_began_at = loop.time()
        leaving = self._model.leaving
        until = loop.time() + leaving.takes_s
        while loop.time() < until:
            try:
                await asyncio.sleep(until - loop.time())
            except asyncio.CancelledError:
                if not leaving.stubborn:
                    raise
        self.left_at = loop.time()
        if leaving.error is not None:
            raise leaving.error

    # What the test has it say.

    def say(self, *messages: LiveMessage) -> None:
        """These come next."""
        for message in messages:
            if not self._said.closed:
                self._said.put_nowait(message)

    def end(self) -> None:
        """The model ends the connection, after what it has said."""
        self._said.close()

    def fail(self, error: BaseException) -> None:
        """The connection breaks, after what it has said."""
        if not self._said.closed:
            self._said.put_nowait(error)

    # What the live session does with it.

    async def receive(self) -> LiveMessage | None:
        try:
            message = await self._said.get()
        except ChannelClosed:
            return None
        if isinstance(message, BaseException):
            raise message
        self.taken.append(message)
        return message

    async def send_audio(self, pcm: bytes) -> None:
        await self._send()
        self.audio_bytes += len(pcm)

    async def send_image(self, data: bytes, mime_type: str) -> None:
        await self._send()

    async def send_content(self, content: Content) -> None:
        await self._send(self.contents, [text_of(content)])

    async def send_activity(self, activity: Activity) -> None:
        await self._send(self.activities, [activity])

    async def end_audio(self) -> None:
        await self._send()

    async def send_tool_responses(self, responses: Sequence[FunctionResponse]) -> None:
        await self._send(self.answers, responses)

    async def interrupt(self) -> None:
        await self._send()
        self.interrupts += 1

    def set_playing(self, playing: bool) -> None:
        pass

    async def _send(self, into: list[Any] | None = None, what: Sequence[Any] = ()) -> None:
        sending = self.sending
        if sending.delay_s:
            await asyncio.sleep(sending.delay_s)
        if sending.gate is not None:
            await sending.gate.wait()
        before, sending.before = sending.before, None
        if before is not None:
            raise before
        if into is not None:
            into.extend(what)
        after, sending.after = sending.after, None
        if after is not None:
            raise after
