"""Writes down what a client and Gemini Live say to each other, for `FakeGemini` to say it again.

The recorder stands in between: it listens on this machine, and passes every frame on to the service and back. Point the client's base URL
at it. A recording is a text file of one JSON object a line: first `{"recording": 1}`, then for each frame
`{"t": seconds, "connection": number, "from": "client" | "model", "frame": {...}}`, and for each close by the service
`{"t": ..., "connection": ..., "close": code}`.

No key gets into it: headers are not written, and resumption handles are replaced by numbered ones. What people said does get into it.
`shorten` cuts every piece of audio to its first milliseconds, where the content does not matter.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TextIO, TypeAlias
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.http11 import Request, Response

from live_gateway.channel import Channel
from live_gateway.errors import ConfigurationError
from live_gateway.testing.gemini_steps import Step, close, expect_tool_response, expect_utterance, send

MAX_FRAME: Final = 16 * 1024 * 1024
SHORTENED_MS: Final = 20
_PASSED_HEADERS: Final = frozenset({"x-goog-api-key", "authorization", "x-goog-user-project"})
MAX_LINES: Final = 10_000
_Socket: TypeAlias = ServerConnection | ClientConnection


class Recorder:
    """Stands between a client and the service, and records.

    upstream: the service's base URL. shorten_ms: keep only so much of each piece of audio.
    """

    def __init__(
        self,
        path: Path,
        *,
        upstream: str = "https://generativelanguage.googleapis.com",
        shorten_ms: int | None = None,
        tls: ssl.SSLContext | None = None,
        port: int = 0,
    ) -> None:
        self._path = path
        parts = urlsplit(upstream)
        self._upstream = f"{'ws' if parts.scheme == 'http' else 'wss'}://{parts.netloc}{parts.path.rstrip('/')}"
        self._tls = tls
        self._shorten_ms = shorten_ms
        self._port = port
        self._handles: dict[str, str] = {}
        self._connections = 0
        self._server: Server | None = None
        self._lines: Channel[str] = Channel(MAX_LINES)
        self._group = asyncio.TaskGroup()
        self._began = 0.0

    @property
    def base_url(self) -> str:
        """Where the client is to connect."""
        assert self._server is not None, "the recorder is not running: use `async with`"
        return f"http://127.0.0.1:{next(iter(self._server.sockets)).getsockname()[1]}"

    async def __aenter__(self) -> Self:
        file = await asyncio.to_thread(self._path.open, "w", encoding="utf-8")
        self._began = time.monotonic()
        await self._group.__aenter__()
        self._group.create_task(self._write_down(file), name="write the recording")
        await self._write({"recording": 1})
        self._server = await serve(
            self._relay,
            "127.0.0.1",
            self._port,
            process_request=self._dial,
            compression=None,
            ping_interval=None,
            max_size=MAX_FRAME,
            close_timeout=1,
        )
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()
        self._lines.close()
        await self._group.__aexit__(None, None, None)

    async def _write_down(self, file: TextIO) -> None:
        """Lines go to the file in a thread, as many as there are each time."""
        try:
            async for line in self._lines:
                lines = [line]
                while len(self._lines):
                    lines.append(await self._lines.get())
                await asyncio.to_thread(file.writelines, lines)
        finally:
            await asyncio.to_thread(file.close)

    async def _dial(self, connection: ServerConnection, request: Request) -> Response | None:
        headers = [(name, value) for name, value in request.headers.raw_items() if name.lower() in _PASSED_HEADERS]
        try:
            connection.upstream = await connect(  # type: ignore[attr-defined]
                f"{self._upstream}{request.path}",
                additional_headers=headers,
                compression=None,
                ping_interval=None,
                max_size=MAX_FRAME,
                open_timeout=10,
                close_timeout=1,
                ssl=self._tls if self._upstream.startswith("wss") else None,
            )
        except InvalidStatus as error:
            return connection.respond(error.response.status_code, "refused by the service\n")
        except (OSError, TimeoutError):
            return connection.respond(502, "the service cannot be reached\n")
        return None

    async def _relay(self, client: ServerConnection) -> None:
        upstream: ClientConnection = client.upstream  # type: ignore[attr-defined]
        self._connections += 1
        number = self._connections
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pass_on(number, "client", client, upstream), name="record up")
            group.create_task(self._pass_on(number, "model", upstream, client), name="record down")

    async def _pass_on(self, number: int, who: str, source: _Socket, sink: _Socket) -> None:
        try:
            while True:
                frame = await source.recv(decode=False)
                await self._record(number, who, frame)
                await sink.send(frame, text=who == "client")
        except ConnectionClosed as closed:
            code, reason = (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd is not None else (1006, "")
            if who == "model" and closed.rcvd_then_sent is not False:  # not the answer to the client's own close
                await self._write({"t": self._now(), "connection": number, "close": code})
            await sink.close(code if code not in (1005, 1006) else 1001, reason)

    async def _record(self, number: int, who: str, frame: bytes) -> None:
        try:
            message = json.loads(frame)
        except ValueError:
            return
        await self._write({"t": self._now(), "connection": number, "from": who, "frame": self._cleaned(message)})

    def _cleaned(self, value: Any, key: str = "") -> Any:
        if isinstance(value, Mapping):
            shortened = self._shortened(value) if self._shorten_ms is not None else value
            return {name: self._cleaned(entry, name) for name, entry in shortened.items()}
        if isinstance(value, list):
            return [self._cleaned(entry) for entry in value]
        if key in ("newHandle", "new_handle", "handle") and isinstance(value, str) and value:
            return self._handles.setdefault(value, f"recorded-{len(self._handles) + 1}")
        return value

    def _shortened(self, blob: Mapping[str, Any]) -> Mapping[str, Any]:
        kind = blob.get("mimeType") or blob.get("mime_type") or ""
        if not isinstance(kind, str) or not kind.startswith("audio/pcm") or not isinstance(blob.get("data"), str):
            return blob
        hz = 24_000 if "24000" in kind else 16_000
        data = base64.b64decode(blob["data"].replace("-", "+").replace("_", "/"))
        kept = data[: hz * (self._shorten_ms or SHORTENED_MS) // 1000 * 2]
        return {**blob, "data": base64.b64encode(kept).decode()}

    async def _write(self, line: Mapping[str, Any]) -> None:
        await self._lines.put(json.dumps(line, ensure_ascii=False) + "\n")

    def _now(self) -> float:
        return round(time.monotonic() - self._began, 3)


async def record(path: Path, *, upstream: str, shorten_ms: int | None = None, port: int = 0, ready: Callable[[str], None]) -> None:
    """Record until cancelled. ready: is given the base URL that the client is to use."""
    async with Recorder(path, upstream=upstream, shorten_ms=shorten_ms, port=port) as recorder:
        ready(recorder.base_url)
        await asyncio.Event().wait()


def read_recording(path: Path) -> list[dict[str, Any]]:
    """The lines of a recording without the first. Raises `ConfigurationError` if it is none."""
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} is no recording: {error}") from error
    if not lines or lines[0].get("recording") != 1:
        raise ConfigurationError(f"{path} is no recording of this version")
    return lines[1:]


def replay(path: Path) -> list[list[Step]]:
    """A script for each connection of a recording: what the model said, waiting where it had waited.

    It had waited for the user where the client had sent something and a new turn began, and for the answers to its calls.
    """
    scripts: dict[int, _Replayed] = {}
    for line in read_recording(path):
        script = scripts.setdefault(line["connection"], _Replayed())
        if "close" in line:
            script.add(close(line["close"] if line["close"] not in (1005, 1006) else 1001))
        elif line["from"] == "client":
            script.client(line["frame"])
        else:
            script.model(line["frame"])
    return [script.finished() for script in scripts.values()]


class _Replayed:
    """A script that grows with the lines of one connection."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._frames: list[Mapping[str, Any]] = []
        self._asked = False
        self._turn_open = False

    def add(self, step: Step) -> None:
        self._send()
        self._steps.append(step)

    def client(self, frame: Mapping[str, Any]) -> None:
        answer = frame.get("toolResponse") or frame.get("tool_response")
        if answer is not None:
            self.add(expect_tool_response())
        self._asked = self._asked or ("setup" not in frame and answer is None)

    def model(self, frame: Mapping[str, Any]) -> None:
        if "setupComplete" in frame:
            return
        if self._asked and not self._turn_open and _opens_turn(frame):
            self.add(expect_utterance())
            self._asked, self._turn_open = False, True
        self._frames.append(frame)
        if (frame.get("serverContent") or {}).get("turnComplete"):
            self._turn_open = False

    def finished(self) -> list[Step]:
        self._send()
        return self._steps

    def _send(self) -> None:
        if self._frames:
            self._steps.append(send(*self._frames))
            self._frames = []


def _opens_turn(frame: Mapping[str, Any]) -> bool:
    content = frame.get("serverContent") or {}
    return bool("toolCall" in frame or content.keys() & {"modelTurn", "inputTranscription", "outputTranscription"})
