"""The agent tree: who is whose parent, and who may answer next. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from live_gateway.agents.base import Agent
from live_gateway.agents.llm import LlmAgent, check_agent_name
from live_gateway.errors import ConfigurationError
from live_gateway.events import USER, Event


class AgentTree:
    """The agents below a root by name, and their parents; computed once.

    Raises `ConfigurationError` for an illegal name, one agent under two parents, or two agents of one name.
    """

    def __init__(self, root: Agent) -> None:
        self.root = root
        self._agents: dict[str, Agent] = {}
        self._parents: dict[str, Agent] = {}
        self._visit(root, None)

    @property
    def parents(self) -> Mapping[str, Agent]:
        """Name of a child to its parent; the root has no entry."""
        return self._parents

    def find(self, name: str) -> Agent | None:
        """The agent of this name."""
        return self._agents.get(name)

    def pick(self, events: Sequence[Event]) -> Agent:
        """Who answers next: the author of the newest event by an agent that may be handed the conversation; else the root."""
        for event in reversed(events):
            if event.author == USER or event.actions.compaction is not None:
                continue
            agent = self._agents.get(event.author)
            if agent is not None and self._transferable(agent):
                return agent
        return self.root

    def _transferable(self, agent: Agent) -> bool:
        """Whether every agent from this one up to the root is an LLM agent that may transfer to its parent."""
        current: Agent | None = agent
        while current is not None:
            if not isinstance(current, LlmAgent) or current.disallow_transfer_to_parent:
                return False
            current = self._parents.get(current.name)
        return True

    def _visit(self, agent: Agent, parent: Agent | None) -> None:
        check_agent_name(agent.name)
        known = self._agents.get(agent.name)
        if known is agent:
            first = self._parents.get(agent.name)
            names = f"{first.name if first else 'the root'!r} and {parent.name if parent else 'the root'!r}"
            raise ConfigurationError(f"agent {agent.name!r} has >1 parents: {names}")
        if known is not None:
            raise ConfigurationError(f"agent names must be unique in the tree; two agents are named {agent.name!r}")
        self._agents[agent.name] = agent
        if parent is not None:
            self._parents[agent.name] = parent
        for child in agent.sub_agents:
            self._visit(child, agent)
