"""Serve an application: one process, one port, a clean end."""

from __future__ import annotations

import errno
import gc
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from live_gateway.errors import ConfigurationError
from live_gateway.server.gateway import Gateway
from live_gateway.server.guard import GuardedHTTP, GuardedWS, check_server
from live_gateway.server.wire import MAX_MESSAGE
from live_gateway.voice.local import LocalVoice

PING_S = 20.0
UNACKNOWLEDGED_MS = 20_000
DRAIN_S = 5.0
BACKLOG = 2048


def serve(app: Starlette, host: str = "127.0.0.1", port: int = 8080, *, on_ready: Callable[[str], None] | None = None) -> None:
    """Serve until SIGTERM or SIGINT; then every client is told to come back (`goaway`, 1012) and the function returns.

    app: made by `create_app`. port: 0 takes a free one. on_ready: gets the address (`http://127.0.0.1:8080`) once clients can connect.
    Raises `ConfigurationError` when the port cannot be had.
    """
    listener = listen(host, port)
    try:
        make_server(app, on_ready=on_ready, listener=listener).run(sockets=[listener])
    finally:
        listener.close()


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises `ConfigurationError` saying why there is none."""
    if not 0 <= port <= 65_535:
        raise ConfigurationError(f"{port} is no port: ports are 0 to 65535")
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=BACKLOG)
    except OSError as error:
        raise ConfigurationError(_why_not(host, port, error)) from None
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS)  # inherited by every connection
    listener.setblocking(False)
    return listener


def make_server(app: Starlette, *, listener: socket.socket, on_ready: Callable[[str], None] | None = None) -> GatewayServer:
    """The server for this application, not yet running. Raises `ConfigurationError` when the installed uvicorn cannot be guarded."""
    check_server()
    config = uvicorn.Config(
        app,
        ws=GuardedWS,
        http=GuardedHTTP,
        ws_max_size=MAX_MESSAGE,
        ws_ping_interval=PING_S,
        ws_ping_timeout=PING_S,
        ws_per_message_deflate=False,
        lifespan="on",
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=int(DRAIN_S),
    )
    return GatewayServer(config, app.state.gateway, address_of(listener), on_ready)


class GatewayServer(uvicorn.Server):
    """A server that says good-bye before it goes: clients are told first, then the sockets are closed."""

    def __init__(self, config: uvicorn.Config, gateway: Gateway, address: str, on_ready: Callable[[str], None] | None) -> None:
        super().__init__(config)
        self._gateway = gateway
        self._address = address
        self._on_ready = on_ready
        self._leaving = False
        self._voice_is_kept = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        _keep_what_is_loaded()
        if self.started and self._on_ready is not None:
            self._on_ready(self._address)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal asks to stop; a second one does not wait."""
        self.force_exit = self._leaving
        self._leaving = True

    async def on_tick(self, counter: int) -> bool:
        if self._leaving:
            await self._gateway.drain(DRAIN_S)
            return True
        if not self._voice_is_kept and LocalVoice.shared().loaded:  # which may be long after the start
            self._voice_is_kept = True
            _keep_what_is_loaded()
        return await super().on_tick(counter)


def _keep_what_is_loaded() -> None:
    """What is loaded by now stays: looking through it again and again for garbage would only stall the loop."""
    gc.collect()
    gc.freeze()


def address_of(listener: socket.socket) -> str:
    """Where a browser on this machine finds what listens here."""
    host, port = listener.getsockname()[:2]
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _why_not(host: str, port: int, error: OSError) -> str:
    place = f"port {port} of {host}"
    match error.errno:
        case errno.EADDRINUSE:
            return f"{place} is already in use"
        case errno.EACCES:
            return f"{place} may not be used by this user; ports below 1024 often need more rights"
        case errno.EADDRNOTAVAIL:
            return f"{host} is no address of this machine"
        case _:
            return f"{place} cannot be used: {error.strerror or error}"
