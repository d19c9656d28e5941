"""What the stock server lets a stranger do, and how it is stopped: uvicorn's protocols with six holes closed.

H1  A reader that takes nothing keeps its connection for ever: the keepalive's close waits for a flush that never comes. Here it aborts, and
    the kernel gives up on unacknowledged data (`TCP_USER_TIMEOUT`, set on the listening socket in `run`).
H2  Pongs are written without flow control: whoever sends pings and reads nothing fills the memory. Here a backlog of 1 MiB aborts.
H3  Empty continuation frames are kept without limit. Here a message has at most 64 fragments.
H4  A connection that never completes its request head is never closed. Here it has 10 s.
H5  A request head may have any size. Here it has at most 32 KiB.
H6  An exception in the application closes without a close frame: `edge` and `live_socket` always close with a code and a short reason.

The overridden methods are no public API, so `check_server` looks for them before anything is served.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.server import ServerProtocol

from live_gateway.errors import ConfigurationError

TRANSPORT = "live_gateway.transport"
"""The key under which the scope's `extensions` hold the transport of a WebSocket: to abort it."""

HEAD_S = 10.0
MAX_HEAD = 32 * 1024
MAX_FRAGMENTS = 64
MAX_PONG_BACKLOG = 1024 * 1024
WRITE_BUFFER = 32 * 1024
"""What may wait in this process for a socket before `send` waits: little, so that an interruption overtakes as much audio as possible."""

LARGE_MESSAGES = {"/run_live": 4 * 1024 * 1024}
"""Paths whose clients put images inside JSON, and what a message there may have at most; elsewhere it is what the server says."""

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class GuardedHTTP(HttpToolsProtocol):
    """HTTP with a deadline (H4) and a bound (H5) on the request head."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_head = True
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begin_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        while data and self._in_head and not self.transport.is_closing():
            room = MAX_HEAD - self._head_bytes
            if room <= 0:
                self._end_head()
                self.transport.write(_TOO_LARGE)
                self.transport.abort()
                return
            piece, data = data[:room], data[room:]
            self._head_bytes += len(piece)
            super().data_received(piece)
            if self.transport.get_protocol() is not self:
                return  # it became a WebSocket; nothing may follow before our answer
        if data and not self.transport.is_closing():
            super().data_received(data)

    def on_message_begin(self) -> None:
        if not self._in_head:
            self._begin_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._end_head()
        super().on_headers_complete()

    def _begin_head(self) -> None:
        self._end_head()
        self._in_head = True
        self._head_bytes = 0
        self._head_timer = self.loop.call_later(HEAD_S, self.transport.abort)

    def _end_head(self) -> None:
        self._in_head = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class GuardedWS(WebSocketsSansIOProtocol):
    """WebSockets whose peer can neither stay without reading (H1, H2), nor send without end (H3), nor stay without having been let in."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER)
        if hasattr(socket, "TCP_NOTSENT_LOWAT") and (sock := transport.get_extra_info("socket")) is not None:
            with contextlib.suppress(OSError):  # no TCP socket
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, WRITE_BUFFER)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated and not self.transport.is_closing():
            # an upgrade that cannot be parsed (a body, a line too long): the parser is done with it, and nobody else would say so
            self.transport.write(b"".join(self.conn.data_to_send()) or _BAD_REQUEST)
            self.transport.close()

    def handle_connect(self, event: Any) -> None:
        if (large := LARGE_MESSAGES.get(event.path.partition("?")[0])) is not None:
            setattr(self.conn, _BOUND, large)
        super().handle_connect(event)
        if (scope := getattr(self, "scope", None)) is not None:
            cast("dict[str, Any]", scope["extensions"])[TRANSPORT] = self.transport

    def handle_ping(self) -> None:
        if self.transport.get_write_buffer_size() > MAX_PONG_BACKLOG:
            self.transport.abort()
        else:
            super().handle_ping()

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) < MAX_FRAGMENTS:
            super().handle_cont(event)
        elif not self.transport.is_closing():
            self.conn.fail(1008, "too many fragments")
            self.handle_parser_exception()
            self.transport.abort()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.transport.abort()


_BOUND = "max_message_size" if "max_message_size" in vars(ServerProtocol()) else "max_size"
"""What websockets calls the bound on a message: the second until version 15."""

_OVERRIDDEN: dict[type, tuple[str, ...]] = {
    HttpToolsProtocol: ("connection_made", "connection_lost", "data_received", "on_message_begin", "on_headers_complete"),
    WebSocketsSansIOProtocol: (
        "connection_made",
        "data_received",
        "handle_connect",
        "handle_ping",
        "handle_cont",
        "handle_parser_exception",
        "keepalive_timeout",
    ),
}


def check_server() -> None:
    """Make sure that the installed uvicorn still has what the guards override. Raises `ConfigurationError` when it has not."""
    missing = [
        f"{kind.__name__}.{name}" for kind, names in _OVERRIDDEN.items() for name in names if not callable(getattr(kind, name, None))
    ]
    if _BOUND not in vars(ServerProtocol()):
        missing.append(f"ServerProtocol.{_BOUND}")
    if missing:
        raise ConfigurationError(
            f"this version of uvicorn cannot be guarded: it has no {', '.join(missing)}; install the one that is required"
        )
