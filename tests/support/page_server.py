"""A double of the gateway for tests of the page alone: it serves the page and speaks the wire as the test tells it to.

The page cannot tell it from the gateway; the test sees every frame and message that the page sent, and sends what it likes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from live_gateway.server.edge import SECURITY_HEADERS

ROOT = Path(__file__).parents[2]
HEADER = struct.Struct("<BBBBIIId")
SUBPROTOCOL = "live-gateway.v1"
AUDIO_DOWN = 2
END = 2

HEADERS = SECURITY_HEADERS | {"Content-Security-Policy": SECURITY_HEADERS["Content-Security-Policy"] + "; report-uri /csp-report"}


def now_ms() -> float:
    return time.time() * 1000


@dataclass(frozen=True, slots=True)
class UpFrame:
    """An audio frame of the page. `at`: when it arrived, epoch ms."""

    flags: int
    stream: int
    frame_no: int
    pos: int
    t: float
    pcm: bytes
    at: float


@dataclass(slots=True)
class Connection:
    """One socket of the page, from its `hello` on."""

    socket: WebSocket
    hello: dict[str, Any]
    frames: list[UpFrame] = field(default_factory=list)
    messages: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    frame_no: int = 0
    acknowledge: bool = True
    reading: asyncio.Event = field(default_factory=asyncio.Event)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        """What the page sent of one type, in order."""
        return [message for _, message in self.messages if message["type"] == kind]

    def marks(self, event: str) -> list[dict[str, Any]]:
        """Playback marks of one event, in order."""
        return [mark for mark in self.of_type("playback") if mark["event"] == event]

    async def until(self, condition: Callable[[], object], seconds: float = 15) -> None:
        """Wait until what the page sent fulfils a condition."""
        async with asyncio.timeout(seconds), self._news:
            await self._news.wait_for(lambda: bool(condition()))

    async def until_heard(self, seconds: float) -> None:
        """Wait until this much of the microphone has come."""
        await self.until(lambda: sum(len(frame.pcm) for frame in self.frames) >= seconds * 32_000, seconds * 2 + 20)

    async def arrived(self, thing: UpFrame | dict[str, Any]) -> None:
        """Note what the page sent."""
        if isinstance(thing, UpFrame):
            self.frames.append(thing)
        else:
            self.messages.append((now_ms(), thing))
        async with self._news:
            self._news.notify_all()

    async def send(self, kind: str, **fields: Any) -> None:
        await self.socket.send_text(json.dumps({"type": kind, **fields}))

    async def send_audio(self, response: int, pos: int, pcm: bytes, flags: int = 0) -> None:
        header = HEADER.pack(1, AUDIO_DOWN, flags, 0, response, self.frame_no, pos, now_ms())
        self.frame_no += 1
        await self.socket.send_bytes(header + pcm)

    async def say(self, response: int, pcm: bytes, *, turn: int | None = None, chunk: int = 1920) -> None:
        """A whole answer in one burst, as a model makes it: int16 mono at 24 kHz in pieces of 40 ms."""
        await self.send("response.start", response=response, turn=turn or response)
        await self.send("state", state="speaking")
        for start in range(0, len(pcm), chunk):
            await self.send_audio(response, start // 2, pcm[start : start + chunk])
        await self.send("response.audio.end", response=response, samples=len(pcm) // 2)

    async def transcript(self, item: str, role: str, text: str, **fields: Any) -> None:
        whole = {"turn": 1, "author": role, "delta": "", "final": True, "revision": 1, "start_ms": None, "end_ms": None, "source": "voice"}
        await self.send("transcript", item=item, role=role, text=text, **(whole | fields))

    async def close(self, code: int, reason: str = "") -> None:
        await self.socket.close(code, reason)


Script = Callable[[Connection, dict[str, Any]], Any]


class PageServer:
    """Serves the page of `static/` on a free port of the loopback interface, for as long as it is entered.

    script: an async function that is called with each JSON message of the page, `hello` included; it may answer.
    """

    def __init__(self, script: Script | None = None, *, host: str = "127.0.0.1") -> None:
        self.script = script
        self.host = host
        self.connections: list[Connection] = []
        self.reports: list[Any] = []
        self.refusing = False
        self.welcome: dict[str, Any] = {}
        self._opened = asyncio.Condition()
        self._runner = AppRunner(self._app(), host)

    @property
    def url(self) -> str:
        return self._runner.url

    async def __aenter__(self) -> Self:
        await self._runner.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._runner.__aexit__(kind, error, trace)

    async def connection(self, number: int = 0) -> Connection:
        """The page's connection of this number, as soon as it exists."""
        async with asyncio.timeout(20), self._opened:
            await self._opened.wait_for(lambda: len(self.connections) > number)
            return self.connections[number]

    def _app(self) -> ASGIApp:
        return with_page_headers(
            Starlette(
                routes=[
                    Route("/", page),
                    Route("/csp-report", self._report, methods=["POST"]),
                    Route("/tap-processor.js", tap),
                    Mount("/static", StaticFiles(directory=ROOT / "static")),
                    WebSocketRoute("/live", self._live),
                ]
            )
        )

    async def _report(self, request: Request) -> Response:
        self.reports.append(json.loads(await request.body()))
        return Response(status_code=204)

    async def _live(self, socket: WebSocket) -> None:
        if self.refusing:
            await socket.send_denial_response(JSONResponse({"error": "overload"}, 503))
            return
        await socket.accept(SUBPROTOCOL)
        hello = json.loads(await socket.receive_text())
        connection = Connection(socket, hello)
        connection.reading.set()
        try:
            await self._serve(connection)
        except (WebSocketDisconnect, RuntimeError):
            return
        finally:
            connection.closed.set()

    async def _serve(self, connection: Connection) -> None:
        if self.script is not None:
            await self.script(connection, connection.hello)
        await connection.send("welcome", **(self._standard_welcome(connection) | self.welcome))
        await connection.send("state", state="listening")
        async with self._opened:
            self.connections.append(connection)
            self._opened.notify_all()
        acked = 0.0
        async for message in receive(connection):
            await connection.arrived(message)
            if isinstance(message, UpFrame):
                if connection.acknowledge and message.at - acked > 500:
                    acked = message.at
                    await connection.send("input.ack", stream=message.stream, pos=message.pos + len(message.pcm) // 2)
                continue
            if message["type"] == "ping":
                await connection.send("pong", t0=message["t0"], t1=now_ms(), t2=now_ms())
            elif self.script is not None:
                await self.script(connection, message)

    def _standard_welcome(self, connection: Connection) -> dict[str, Any]:
        return {
            "v": 1,
            "session": connection.hello.get("session", f"s-{len(self.connections) + 1}"),
            "resume_token": None,
            "resume_ttl_s": 0,
            "resumed": False,
            "head_seq": 0,
            "replay_from": None,
            "acks": [],
            "upstream": "live",
            "model": "scripted",
            "input_hz": 16000,
            "output_hz": 24000,
            "limits": {"chunk_ms": 40},
            "features": ["playback", "input.mode"],
        }


async def receive(connection: Connection) -> AsyncIterator[UpFrame | dict[str, Any]]:
    """What the page sends, until it leaves; nothing is read while `reading` is not set."""
    while True:
        await connection.reading.wait()
        event = await connection.socket.receive()
        if event["type"] == "websocket.disconnect":
            return
        if event.get("text") is not None:
            yield json.loads(event["text"])
        else:
            data = event["bytes"]
            _, _, flags, _, stream, frame_no, pos, t = HEADER.unpack_from(data)
            yield UpFrame(flags, stream, frame_no, pos, t, data[HEADER.size :], now_ms())


async def page(_: Request) -> Response:
    return FileResponse(ROOT / "static" / "index.html")


async def tap(_: Request) -> Response:
    return FileResponse(ROOT / "tests" / "browser" / "tap-processor.js")


def with_page_headers(app: ASGIApp) -> ASGIApp:
    """The security headers that the gateway sends, and a report of each violation."""

    async def wrapped(scope: Scope, receive_: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await app(scope, receive_, send_with_headers)

    return wrapped


class _Server(uvicorn.Server):
    """Says when it listens, and leaves the signals to the test run."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class AppRunner:
    """Serves an ASGI application on a free port of this event loop. Entering waits until it listens."""

    def __init__(self, app: ASGIApp, host: str = "127.0.0.1") -> None:
        config = uvicorn.Config(app, host=host, port=0, log_level="error", ws="websockets-sansio", timeout_graceful_shutdown=1)
        self._server = _Server(config)
        self._tasks = asyncio.TaskGroup()
        self._host = host

    @property
    def port(self) -> int:
        port: int = self._server.servers[0].sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"http://{self._host}:{self.port}/"

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        self._tasks.create_task(self._server.serve())
        async with asyncio.timeout(20):
            await self._server.listening.wait()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.should_exit = True
        await self._tasks.__aexit__(None, None, None)  # a failed test still ends the server in its own way
