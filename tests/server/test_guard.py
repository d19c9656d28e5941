"""The six holes of the stock server, closed: raw sockets against a real port, bounded."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from starlette.types import Receive, Scope, Send

from live_gateway.errors import ConfigurationError
from live_gateway.server import guard
from live_gateway.server.guard import check_server
from tests.support.running_server import BareServer

HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
MASK = b"\0\0\0\0"
PING = b"\x89\xfd" + MASK + bytes(125)
TEXT_BEGINS = b"\x01\x80" + MASK
NOTHING_GOES_ON = b"\x00\x80" + MASK


async def hello_world(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that answers requests and listens to WebSockets."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})
        return
    await receive()
    await send({"type": "websocket.accept"})
    while (await receive())["type"] != "websocket.disconnect":
        pass


class Flood:
    """An application that sends without end, and tells when it was set free."""

    def __init__(self) -> None:
        self.freed = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        try:
            while True:
                await send({"type": "websocket.send", "bytes": bytes(65_536)})
        except OSError:
            self.freed.set()


@asynccontextmanager
async def raw(port: int) -> AsyncIterator[socket.socket]:
    """A socket with a small receive buffer, so that a reader who takes nothing is noticed soon."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        client.setblocking(False)
        await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", port))
        yield client


async def closed_after(client: socket.socket, limit_s: float) -> bytes:
    """What came until the server closed the connection. Fails when it does not in time."""
    loop = asyncio.get_running_loop()
    received = b""
    async with asyncio.timeout(limit_s):
        with contextlib.suppress(ConnectionError):
            while data := await loop.sock_recv(client, 65_536):
                received += data
    return received


async def sent_until_dropped(client: socket.socket, piece: bytes, limit: int) -> int:
    """How many bytes could be sent until the server dropped the connection; `limit` when it did not."""
    sent = 0
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(30):
            while sent < limit:
                await asyncio.get_running_loop().sock_sendall(client, piece)
                sent += len(piece)
    return sent


async def shake_hands(client: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(client, HANDSHAKE)
    assert b"101 Switching" in await loop.sock_recv(client, 4096)


async def test_h1_a_reader_that_takes_nothing_is_dropped() -> None:
    flood = Flood()
    async with BareServer(flood, ws_ping_interval=0.2, ws_ping_timeout=0.2) as server, raw(server.port) as client:
        await asyncio.get_running_loop().sock_sendall(client, HANDSHAKE)
        async with asyncio.timeout(5):
            await flood.freed.wait()


async def test_h2_a_flood_of_pings_that_reads_nothing_is_dropped() -> None:
    async with BareServer(hello_world, ws_ping_interval=None) as server, raw(server.port) as client:
        await shake_hands(client)
        assert await sent_until_dropped(client, PING * 500, 100_000_000) < 40_000_000


async def test_h3_a_message_has_a_bounded_number_of_fragments() -> None:
    async with BareServer(hello_world) as server:
        async with raw(server.port) as client:
            await shake_hands(client)
            await asyncio.get_running_loop().sock_sendall(client, TEXT_BEGINS + NOTHING_GOES_ON * 64)
            assert b"\x03\xf0too many fragments" in await closed_after(client, 2)
        async with raw(server.port) as client:
            await shake_hands(client)
            await asyncio.get_running_loop().sock_sendall(client, TEXT_BEGINS + NOTHING_GOES_ON * 63 + PING)
            assert await asyncio.get_running_loop().sock_recv(client, 4096) == b"\x8a\x7d" + bytes(125)


@pytest.mark.parametrize("head", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "])
async def test_h4_a_head_that_never_ends_has_a_deadline(monkeypatch: pytest.MonkeyPatch, head: bytes) -> None:
    monkeypatch.setattr(guard, "HEAD_S", 0.3)
    async with BareServer(hello_world) as server, raw(server.port) as client:
        await asyncio.get_running_loop().sock_sendall(client, head)
        began = asyncio.get_running_loop().time()
        assert await closed_after(client, 2) == b""
        assert asyncio.get_running_loop().time() - began > 0.2


async def test_h4_a_head_that_ended_and_an_open_websocket_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "HEAD_S", 0.2)
    loop = asyncio.get_running_loop()
    async with BareServer(hello_world) as server, raw(server.port) as client, raw(server.port) as websocket:
        await loop.sock_sendall(client, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await loop.sock_recv(client, 4096)).startswith(b"HTTP/1.1 200")
        await shake_hands(websocket)
        await asyncio.sleep(0.4)
        await loop.sock_sendall(websocket, PING)
        assert (await loop.sock_recv(websocket, 4096)).startswith(b"\x8a")
        await loop.sock_sendall(client, b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Half: ")  # the next head has a deadline again
        await closed_after(client, 2)


async def test_h5_a_head_has_a_bounded_size() -> None:
    loop = asyncio.get_running_loop()
    async with BareServer(hello_world) as server:
        async with raw(server.port) as client:
            await loop.sock_sendall(client, b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"a" * 30_000 + b"\r\n\r\n")
            assert (await loop.sock_recv(client, 4096)).startswith(b"HTTP/1.1 200")
        async with raw(server.port) as client:
            await loop.sock_sendall(client, b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
            sent = await sent_until_dropped(client, b"a" * 8192, 50_000_000)
            assert sent < 2_000_000  # what fits into the kernel's buffers; the server itself took 32 KiB


async def test_h5_a_long_body_is_no_long_head() -> None:
    loop = asyncio.get_running_loop()
    async with BareServer(hello_world) as server, raw(server.port) as client:
        body = b"b" * 100_000
        head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
        await loop.sock_sendall(client, head + body)
        assert (await loop.sock_recv(client, 4096)).startswith(b"HTTP/1.1 200")


def test_the_installed_server_can_be_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    check_server()
    monkeypatch.delattr("uvicorn.protocols.websockets.websockets_sansio_impl.WebSocketsSansIOProtocol.handle_cont")
    with pytest.raises(ConfigurationError, match="handle_cont"):
        check_server()


@pytest.mark.parametrize("header", [b"Content-Length: 5", b"X: " + bytes([120]) * 16_000], ids=["a body", "a long line"])
async def test_an_upgrade_that_is_none_is_answered_and_closed(header: bytes) -> None:
    async with BareServer(hello_world) as server, raw(server.port) as client:
        await asyncio.get_running_loop().sock_sendall(client, HANDSHAKE.replace(b"Host:", header + b"\r\nHost:"))
        answer = await closed_after(client, 5)
        assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))
