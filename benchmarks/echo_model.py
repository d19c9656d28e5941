"""A live model that answers audio with audio at once: 40 ms for every two frames of 20 ms. What it costs is what a bare relay costs too."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType

from live_gateway.channel import Channel, ChannelClosed
from live_gateway.content import Content, FunctionResponse
from live_gateway.models.live import Activity, AudioOut, LiveMessage, LiveSetup

ANSWER = bytes(2 * 960)
"""40 ms at 24 kHz."""


class EchoModel:
    """See the module."""

    name = "echo"

    def connect(self, setup: LiveSetup) -> AbstractAsyncContextManager[EchoConnection]:
        return EchoConnection()


class EchoConnection(AbstractAsyncContextManager["EchoConnection"]):
    """Takes frames of 20 ms; every second one is answered."""

    def __init__(self) -> None:
        self._out: Channel[LiveMessage] = Channel(4096)
        self._heard = 0

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._out.close()

    async def receive(self) -> LiveMessage | None:
        try:
            return await self._out.get()
        except ChannelClosed:
            return None

    async def send_audio(self, pcm: bytes) -> None:
        self._heard += 1
        if self._heard % 2 == 0:
            await self._out.put(AudioOut(ANSWER))

    async def send_image(self, data: bytes, mime_type: str) -> None: ...
    async def send_content(self, content: Content) -> None: ...
    async def send_activity(self, activity: Activity) -> None: ...
    async def end_audio(self) -> None: ...
    async def send_tool_responses(self, responses: Sequence[FunctionResponse]) -> None: ...
    async def interrupt(self) -> None: ...
    def set_playing(self, playing: bool) -> None: ...
