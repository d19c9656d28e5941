"""One text run, from the user's message to `after_run`. It goes on only when its next event is asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from live_gateway.agents.config import RunConfig
from live_gateway.agents.context import InvocationContext
from live_gateway.agents.services import ArtifactAccess, MemoryAccess
from live_gateway.artifacts.base import ArtifactService
from live_gateway.confirmation import Decision
from live_gateway.content import Content
from live_gateway.errors import AgentError
from live_gateway.events import Event, new_invocation_id, replace
from live_gateway.flow.agent_turns import agent_starter, start_turns
from live_gateway.flow.closing import close, has_ended
from live_gateway.memory.base import MemoryService
from live_gateway.plugins.chain import PluginChain
from live_gateway.runner.message import keep_temporary, store_message
from live_gateway.runner.recent import RecentSessions
from live_gateway.runner.stream import Ending
from live_gateway.runner.tree import AgentTree
from live_gateway.sessions.base import Session, SessionService
from live_gateway.telemetry import get_logger

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParts:
    """What all runs of a runner share. open_session: finds or makes the session of a user and an id. recent: where it looks first."""

    app_name: str
    tree: AgentTree
    chain: PluginChain
    sessions: SessionService
    open_session: Callable[[str, str], Awaitable[Session]]
    recent: RecentSessions
    artifacts: ArtifactService | None = None
    memory: MemoryService | None = None

    def artifact_access(self, user_id: str, session_id: str) -> ArtifactAccess | None:
        """The artifacts of a session; None without an artifact service."""
        if self.artifacts is None:
            return None
        return ArtifactAccess(self.artifacts, app_name=self.app_name, user_id=user_id, session_id=session_id)

    def memory_access(self, user_id: str) -> MemoryAccess | None:
        """The memory of a user; None without a memory service."""
        return None if self.memory is None else MemoryAccess(self.memory, app_name=self.app_name, user_id=user_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What one run was asked for."""

    user_id: str
    session_id: str
    message: Content | None = None
    config: RunConfig = field(default_factory=RunConfig)
    state_delta: Mapping[str, Any] | None = None
    yield_user_message: bool = False


class TextRun:
    """The steps of a run, in their order: message, `before_run`, the agent's events, `after_run`."""

    def __init__(self, parts: RunParts, request: RunRequest) -> None:
        self._parts = parts
        self._request = request
        self._place: Literal["message", "before_run", "agent", "end"] = "message"
        self._invocation: InvocationContext | None = None
        self._turn: AsyncIterator[Event] | None = None
        self._said: list[Event] = []
        self._owes_after_run = False

    @property
    def ended(self) -> bool:
        """Whether nothing more comes."""
        return self._place == "end"

    async def next(self) -> Event:
        """The next event, stored if it is whole. Raises `StopAsyncIteration` at the end."""
        if self._place == "message":
            self._place = "end"  # whatever fails from here to the agent ends the run
            self._invocation, said = await self._begin()
            self._place = "before_run"
            self._said = said if self._request.yield_user_message else []
        if self._said:
            return self._said.pop(0)
        invocation = self._invocation
        if invocation is None:
            raise StopAsyncIteration
        if self._place == "before_run":
            self._place = "end"
            self._owes_after_run = True
            answer: Content | None = await self._parts.chain.first("before_run", invocation)
            if answer is not None:
                return await self._answer_instead(invocation, answer)
            self._turn = start_turns(invocation, self._parts.chain)
            self._place = "agent"
        if self._place == "agent" and self._turn is not None:
            return await self._from_agent(invocation, self._turn)
        raise StopAsyncIteration

    async def finish(self, how: Ending) -> Sequence[Exception]:
        """Cancel what runs, then `after_run`. Its first error is for a caller who read to the end; the others are logged."""
        self._place = "end"
        errors: Sequence[Exception] = ()
        try:
            if self._turn is not None:
                await close(self._turn)
        finally:
            if self._invocation is not None:
                self._parts.recent.keep(self._invocation.session)
            if self._owes_after_run and self._invocation is not None:
                self._owes_after_run = False
                errors = await self._parts.chain.after_run(self._invocation)
        shown = errors[:1] if how == "exhausted" else ()
        for error in errors[len(shown) :]:
            log.error("after_run_failed", error, session=self._request.session_id)
        return shown

    async def _begin(self) -> tuple[InvocationContext, list[Event]]:
        """Open the session, choose the agent, store the user's message."""
        parts, request = self._parts, self._request
        session = await parts.open_session(request.user_id, request.session_id)
        history = parts.recent.keep(session)
        caller = history.caller(request.message)
        _check_agents(parts.tree, history.questions.decisions(request.message))
        invocation = InvocationContext(
            app_name=parts.app_name,
            user_id=request.user_id,
            session=session,
            agent=parts.tree.choose(session.events, caller.agent if caller is not None else None),
            invocation_id=caller.invocation_id if caller is not None and caller.invocation_id else new_invocation_id(),
            user_content=request.message,
            run_config=request.config,
            artifacts=parts.artifact_access(request.user_id, request.session_id),
            memory=parts.memory_access(request.user_id),
            start=agent_starter(parts.chain),
            overlays=parts.tree.overlays,
        )
        said = await store_message(invocation, parts.chain, parts.sessions, request.state_delta, history.open_scope, history.questions)
        return invocation, said

    async def _answer_instead(self, invocation: InvocationContext, content: Content) -> Event:
        """A plugin answered: its content is the agent's one event."""
        event = Event(author=invocation.agent.name, invocation_id=invocation.invocation_id, content=content)
        return await self._parts.sessions.append_event(invocation.session, event)

    async def _from_agent(self, invocation: InvocationContext, turn: AsyncIterator[Event]) -> Event:
        try:
            event = await anext(turn)
        except BaseException:
            if has_ended(turn):
                self._place = "end"
            raise
        return await self._deliver(invocation, _stamped(event, invocation))

    async def _deliver(self, invocation: InvocationContext, event: Event) -> Event:
        """Plugins first, then the store, then the caller. What a plugin rejected is not stored, and the agent goes on; what the store
        did not take ends the run."""
        try:
            wanted = await self._parts.chain.on_event(invocation, event)
            if wanted.partial:
                return wanted
            self._place = "end"
            stored = await self._parts.sessions.append_event(invocation.session, wanted)
            self._place = "agent"
            keep_temporary(invocation, wanted)
            return stored
        finally:
            if not event.partial:
                invocation.settle(event)


def _stamped(event: Event, invocation: InvocationContext) -> Event:
    """The event with the invocation's id, and without the output that its message already says."""
    said = event.node_info is not None and event.node_info.message_as_output and event.content is not None and not event.partial
    if said and event.output is not None:
        event = replace(event, output=None)
    return event if event.invocation_id == invocation.invocation_id else replace(event, invocation_id=invocation.invocation_id)


def _check_agents(tree: AgentTree, decisions: Sequence[Decision]) -> None:
    """Raise `AgentError` where the agent that asked is gone; its question stays open."""
    for decision in decisions:
        if tree.find(decision.question.agent) is None:
            raise AgentError(f"agent {decision.question.agent!r}, which asked about {decision.question.call.name!r}, is not here any more")
