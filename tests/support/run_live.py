"""A client of `WS /run_live` over a real socket."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from live_gateway.runner import Runner
from live_gateway.sessions.base import Session
from tests.support.running_server import RunningServer

HERE = {"app_name": "demo", "user_id": "ada", "session_id": "s-1"}


class Client:
    """A client that reads Events."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.events: list[dict[str, Any]] = []

    async def send(self, **fields: Any) -> None:
        await self.socket.send(json.dumps(fields))

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(5):
            frame = await self.socket.recv()
        assert isinstance(frame, str)
        event: dict[str, Any] = json.loads(frame)
        assert None not in event.values()
        assert event.keys() >= {"id", "author", "actions", "timestamp"}
        self.events.append(event)
        return event

    async def until(self, key: str) -> dict[str, Any]:
        """The next event that has this field."""
        while key not in (event := await self.next()):
            pass
        return event

    async def error(self, code: str) -> dict[str, Any]:
        """The next event that is an error: this one."""
        event = await self.until("errorCode")
        assert event["errorCode"] == code, event
        assert event["errorMessage"]
        return event

    async def closed(self) -> tuple[int, str]:
        """How the server closes the connection."""
        return await closed_after(self.next)


@asynccontextmanager
async def talking(server: RunningServer, **query: Any) -> AsyncIterator[Client]:
    address = f"{server.url.replace('http', 'ws', 1)}/run_live?{urlencode(HERE | query, doseq=True)}"
    async with connect(address, max_size=None) as socket:
        yield Client(socket)


async def denied(server: RunningServer, query: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """The HTTP answer to a client that is not let in."""
    with pytest.raises(InvalidStatus) as caught:
        await connect(f"{server.url.replace('http', 'ws', 1)}/run_live?{urlencode(query, doseq=True)}")
    return caught.value.response.status_code, json.loads(caught.value.response.body or b"")


async def in_store(runner: Runner) -> Session:
    return await runner.session_service.get(app_name="demo", user_id="ada", session_id="s-1")


async def closed_after(read: Callable[[], Awaitable[object]]) -> tuple[int, str]:
    """Read until the server closes; code and reason."""
    try:
        while True:
            await read()
    except ConnectionClosed as closed:
        return (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd is not None else (1006, "")


async def until(done: Callable[[], object], seconds: float = 1.0) -> None:
    """Wait for something that nobody announces. Raises `TimeoutError`."""
    async with asyncio.timeout(seconds):
        while not done():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def blob(pcm: bytes, mime_type: str = "audio/pcm;rate=16000") -> dict[str, str]:
    return {"mime_type": mime_type, "data": base64.b64encode(pcm).decode()}


def text(words: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": words}]}
