"""What a run hands around: the invocation, and what one tool call may reach."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from live_gateway.agents.base import Agent
from live_gateway.agents.config import LiveRunConfig, RunConfig
from live_gateway.agents.overlay import NOTHING, Overlay
from live_gateway.agents.services import ArtifactAccess, MemoryAccess
from live_gateway.confirmation import Decided, ToolConfirmation
from live_gateway.content import Content, Part
from live_gateway.errors import AgentError, ServiceMissing, ToolError
from live_gateway.events import Event, EventActions
from live_gateway.memory.base import MemoryEntry
from live_gateway.sessions.base import Session
from live_gateway.sessions.state import TEMP, DirtyState, without_temp
from live_gateway.tools.result import to_response


@dataclass(slots=True)
class ModelBudget:
    """How often models were asked in an invocation."""

    used: int = 0

    def spend(self, limit: int, agent: str) -> None:
        """Count one more request. Raises `AgentError` beyond the limit."""
        if self.used >= limit:
            raise AgentError(f"agent {agent!r} would ask its model more than {limit} times in one run (max_llm_calls)")
        self.used += 1


@dataclass(slots=True, kw_only=True)
class InvocationContext:
    """One logical run of one agent.

    user_content: what the user said to start it; None in live. pending: state written in this invocation and not stored yet, and all of
    its `temp:` keys; shared by all agents and tools of the invocation, as is the budget. delta: what callbacks wrote to `state`; it
    travels with the agent's next event. decided: what the user's message decided about calls that waited for it. artifacts, memory: None
    where no such service is configured. start: how an agent is run. overlays: what agents have by their place in the tree, by name.
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
    isolation_scope: str | None = None
    artifacts: ArtifactAccess | None = None
    memory: MemoryAccess | None = None
    budget: ModelBudget = field(default_factory=ModelBudget)
    delta: dict[str, Any] = field(default_factory=dict)
    decided: Decided | None = None
    start: Callable[[InvocationContext, Agent], AsyncIterator[Event]] | None = None
    overlays: Mapping[str, Overlay] = field(default_factory=dict)

    @property
    def overlay(self) -> Overlay:
        """What the agent has in this run beside what it was given."""
        return self.overlays.get(self.agent.name, NOTHING)

    def target(self, name: str) -> Agent:
        """The agent that is to take over. Raises `AgentError` where it may not."""
        if (target := self.overlay.targets.get(name)) is None:
            raise AgentError(f"failed to find agent: {name} (agent {self.agent.name!r} cannot hand over to it)")
        return target

    @property
    def state(self) -> DirtyState:
        """The state as this invocation sees it now. In `run`, what a callback writes is stored with the agent's next event."""
        return DirtyState(self.session.state, self.pending, self.delta)

    def take_delta(self) -> dict[str, Any]:
        """What callbacks wrote since the last time, for the event that is to carry it; `temp:` keys stay in the invocation."""
        taken, self.delta = self.delta, {}
        return without_temp(taken)

    def run(self, agent: Agent) -> AsyncIterator[Event]:
        """Run another agent inside this invocation: its events, for a custom agent to yield. Not in live."""
        if self.start is None:
            raise AgentError(f"agent {self.agent.name!r} cannot run {agent.name!r} here")
        return self.start(self, agent)

    def settle(self, event: Event) -> None:
        """The event was stored, or never will be: its keys no longer hide the stored state. `temp:` keys stay."""
        for key in event.actions.state_delta:
            if not key.startswith(TEMP):
                self.pending.pop(key, None)


class ToolContext:
    """What one running tool call may reach. Its state delta travels with the tool's response event."""

    def __init__(
        self, invocation: InvocationContext, call_id: str, *, confirmation: ToolConfirmation | None = None, may_ask: bool = True
    ) -> None:
        self.invocation = invocation
        self._call_id = call_id
        self._may_ask = may_ask and bool(call_id)
        self.confirmation = confirmation
        """The person's approval, with the payload of the answer, in the run of the call that follows it; None in any other."""
        self.requested: ToolConfirmation | None = None
        """What `request_confirmation` asked in this run of the call."""
        self._state = DirtyState(invocation.session.state, invocation.pending, {})
        self._saved: dict[str, int] = {}
        self.transfer_to_agent: str | None = None
        """Name of the agent that is to go on once this call was answered; one of `invocation.overlay.targets`."""
        self.end_of_agent = False
        """Whether the agent is done with its part of a sequence once this call was answered."""
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
        return EventActions(
            state_delta=dict(self._state.delta),
            artifact_delta=dict(self._saved),
            skip_summarization=self.skip_summarization,
            requested_tool_confirmations={} if self.requested is None else {self._call_id: asdict(self.requested)},
            transfer_to_agent=self.transfer_to_agent,
            end_of_agent=self.end_of_agent,
        )

    def take_actions(self) -> EventActions:
        """The side effects since the last time, for one of several response events."""
        taken = self.actions
        self._state.delta.clear()
        self._saved.clear()
        self.transfer_to_agent, self.end_of_agent = None, False
        return taken

    def request_confirmation(self, *, hint: str = "", payload: Any = None) -> None:
        """Have a person approve this call. Return after it: what the tool returns is dropped, and once approved, the call runs anew with
        `confirmation` set. hint: words for the person. payload: data (JSON) to decide by, or to be filled in.

        Raises `AgentError` outside of a running tool call, `ToolError` in a run that was approved already, or for too large a payload.
        """
        if not self._may_ask:
            raise AgentError("request_confirmation is for a tool call that has not been answered yet")
        if self.confirmation is not None:
            raise ToolError("this call was approved already; it cannot ask again")
        self.requested = ToolConfirmation(hint=hint, payload=None if payload is None else to_response({"payload": payload})["payload"])

    async def save_artifact(self, name: str, part: Part) -> int:
        """Store the next version of an artifact; its number (from 0) is recorded with the response. Raises `ServiceMissing`."""
        version = await self._artifacts().save(name, part)
        self._saved[name] = version
        return version

    async def load_artifact(self, name: str, version: int | None = None) -> Part | None:
        """A version of an artifact, the newest where none is named; None if there is no such one. Raises `ServiceMissing`."""
        return await self._artifacts().load(name, version)

    async def list_artifacts(self) -> Sequence[str]:
        """Names of the session's and of the user's artifacts. Raises `ServiceMissing`."""
        return await self._artifacts().list()

    async def search_memory(self, query: str) -> Sequence[MemoryEntry]:
        """What earlier sessions of the user say about the query. Raises `ServiceMissing`."""
        if self.invocation.memory is None:
            raise ServiceMissing("memory service is not set")
        return await self.invocation.memory.search(query)

    def _artifacts(self) -> ArtifactAccess:
        if self.invocation.artifacts is None:
            raise ServiceMissing("artifact service is not set")
        return self.invocation.artifacts

    def close(self) -> None:
        """The call is over. A thread that was given up may still hold the context: what it writes now raises `InvalidState`."""
        self._may_ask = False
        self._state.seal()

    def discard(self) -> None:
        """The call is over and gives no response: what it wrote is gone, since no event will store it."""
        self.close()
        self.invocation.settle(Event(author=self.invocation.agent.name, actions=self.actions))
