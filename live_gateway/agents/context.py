"""What a run hands around: the invocation, and what one tool call may reach."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any

from live_gateway.agents.base import Agent
from live_gateway.agents.config import LiveRunConfig, RunConfig
from live_gateway.content import Content
from live_gateway.events import Event, EventActions
from live_gateway.sessions.base import Session
from live_gateway.sessions.state import TEMP, DirtyState


@dataclass(slots=True, kw_only=True)
class InvocationContext:
    """One logical run of one agent.

    user_content: what the user said to start it; None in live. pending: state written in this invocation and not stored yet, and all of
    its `temp:` keys; shared by all agents and tools of the invocation.
    """

    app_name: str
    user_id: str
    session: Session
    agent: Agent
    invocation_id: str
    user_content: Content | None = None
    run_config: RunConfig | LiveRunConfig | None = None
    pending: dict[str, Any] = field(default_factory=dict)
    branch: str | None = None

    @property
    def state(self) -> DirtyState:
        """The state as this invocation sees it now. Writes through this view stay in the invocation; a tool's are stored (`ToolContext`)."""
        return DirtyState(self.session.state, self.pending, {})

    def settle(self, event: Event) -> None:
        """The event was stored, or never will be: its keys no longer hide the stored state. `temp:` keys stay."""
        for key in event.actions.state_delta:
            if not key.startswith(TEMP):
                self.pending.pop(key, None)


class ToolContext:
    """What one running tool call may reach. Its state delta travels with the tool's response event."""

    def __init__(self, invocation: InvocationContext, call_id: str) -> None:
        self.invocation = invocation
        self._call_id = call_id
        self._state = DirtyState(invocation.session.state, invocation.pending, {})
        self.skip_summarization = False
        """Set it when the result speaks for itself and the model need not be asked again."""

    @property
    def call_id(self) -> str:
        """Id of the function call that is being answered."""
        return self._call_id

    @property
    def state(self) -> MutableMapping[str, Any]:
        """The session's state; writes are readable at once by later tools and stored with the response event."""
        return self._state

    @property
    def idempotency_key(self) -> str:
        """Session id and call id: equal on every attempt to run this call."""
        return f"{self.invocation.session.id}:{self._call_id}"

    @property
    def actions(self) -> EventActions:
        """The side effects collected so far, for the response event."""
        return EventActions(state_delta=dict(self._state.delta), skip_summarization=self.skip_summarization)
