"""The outermost layer of the application: who may ask, what every answer carries, what is logged, and that nothing escapes.

Host: a page on the internet can make its own name point at this machine (DNS rebinding) and then talk to a server that trusts its network.
So a request is answered only if its `Host` is an address, `localhost`, or a name that was allowed. Origin: a browser names the page that
opens a WebSocket or changes something; it must come from the same host, or from an origin that was allowed, exactly.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Awaitable, Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from live_gateway.clock import LoopClock
from live_gateway.telemetry import get_logger

log = get_logger(__name__)

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; connect-src 'self'; "
        "worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
        "trusted-types 'none'"
    ),
    "Permissions-Policy": "microphone=(self), camera=(self), display-capture=(self)",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class Edge:
    """ASGI middleware. hosts: names beside addresses and `localhost`; `*` allows all. origins: beside the same host, as `https://example.org`."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> None:
        self._app = app
        self._hosts = frozenset(name.lower() for name in hosts)
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)
        self._clock = LoopClock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        answer = _Answer(scope, send)
        began = self._clock.now()
        try:
            if refusal := self._refusal(scope):
                await answer.refuse(*refusal)
            else:
                await self._app(scope, receive, answer.send)
        except Exception as error:  # the edge: what nobody handled is logged by type and place, and never shown
            log.error("request_failed", error)
            await answer.fail()
        finally:
            duration_ms = round((self._clock.now() - began) * 1000)
            method = scope.get("method", "WEBSOCKET")
            log.info("request", method=method, path=scope["path"], status=answer.status, duration_ms=duration_ms)

    def _refusal(self, scope: Scope) -> tuple[int, str, str] | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        host = hosts[0] if len(hosts) == 1 else ""  # of several, what stands before this server may have read another one
        if not self._host_allowed(host):
            return 403, "host_refused", "This server does not answer under this name."
        origins = headers.getlist("origin")
        changes = scope["type"] == "websocket" or scope["method"] not in _SAFE_METHODS
        if changes and not all(self._origin_allowed(origin.lower(), host.lower()) for origin in origins):
            return 403, "origin_refused", "Pages of this origin may not use this server."
        return None

    def _host_allowed(self, host: str) -> bool:
        name = host_name(host)
        return name is not None and ("*" in self._hosts or name == "localhost" or name in self._hosts or _is_address(name))

    def _origin_allowed(self, origin: str, host: str) -> bool:
        if origin in self._origins:
            return True
        parts = urlsplit(origin)
        return parts.scheme in {"http", "https"} and parts.netloc == host and origin == f"{parts.scheme}://{parts.netloc}"


def host_name(host: str) -> str | None:
    """The name or address in a `Host` header, in lower case, without port and brackets; None when there is none."""
    try:
        parts = urlsplit(f"//{host}")
        legal = bool(host) and parts.netloc == host and parts.username is None and parts.port != 0
        return parts.hostname if legal else None
    except ValueError:
        return None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class _Answer:
    """What goes back: security headers on every answer, and an answer where the application gave none."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._websocket = scope["type"] == "websocket"
        self._send = send
        self.status: int | None = None
        self._accepted = False
        self._closed = False

    def send(self, message: Message) -> Awaitable[None]:
        """Look at what begins or ends an answer, and pass everything on. No coroutine: it would be one more for every frame."""
        kind = message["type"]
        if kind == "websocket.send":
            return self._send(message)
        if kind in {"http.response.start", "websocket.http.response.start"}:
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        elif kind == "websocket.accept":
            self.status, self._accepted = 101, True
        elif kind == "websocket.close":
            self._closed = True
            self.status = message.get("code", 1000) if self._accepted else 403
        return self._send(message)

    async def refuse(self, status: int, code: str, text: str) -> None:
        """Answer with an error as JSON; a WebSocket is not opened."""
        prefix = "websocket.http.response" if self._websocket else "http.response"
        body = json.dumps({"error": {"code": code, "message": text}}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await self.send({"type": f"{prefix}.start", "status": status, "headers": headers})
        await self.send({"type": f"{prefix}.body", "body": body})

    async def fail(self) -> None:
        """The application failed: say so, as far as that can still be said."""
        if self._accepted and not self._closed:
            await self.send({"type": "websocket.close", "code": 1011, "reason": "internal"})
        elif self.status is None:
            await self.refuse(500, "internal", "Something went wrong on the server.")
