"""The ASGI application: which path leads where."""

from __future__ import annotations

import html
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import Scope
from starlette.websockets import WebSocket

from live_gateway.errors import ConfigurationError
from live_gateway.runner import Runner
from live_gateway.server.edge import Edge
from live_gateway.server.gateway import Gateway, ServerConfig
from live_gateway.server.live_socket import LiveSocket
from live_gateway.server.rest import Rest
from live_gateway.server.rest.problems import http_problem
from live_gateway.server.run_live import RunLiveSocket

_MIME_TYPES = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}


def create_app(
    runners: Mapping[str, Runner] | Runner,
    config: ServerConfig | None = None,
    *,
    around: Callable[[], AbstractAsyncContextManager[object]] = nullcontext,
    static: Path | None = None,
) -> Starlette:
    """The application that serves these runners, by app name; a client that names no app gets the first.

    around: made and entered when the server starts, left when it stops (a store that is to be opened). static: the directory of the pages;
    None looks where they are installed. `app.state.gateway` is the `Gateway`.
    Raises `ConfigurationError` without a runner, or when there is no such directory.
    """
    gateway = Gateway(runners, config)
    rest = Rest(gateway)
    pages = static if static is not None else static_dir()
    if pages is not None and not pages.is_dir():
        raise ConfigurationError(f"there is no directory {str(pages)!r} with pages")

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with around(), rest:
            yield
            await gateway.drain()

    async def live(websocket: WebSocket) -> None:
        await LiveSocket(websocket, gateway).serve()

    async def run_live(websocket: WebSocket) -> None:
        await RunLiveSocket(websocket, gateway).serve()

    async def index(_request: Request) -> Response:
        page = pages / "index.html" if pages is not None else None
        if page is not None and page.is_file():
            return FileResponse(page, headers={"Cache-Control": "no-cache"}, media_type="text/html")
        return HTMLResponse(_plain_page(gateway))

    async def livez(_request: Request) -> Response:
        return PlainTextResponse("ok")

    async def readyz(_request: Request) -> Response:
        if gateway.draining:
            return JSONResponse({"ready": False, "reason": "drain"}, 503)
        return JSONResponse({"ready": True, "apps": list(gateway.runners)})

    routes: list[Any] = [
        WebSocketRoute("/live", live),
        WebSocketRoute("/run_live", run_live),
        Route("/", index),
        Route("/livez", livez),
        Route("/readyz", readyz),
        *rest.routes,
    ]
    if pages is not None:
        routes.append(Mount("/static", _Pages(directory=pages)))
    edge = Middleware(Edge, hosts=gateway.config.hosts, origins=gateway.config.origins)
    app = Starlette(routes=routes, middleware=[edge], lifespan=lifespan, exception_handlers={HTTPException: http_problem})
    app.state.gateway = gateway
    return app


def static_dir() -> Path | None:
    """The directory of the pages: inside the installed package, or beside it in a source tree; None where there is none."""
    package = Path(__file__).parent.parent
    for directory in (package / "static", package.parent / "static"):
        if directory.is_dir():
            return directory
    return None


class _Pages(StaticFiles):
    """Files that a browser asks for each time and gets only when they have changed: their names are not hashed."""

    def file_response(self, full_path: Any, stat_result: Any, scope: Scope, status_code: int = 200) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["Cache-Control"] = "no-cache"
        if media_type := _MIME_TYPES.get(Path(full_path).suffix):
            response.headers["Content-Type"] = f"{media_type}; charset=utf-8"  # the machine's own table of types may be wrong
        return response


def _plain_page(gateway: Gateway) -> str:
    apps = "".join(f"<li>{html.escape(name)}: {html.escape(runner.agent.name)}</li>" for name, runner in gateway.runners.items())
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>live_gateway</title><h1>live_gateway</h1>'
        f"<p>A voice agent is listening at the WebSocket <code>/live</code>.</p><p>Apps and their agents:</p><ul>{apps}</ul>"
        "<p>The pages are not installed here.</p></html>"
    )
