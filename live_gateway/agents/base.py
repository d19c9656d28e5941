"""What every agent has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Agent(Protocol):
    """A node of the agent tree. Agents are data: no run changes one."""

    @property
    def name(self) -> str:
        """Unique in the tree; the author of the agent's events. Never empty, never `user`."""
        ...

    @property
    def description(self) -> str:
        """What it is good for, in a sentence; other agents' models read it."""
        ...

    @property
    def sub_agents(self) -> Sequence[Agent]:
        """Its children."""
        ...
