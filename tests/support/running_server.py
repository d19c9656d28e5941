"""A real server on a free port of this machine, in the test's own loop."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette

from live_gateway.server.guard import GuardedHTTP, GuardedWS
from live_gateway.server.run import address_of, listen, make_server


class RunningServer:
    """`async with RunningServer(app) as server`: `server.url` is `http://127.0.0.1:<port>`."""

    def __init__(self, app: Starlette) -> None:
        self._listener = listen("127.0.0.1", 0)
        self._ready = asyncio.Event()
        self.url = address_of(self._listener)
        self.port = int(self._listener.getsockname()[1])
        self.server: uvicorn.Server = make_server(app, listener=self._listener, on_ready=lambda _: self._ready.set())
        self._group = asyncio.TaskGroup()

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        self._group.create_task(self._serve())
        await self._ready.wait()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.server.should_exit = True
        await self._group.__aexit__(kind, error, trace)

    async def _serve(self) -> None:
        try:
            await self.server.serve(sockets=[self._listener])
        finally:
            self._listener.close()


class BareServer(RunningServer):
    """The guarded protocols around any ASGI application, with settings of uvicorn of one's own."""

    def __init__(self, app: Any, **settings: Any) -> None:
        self._listener = listen("127.0.0.1", 0)
        self._ready = asyncio.Event()
        self.url = address_of(self._listener)
        self.port = int(self._listener.getsockname()[1])
        defaults: dict[str, Any] = {"ws": GuardedWS, "http": GuardedHTTP, "lifespan": "off", "log_config": None, "log_level": "critical"}
        self.server = _Announcing(uvicorn.Config(app, timeout_graceful_shutdown=1, **(defaults | settings)), self._ready)
        self._group = asyncio.TaskGroup()


class _Announcing(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: asyncio.Event) -> None:
        super().__init__(config)
        self._is_ready = ready

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets=sockets)
        self._is_ready.set()
