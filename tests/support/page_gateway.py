"""The real gateway and its page, for tests with a browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from starlette.applications import Starlette
from starlette.routing import Mount, Route

from live_gateway.agents.llm import LlmAgent
from live_gateway.runner import Runner
from live_gateway.server.app import create_app
from live_gateway.sessions.memory import InMemorySessionService
from tests.support.page_server import AppRunner, tap


class PageGateway:
    """Serves an agent, and beside the gateway's own paths the recorder of what reaches the speaker. runner: to look into the store."""

    def __init__(self, agent: LlmAgent) -> None:
        self.runner = Runner(app_name="app", agent=agent, session_service=InMemorySessionService(), auto_create_session=True)
        gateway = create_app(self.runner)
        routes = [Route("/tap-processor.js", tap), Mount("/", gateway)]

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            async with gateway.router.lifespan_context(gateway):
                yield

        self._server = AppRunner(Starlette(routes=routes, lifespan=lifespan))

    @property
    def url(self) -> str:
        return self._server.url

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._server.__aexit__(kind, error, trace)
