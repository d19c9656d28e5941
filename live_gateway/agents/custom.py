"""An agent that is a function."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from live_gateway.agents.base import Agent
from live_gateway.agents.context import InvocationContext
from live_gateway.agents.llm import AgentCallback, check_agent_name
from live_gateway.errors import ConfigurationError
from live_gateway.events import Event


@dataclass(frozen=True, kw_only=True, eq=False)
class CustomAgent:
    """An agent whose `run` makes its events, usually an async generator function.

        async def run(ctx):
            yield Event(author="greeter", content=...)
            async for event in ctx.run(child):
                yield event

    Each event is stored before the function goes on after its `yield`, so what it reads then is what was stored. Raises
    `ConfigurationError` for an illegal name.
    """

    name: str
    run: Callable[[InvocationContext], AsyncIterator[Event]]
    description: str = ""
    sub_agents: Sequence[Agent] = ()
    before_agent: AgentCallback | None = None
    after_agent: AgentCallback | None = None

    def __post_init__(self) -> None:
        check_agent_name(self.name)
        if len({id(child) for child in self.sub_agents}) != len(self.sub_agents):
            raise ConfigurationError(f"agent {self.name!r} lists the same sub-agent twice")
