"""A WebSocket client without a socket: it drives an ASGI application in the same loop, so that virtual time works."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from starlette.types import ASGIApp, Message

from live_gateway.channel import Channel, ChannelClosed
from live_gateway.server.wire import Codec, Flag, Frame, Kind, pack_frame

DEADLINE_S = 120.0
"""A frame that has not come by then (in the loop's time) never comes."""


class Closed(Exception):
    """The server closed the connection."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code} {reason}")
        self.code = code
        self.reason = reason


class Denied(Exception):
    """The server did not open the connection."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(f"HTTP {status}: {body}")
        self.status = status
        self.body = body


class FakeTransport:
    """Stands for the transport that the guarded server puts into the scope."""

    aborted = False

    def abort(self) -> None:
        self.aborted = True


class AsgiClient:
    """`async with AsgiClient(app) as client`: opened when entered (raises `Denied`), gone when left."""

    def __init__(self, app: ASGIApp, *, subprotocols: Sequence[str] = (), headers: Sequence[tuple[str, str]] = ()) -> None:
        self._app = app
        self._to_app: Channel[Message] = Channel(100_000)
        self._from_app: Channel[Message] = Channel(100_000)
        self._reading = asyncio.Event()
        self._reading.set()
        self._group = asyncio.TaskGroup()
        self._frame_no = 0
        self.transport = FakeTransport()
        self.subprotocol: str | None = None
        self.finished = asyncio.Event()
        self._scope = {
            "type": "websocket",
            "path": "/live",
            "raw_path": b"/live",
            "root_path": "",
            "query_string": b"",
            "scheme": "ws",
            "subprotocols": list(subprotocols),
            "headers": [(b"host", b"localhost"), *((name.encode(), value.encode()) for name, value in headers)],
            "extensions": {"websocket.http.response": {}, "live_gateway.transport": self.transport},
        }

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        self._group.create_task(self._run())
        self._to_app.put_nowait({"type": "websocket.connect"})
        message = await self._from_app.get()
        if message["type"] == "websocket.accept":
            self.subprotocol = message.get("subprotocol")
            return self
        body = await self._from_app.get()
        await self._group.__aexit__(None, None, None)
        raise Denied(message["status"], json.loads(body["body"]))

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.leave()
        await self._group.__aexit__(kind, error, trace)

    def leave(self) -> None:
        """Vanish: nothing is said, the connection is gone."""
        self._reading.set()
        if not self._to_app.closed:
            self._to_app.put_nowait({"type": "websocket.disconnect", "code": 1005})
            self._to_app.close()

    def stop_reading(self) -> None:
        """Take nothing more of what the server sends."""
        self._reading.clear()

    def read_on(self) -> None:
        """Take again what the server sends."""
        self._reading.set()

    def say(self, kind: str, **fields: Any) -> None:
        """Send a message."""
        self.text(json.dumps({"type": kind, **fields}))

    def text(self, text: str) -> None:
        """Send a text frame."""
        self._to_app.put_nowait({"type": "websocket.receive", "text": text})

    def data(self, data: bytes) -> None:
        """Send a binary frame."""
        self._to_app.put_nowait({"type": "websocket.receive", "bytes": data})

    def audio(self, pcm: bytes, *, pos: int = 0, flags: Flag = Flag.NONE, stream: int = 1) -> None:
        """Send microphone audio."""
        self.data(pack_frame(Frame(Kind.AUDIO_UP, flags, Codec.PCM16, stream, self._frame_no, pos, 0.0, pcm)))
        self._frame_no += 1

    async def receive(self) -> dict[str, Any] | bytes:
        """The next frame: a JSON message, or bytes. Raises `Closed`."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                message = await self._from_app.get()
        except ChannelClosed:
            raise Closed(1006, "the application ended without a close frame") from None
        if message["type"] == "websocket.close":
            raise Closed(message["code"], message["reason"])
        text = message.get("text")
        if text is None:
            return bytes(message["bytes"])
        frame: dict[str, Any] = json.loads(text)
        return frame

    async def until(self, kind: str, **fields: Any) -> dict[str, Any]:
        """The next JSON message of this type with these fields; what comes before it is passed over."""
        while True:
            frame = await self.receive()
            if isinstance(frame, dict) and frame["type"] == kind and all(frame.get(name) == value for name, value in fields.items()):
                return frame

    async def until_all(self, *wanted: dict[str, Any]) -> list[dict[str, Any] | bytes]:
        """All frames until for each of these there was a JSON message with these fields, in whatever order."""
        frames: list[dict[str, Any] | bytes] = []
        missing = list(wanted)
        while missing:
            frame = await self.receive()
            frames.append(frame)
            if isinstance(frame, dict):
                missing = [fields for fields in missing if any(frame.get(name) != value for name, value in fields.items())]
        return frames

    async def rest(self) -> tuple[list[dict[str, Any] | bytes], Closed]:
        """Everything until the connection is closed, and how it was closed."""
        frames: list[dict[str, Any] | bytes] = []
        while True:
            try:
                frames.append(await self.receive())
            except Closed as closed:
                return frames, closed

    async def _run(self) -> None:
        try:
            await self._app(self._scope, self._to_app.get, self._take)
        finally:
            self._from_app.close()
            self.finished.set()

    async def _take(self, message: Message) -> None:
        await self._reading.wait()
        if self._to_app.closed:
            raise OSError("the client is gone")
        self._from_app.put_nowait(message)
