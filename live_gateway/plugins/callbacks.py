"""The hooks around an agent and around its model, the same for `run` and for live: the plugins' first, then the agent's own.

The first answer that is not None wins. A plugin's failure is a `PluginError`; the agent's own callback raises what it raises.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from live_gateway.agents.context import InvocationContext
from live_gateway.agents.custom import CustomAgent
from live_gateway.agents.llm import LlmAgent
from live_gateway.content import Content
from live_gateway.events import Event, EventActions
from live_gateway.models.base import ModelRequest, ModelResponse
from live_gateway.plugins.chain import PluginChain


async def around_agent(
    chain: PluginChain, invocation: InvocationContext, agent: LlmAgent | CustomAgent, hook: Literal["before_agent", "after_agent"]
) -> Event | None:
    """The event that the hook asks for, or that carries what it wrote to the state; None for neither."""
    content: Content | None = await chain.first(hook, invocation, agent)
    own = agent.before_agent if hook == "before_agent" else agent.after_agent
    if content is None and own is not None:
        content = await own(invocation)
    delta = invocation.take_delta()
    if content is None and not delta:
        return None
    return Event(
        author=agent.name,
        invocation_id=invocation.invocation_id,
        branch=invocation.branch,
        isolation_scope=invocation.isolation_scope,
        content=content,
        actions=EventActions(state_delta=delta),
    )


class ModelHooks:
    """What stands around the model of an agent in one invocation."""

    def __init__(self, chain: PluginChain, invocation: InvocationContext, agent: LlmAgent) -> None:
        self._chain = chain
        self._invocation = invocation
        self._agent = agent

    def has(self, hook: Literal["before_model", "after_model", "on_model_error"]) -> bool:
        """Whether anybody would be called."""
        return self._chain.has(hook) or getattr(self._agent, hook) is not None

    async def before(self, request: ModelRequest) -> ModelResponse | None:
        """An answer instead of the model's."""
        return await self._first("before_model", self._agent.before_model, request)

    async def after(self, response: ModelResponse) -> ModelResponse:
        """The model's answer, or what stands in its place; a piece stays a piece."""
        answer = await self._first("after_model", self._agent.after_model, response)
        return response if answer is None else dataclasses.replace(answer, partial=response.partial)

    async def on_error(self, request: ModelRequest, error: Exception) -> ModelResponse | None:
        """A whole answer in place of one that failed."""
        answer = await self._first("on_model_error", self._agent.on_model_error, request, error)
        return None if answer is None else dataclasses.replace(answer, partial=False)

    async def _first(self, hook: str, own: Any, *arguments: object) -> ModelResponse | None:
        answer: ModelResponse | None = await self._chain.first(hook, self._invocation, *arguments)
        if answer is None and own is not None:
            answer = await own(self._invocation, *arguments)
        return answer
