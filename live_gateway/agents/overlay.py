"""What an agent has in a run because of its place in the tree, beside what it was given: agents themselves are never changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from live_gateway.agents.base import Agent
from live_gateway.content import TASK_COMPLETED, TRANSFER_TO_AGENT
from live_gateway.tools.base import Effect as Effect
from live_gateway.tools.base import Tool
from live_gateway.tools.hand_over import TaskCompleted, TransferToAgent

RESERVED = frozenset({TRANSFER_TO_AGENT, TASK_COMPLETED})
"""Names that no tool of an agent may have: a model would not know which of two is meant."""


@dataclass(frozen=True, slots=True)
class Overlay:
    """targets: who may take over, by name. tools: those beside the agent's own. instruction: what follows the agent's own. refusals: why
    others near it cannot be called or take over, by name."""

    targets: Mapping[str, Agent] = field(default_factory=lambda: MappingProxyType({}))
    tools: Mapping[str, Tool] = field(default_factory=lambda: MappingProxyType({}))
    instruction: str = ""
    refusals: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


NOTHING = Overlay()


def overlay(targets: Sequence[Agent], refusals: Mapping[str, str], *, completes: bool) -> Overlay:
    """What comes with these targets. completes: whether the agent says itself when its part of a sequence is done."""
    tools: dict[str, Tool] = {}
    words: list[str] = []
    if targets:
        tools[TRANSFER_TO_AGENT] = TransferToAgent(tuple(target.name for target in targets), refusals)
        words.append(_whom_to_ask(targets))
    if completes:
        tools[TASK_COMPLETED] = TaskCompleted()
        words.append(f"When you are done with your part, call `{TASK_COMPLETED}`; the next agent then goes on. Say nothing after it.")
    named = {target.name: target for target in targets}
    return Overlay(MappingProxyType(named), MappingProxyType(tools), "\n\n".join(words), MappingProxyType(dict(refusals)))


def _whom_to_ask(targets: Sequence[Agent]) -> str:
    lines = [f"- {target.name}: {target.description}" if target.description else f"- {target.name}" for target in targets]
    return "\n".join(
        [
            "These agents can go on with the conversation instead of you:",
            *lines,
            f"If one of them is better suited for what the user wants, call `{TRANSFER_TO_AGENT}` with its name and say nothing else.",
        ]
    )
