"""Agents that work one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from live_gateway.agents.base import Agent
from live_gateway.agents.llm import check_agent_name
from live_gateway.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True, eq=False)
class SequentialAgent:
    """An order in which its agents work, each once: the next begins when the one before it is done, also where that failed.

    In `run` an agent is done when its turn is over. In live it says so by calling `task_completed`, which every `LlmAgent` of the sequence
    has there. The sequence itself says nothing, and hooks are called for its agents only.
    Raises `ConfigurationError` for an illegal name, no agents, or one that is listed twice.
    """

    name: str
    sub_agents: Sequence[Agent]
    description: str = ""

    def __post_init__(self) -> None:
        check_agent_name(self.name)
        if not self.sub_agents:
            raise ConfigurationError(f"sequential agent {self.name!r} has no sub-agents")
        if len({id(child) for child in self.sub_agents}) != len(self.sub_agents):
            raise ConfigurationError(f"agent {self.name!r} lists the same sub-agent twice")


def in_order(agent: Agent) -> list[Agent]:
    """Who works when this agent is to work: itself, or the agents of a sequence, sequences inside it included."""
    if not isinstance(agent, SequentialAgent):
        return [agent]
    return [worker for child in agent.sub_agents for worker in in_order(child)]
