"""The agent tree: who is whose parent, who may answer next, and who may hand over to whom. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from live_gateway.agents.base import Agent
from live_gateway.agents.llm import LlmAgent, check_agent_name
from live_gateway.agents.overlay import NOTHING, Effect, Overlay, overlay
from live_gateway.agents.sequential import SequentialAgent, in_order
from live_gateway.errors import ConfigurationError, ModelUnavailable
from live_gateway.events import USER, Event


class AgentTree:
    """The agents below a root by name, their parents, and what they have by their place; computed once.

    overlays, live_overlays: that of each agent, in `run` and in live. Raises `ConfigurationError` for an illegal name, one agent under two
    parents, or two agents of one name.
    """

    def __init__(self, root: Agent) -> None:
        self.root = root
        self._agents: dict[str, Agent] = {}
        self._parents: dict[str, Agent] = {}
        self._visit(root, None)
        everybody = [agent for agent in self._agents.values() if isinstance(agent, LlmAgent)]
        self.overlays: Mapping[str, Overlay] = {agent.name: self._overlay(agent, live=False) for agent in everybody}
        self.live_overlays: Mapping[str, Overlay] = {agent.name: self._overlay(agent, live=True) for agent in everybody}

    @property
    def effects(self) -> dict[str, Effect]:
        """What each tool of an agent does, by name; of two with one name, it is writing if one writes."""
        found: dict[str, Effect] = {}
        for agent in self._agents.values():
            own = agent.toolbox.values() if isinstance(agent, LlmAgent) else ()
            for tool in (*own, *self.live_overlays.get(agent.name, NOTHING).tools.values()):
                found[tool.name] = "write" if found.get(tool.name) == "write" else tool.effect
        return found

    @property
    def watched(self) -> bool:
        """Whether any agent has an `after_model`."""
        return any(isinstance(agent, LlmAgent) and agent.after_model is not None for agent in self._agents.values())

    @property
    def parents(self) -> Mapping[str, Agent]:
        """Name of a child to its parent; the root has no entry."""
        return self._parents

    def find(self, name: str) -> Agent | None:
        """The agent of this name."""
        return self._agents.get(name)

    def choose(self, events: Sequence[Event], caller: str | None = None) -> Agent:
        """Who answers: the agent whose call is answered, else who `pick` finds. A root with children that work on tasks goes on.

        Raises `ConfigurationError` where the root is an LLM agent that does not chat.
        """
        root = self.root
        if not isinstance(root, LlmAgent):
            return root
        if root.mode not in (None, "chat"):
            raise ConfigurationError(f"root agent {root.name!r} must be a chat LlmAgent, but has mode {root.mode!r}")
        if any(isinstance(child, LlmAgent) and child.mode == "task" for child in root.sub_agents):
            return root
        return self._agents.get(caller or "") or self.pick(events)

    def pick(self, events: Sequence[Event]) -> Agent:
        """Who answers next: the author of the newest event by an agent that may be handed the conversation; else the root."""
        for event in reversed(events):
            if event.author == USER or event.actions.compaction is not None:
                continue
            agent = self._agents.get(event.author)
            if agent is not None and self._transferable(agent):
                return agent
        return self.root

    def targets(self, agent: LlmAgent) -> list[Agent]:
        """Whom an agent may hand the conversation to: its children, its parent, and the parent's other children; of the parent and of
        these only where the parent is an LLM agent and the agent's flags allow it. Who works on tasks takes no conversation."""
        parent = self._parents.get(agent.name)
        near: list[Agent] = list(agent.sub_agents)
        if isinstance(parent, LlmAgent):
            near += [] if agent.disallow_transfer_to_parent else [parent]
            near += [] if agent.disallow_transfer_to_peers else [peer for peer in parent.sub_agents if peer is not agent]
        return [other for other in near if not _works_on_tasks(other)]

    def _overlay(self, agent: LlmAgent, *, live: bool) -> Overlay:
        targets = self.targets(agent)
        refusals = {
            child.name: f"agent {child.name!r} works on tasks; tasks cannot be given to it {'in a live session' if live else 'yet'}"
            for child in agent.sub_agents
            if _works_on_tasks(child)
        }
        if live:
            mute = {target.name: words for target in targets if (words := cannot_go_live(target)) is not None}
            targets = [target for target in targets if target.name not in mute]
            refusals |= mute
        return overlay(targets, refusals, completes=live and isinstance(self._parents.get(agent.name), SequentialAgent))

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


def cannot_go_live(agent: Agent) -> str | None:
    """Why an agent, or one of its sequence, cannot hold a live session; None where it can."""
    for worker in in_order(agent):
        if not isinstance(worker, LlmAgent):
            return f"agent {worker.name!r} does not support Live Run: it is no LlmAgent"
        if worker.live_model is None:
            return f"agent {worker.name!r} has no live_model"
    return None


def live_agents(agent: Agent) -> list[LlmAgent]:
    """Who holds the live session when this agent is to, one after the other. Raises `ConfigurationError` or `ModelUnavailable` naming the
    one that cannot."""
    if (words := cannot_go_live(agent)) is not None:
        missing = all(isinstance(worker, LlmAgent) for worker in in_order(agent))
        raise ModelUnavailable(words) if missing else ConfigurationError(words)
    return [worker for worker in in_order(agent) if isinstance(worker, LlmAgent)]


def _works_on_tasks(agent: Agent) -> bool:
    return isinstance(agent, LlmAgent) and agent.mode in ("task", "single_turn")
