"""An HTTP client without a socket: it drives an ASGI application in the same loop, so that virtual time works and streams can be left."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.types import Message

from live_gateway.channel import Channel, ChannelClosed

DEADLINE_S = 120.0
"""What has not come by then (in the loop's time) never comes."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a stream of events. comment: of a frame that is nothing else."""

    id: int | None = None
    data: Any = None
    comment: str | None = None


@dataclass(slots=True)
class Exchange:
    """One request and its response. `async with`: sent when entered; when left, the client is gone."""

    app: Starlette
    scope: dict[str, Any]
    body: bytes
    reads: bool = True
    stalls: bool = False
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    _to_app: Channel[Message] = field(default_factory=lambda: Channel(1000))
    _from_app: Channel[Message] = field(default_factory=lambda: Channel(100_000))
    _group: asyncio.TaskGroup = field(default_factory=asyncio.TaskGroup)
    _reading: asyncio.Event = field(default_factory=asyncio.Event)
    _text: str = ""
    _over: bool = False

    async def __aenter__(self) -> Self:
        if self.reads:
            self._reading.set()
        await self._group.__aenter__()
        self._to_app.put_nowait({"type": "http.request", "body": self.body, "more_body": self.stalls})
        self._group.create_task(self._run())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.leave()
        await self._group.__aexit__(kind, error, trace)

    def leave(self) -> None:
        """Be gone."""
        self._reading.set()
        if not self._to_app.closed:
            self._to_app.put_nowait({"type": "http.disconnect"})
            self._to_app.close()

    def read_on(self) -> None:
        """Take what comes, after having taken nothing."""
        self._reading.set()

    async def started(self) -> int:
        """The status, as soon as it is there."""
        if not self.status:
            message = await self._receive()
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        return self.status

    async def whole(self) -> Answer:
        """The response, to its end."""
        await self.started()
        body = bytearray()
        while True:
            message = await self._receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                return Answer(self.status, self.headers, bytes(body))

    async def frame(self) -> Frame | None:
        """The next frame of a stream of events; None at its end."""
        await self.started()
        while "\n\n" not in self._text:
            if self._over:
                assert not self._text, "the stream ended within a frame"
                return None
            message = await self._receive()
            self._text += message.get("body", b"").decode()
            self._over = not message.get("more_body")
        text, _, self._text = self._text.partition("\n\n")
        return _frame(text)

    async def frames(self) -> list[Frame]:
        """The frames to the end of the stream."""
        found = []
        while (frame := await self.frame()) is not None:
            found.append(frame)
        return found

    async def _receive(self) -> Message:
        async with asyncio.timeout(DEADLINE_S):
            return await self._from_app.get()

    async def _run(self) -> None:
        try:
            await self.app(self.scope, self._to_app_get, self._take)
        finally:
            self.finished.set()
            self._from_app.close()

    async def _to_app_get(self) -> Message:
        try:
            return await self._to_app.get()
        except ChannelClosed:
            return {"type": "http.disconnect"}

    async def _take(self, message: Message) -> None:
        await self._reading.wait()
        self._from_app.put_nowait(message)


class HttpClient:
    """`async with HttpClient(app) as client`: the application is started when entered and stopped when left."""

    def __init__(self, app: Starlette) -> None:
        self.app = app
        self._lifespan = app.router.lifespan_context(app)

    async def __aenter__(self) -> Self:
        await self._lifespan.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._lifespan.__aexit__(kind, error, trace)

    def open(
        self,
        method: str,
        path: str,
        *,
        data: Any = None,
        raw: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        reads: bool = True,
        stalls: bool = False,
    ) -> Exchange:
        """A request that is not sent yet. data: its body, as JSON; raw: as it is. reads: whether anything of the response is taken.
        stalls: whether the rest of the body never comes."""
        body = raw if raw is not None else json.dumps(data).encode() if data is not None else b""
        given = {"host": "localhost", **({"content-type": "application/json"} if body else {}), **(headers or {})}
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        return Exchange(self.app, scope, body, reads, stalls)

    async def ask(self, method: str, path: str, data: Any = None, **options: Any) -> Answer:
        """Send a request and get the whole response."""
        async with self.open(method, path, data=data, **options) as exchange:
            return await exchange.whole()

    async def get(self, path: str) -> Answer:
        """GET."""
        return await self.ask("GET", path)

    async def post(self, path: str, data: Any = None, **options: Any) -> Answer:
        """POST."""
        return await self.ask("POST", path, data, **options)


def _frame(text: str) -> Frame:
    number, data, comment = None, None, None
    for line in text.split("\n"):
        name, _, value = line.partition(": ")
        if line.startswith(":"):
            comment = line[1:].strip()
        elif name == "id":
            number = int(value)
        elif name == "data":
            data = json.loads(value)
        else:
            raise AssertionError(f"no line of a stream of events: {line!r}")
    return Frame(number, data, comment)
