"""A real HTTP server on the loopback for tests of clients: it answers from a list, in order, and keeps what it was asked."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer: a body of JSON, or chunks as server-sent events. `stall`: say nothing more after the chunks, until told to stop."""

    status: int = 200
    body: Any = None
    chunks: Sequence[Any] | None = None
    stall: bool = False
    break_off: bool = False


@dataclass(slots=True)
class Provider:
    """The server: its address, and the requests it got, each as path, headers and body."""

    url: str
    replies: list[Reply]
    asked: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: Request) -> Response:
        self.asked.append((request.url.path, dict(request.headers), await request.json()))
        if not self.replies:
            return JSONResponse({"error": {"message": "the test has no reply left"}}, status_code=418)
        reply = self.replies.pop(0)
        if reply.chunks is None:
            return JSONResponse(reply.body, status_code=reply.status)
        return StreamingResponse(self._stream(reply), media_type="text/event-stream")

    async def _stream(self, reply: Reply) -> AsyncIterator[str]:
        for chunk in reply.chunks or ():
            yield f"data: {chunk if isinstance(chunk, str) else json.dumps(chunk)}\n\n"
        if reply.stall:
            await self.stopped.wait()
        if reply.break_off:
            raise ConnectionResetError


@asynccontextmanager
async def provider(*replies: Reply) -> AsyncIterator[Provider]:
    """Run the server while the block runs."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        serving = Provider(f"http://127.0.0.1:{listener.getsockname()[1]}", list(replies))
        app = Starlette(routes=[Route("/{path:path}", serving.answer, methods=["POST"])])
        config = uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        async with asyncio.TaskGroup() as group:
            group.create_task(server.serve(sockets=[listener]))
            try:
                yield serving
            finally:
                serving.stopped.set()
                server.should_exit = True


def refused_url() -> str:
    """An address where nobody listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}"
