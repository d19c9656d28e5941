"""One agent's turn, of whatever kind, between its before and after hooks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal

from live_gateway.agents.base import Agent
from live_gateway.agents.context import InvocationContext
from live_gateway.agents.custom import CustomAgent
from live_gateway.agents.llm import LlmAgent
from live_gateway.errors import AgentError
from live_gateway.events import Event
from live_gateway.flow.closing import close, has_ended
from live_gateway.flow.llm_flow import LlmFlow
from live_gateway.plugins.callbacks import around_agent
from live_gateway.plugins.chain import PluginChain


class AgentTurn:
    """The events of one agent's turn: `before_agent` (plugins, then the agent's own), the agent, `after_agent` likewise.

    Content of `before_agent` is the agent's one event, and the agent is skipped; content of `after_agent` is one more event. What the
    hooks write to the state travels with that event, or with one of its own. An error of the agent is raised and need not be the end:
    where the agent goes on, so does the turn. After an error that ended the agent, `after_agent` is not called.
    """

    def __init__(self, invocation: InvocationContext, chain: PluginChain, agent: LlmAgent | CustomAgent) -> None:
        self._invocation = invocation
        self._chain = chain
        self._agent = agent
        self._body: AsyncIterator[object] | None = None
        self._place: Literal["before", "body", "after", "end"] = "before"
        self._failed = False

    @property
    def ended(self) -> bool:
        """Whether nothing more comes."""
        return self._place == "end"

    @property
    def successor(self) -> Agent | None:
        """Who goes on after this turn."""
        return self._body.successor if isinstance(self._body, LlmFlow) else None

    def __aiter__(self) -> AgentTurn:
        return self

    async def __anext__(self) -> Event:
        if self._place == "before":
            event = await self._before()
            if event is not None:
                return event
        if self._place == "body" and self._body is not None:
            event = await self._next(self._body)
            if event is not None:
                return event
        if self._place == "after":
            self._place = "end"
            event = await self._hook("after_agent")
            if event is not None:
                return event
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the turn here; what runs is cancelled when this returns."""
        self._place = "end"
        if self._body is not None:
            await close(self._body)

    async def _next(self, body: AsyncIterator[object]) -> Event | None:
        """The agent's next event; None when it is done."""
        try:
            event = await anext(body)
        except StopAsyncIteration:
            self._place = "end" if self._failed else "after"
            return None
        except BaseException:
            self._failed = True
            if has_ended(body):
                self._place = "end"
            raise
        self._failed = False
        if isinstance(event, Event):
            return event
        await self.aclose()
        raise AgentError(f"agent {self._agent.name!r} yielded {type(event).__name__} instead of an Event")

    async def _before(self) -> Event | None:
        self._place = "end"
        event = await self._hook("before_agent")
        if event is None or event.content is None:
            self._place = "body"
            self._body = self._start()
        return event

    def _start(self) -> AsyncIterator[object]:
        if isinstance(self._agent, LlmAgent):
            return LlmFlow(self._invocation, self._chain, self._agent)
        return self._agent.run(self._invocation)

    async def _hook(self, hook: Literal["before_agent", "after_agent"]) -> Event | None:
        return await around_agent(self._chain, self._invocation, self._agent, hook)
