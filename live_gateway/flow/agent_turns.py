"""From one agent's turn to the next inside an invocation: after a transfer, and in a sequence."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from live_gateway.agents.base import Agent
from live_gateway.agents.context import InvocationContext
from live_gateway.agents.custom import CustomAgent
from live_gateway.agents.llm import LlmAgent
from live_gateway.agents.sequential import in_order
from live_gateway.errors import ConfigurationError
from live_gateway.events import Event
from live_gateway.flow.agent_turn import AgentTurn
from live_gateway.plugins.chain import PluginChain


def start_turns(invocation: InvocationContext, chain: PluginChain) -> AgentTurns:
    """The turns of the invocation's agent and of those that it hands over to.

    Raises `ConfigurationError` where somebody who is to work cannot: neither an `LlmAgent` nor a `CustomAgent`.
    """
    return AgentTurns(invocation, chain)


def agent_starter(chain: PluginChain) -> Callable[[InvocationContext, Agent], AsyncIterator[Event]]:
    """How one agent runs another inside an invocation: in a context of its own that shares state and budget. Raises as `start_turns`."""
    return lambda invocation, agent: start_turns(replace(invocation, agent=agent, delta={}), chain)


class AgentTurns:
    """The events of one turn after the other. An error that ends a turn is raised; whoever goes on iterating gets the next one's events."""

    def __init__(self, invocation: InvocationContext, chain: PluginChain) -> None:
        self._invocation = invocation
        self._chain = chain
        self._next: deque[LlmAgent | CustomAgent] = deque(_workers(invocation.agent))
        self._turn = self._begin()

    @property
    def ended(self) -> bool:
        """Whether nothing more comes."""
        return self._turn.ended and not self._next

    def __aiter__(self) -> AgentTurns:
        return self

    async def __anext__(self) -> Event:
        while True:
            try:
                return await anext(self._turn)
            except StopAsyncIteration:
                if self._turn.successor is not None:
                    self._next.extendleft(reversed(_workers(self._turn.successor)))
                if not self._next:
                    raise
            self._turn = self._begin()

    async def aclose(self) -> None:
        """End it here; what runs is cancelled when this returns."""
        self._next.clear()
        await self._turn.aclose()

    def _begin(self) -> AgentTurn:
        agent = self._next.popleft()
        invocation = self._invocation
        if agent is not invocation.agent:
            invocation = replace(invocation, agent=agent, delta={})
        return AgentTurn(invocation, self._chain, agent)


def _workers(agent: Agent) -> list[LlmAgent | CustomAgent]:
    found: list[LlmAgent | CustomAgent] = []
    for worker in in_order(agent):
        if not isinstance(worker, LlmAgent | CustomAgent):
            raise ConfigurationError(f"agent {worker.name!r} cannot run: it is neither an LlmAgent nor a CustomAgent")
        found.append(worker)
    return found
