"""The runner: agent, session store and plugins, and the two ways to run them.

A runner serves any number of runs at once and changes none of what it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from live_gateway.agents.base import Agent
from live_gateway.agents.config import LiveRunConfig, RunConfig
from live_gateway.agents.context import InvocationContext
from live_gateway.agents.llm import LlmAgent
from live_gateway.artifacts.base import ArtifactService
from live_gateway.content import Content
from live_gateway.errors import ConfigurationError, ModelUnavailable, SessionExists, SessionNotFound
from live_gateway.events import new_invocation_id
from live_gateway.flow.live_history import continued, live_history
from live_gateway.flow.request import instruction_of
from live_gateway.live.items import Notice
from live_gateway.live.session import LiveSession
from live_gateway.live.start import LiveOptions, LiveStart
from live_gateway.memory.base import MemoryService
from live_gateway.plugins.base import Plugin
from live_gateway.plugins.chain import PluginChain
from live_gateway.runner.recent import RecentSessions
from live_gateway.runner.run import RunParts, RunRequest, TextRun
from live_gateway.runner.stream import RunStream
from live_gateway.runner.tree import AgentTree, live_agents
from live_gateway.sessions.base import Session, SessionService
from live_gateway.telemetry import get_logger

log = get_logger(__name__)


class Runner:
    """Runs an agent tree over a store of sessions.

    app_name: whose sessions these are. artifact_service, memory_service: only what uses them needs them. auto_create_session: whether a
    session that is not there is made.
    Raises `ConfigurationError` for a missing part, an illegal tree, or two plugins of one name.
    """

    def __init__(
        self,
        *,
        app_name: str,
        agent: Agent,
        session_service: SessionService,
        artifact_service: ArtifactService | None = None,
        memory_service: MemoryService | None = None,
        plugins: Sequence[Plugin] = (),
        auto_create_session: bool = False,
    ) -> None:
        for name, value in (("agent", agent), ("session_service", session_service), ("app_name", app_name)):
            if not value:
                raise ConfigurationError(f"a runner needs a{'n' if name[0] == 'a' else ''} {name}")
        self.app_name = app_name
        self.agent = agent
        self.session_service = session_service
        self.artifact_service = artifact_service
        self._tree = AgentTree(agent)
        self._chain = PluginChain(plugins)
        self._auto_create = auto_create_session
        self._recent = RecentSessions(session_service, app_name)
        self._parts = RunParts(
            app_name=app_name,
            tree=self._tree,
            chain=self._chain,
            sessions=session_service,
            open_session=self._open_session,
            recent=self._recent,
            artifacts=artifact_service,
            memory=memory_service,
        )

    @classmethod
    def in_memory(cls, app_name: str, agent: Agent, *, plugins: Sequence[Plugin] = ()) -> Runner:
        """A runner whose sessions, artifacts and memory live in this process; sessions are made when needed. For tests and local use: no
        production set-up."""
        from live_gateway.artifacts.memory import InMemoryArtifactService
        from live_gateway.memory.in_memory import InMemoryMemoryService
        from live_gateway.sessions.memory import InMemorySessionService

        return cls(
            app_name=app_name,
            agent=agent,
            session_service=InMemorySessionService(),
            artifact_service=InMemoryArtifactService(),
            memory_service=InMemoryMemoryService(),
            plugins=plugins,
            auto_create_session=True,
        )

    def run(
        self,
        *,
        user_id: str,
        session_id: str,
        message: Content | None = None,
        config: RunConfig | None = None,
        state_delta: Mapping[str, Any] | None = None,
        yield_user_message: bool = False,
    ) -> RunStream:
        """The events of one run, as a stream that begins when it is read.

        message: what the user says; None goes on without. state_delta: stored with the message. yield_user_message: whether the message's
        stored event comes first. Reading raises `SessionNotFound`, `StorageError`, `PluginError`, `AgentError`, `ModelError`s,
        `ConfigurationError` for an agent that cannot run, `InvalidInput` for a message that cannot be taken, and what an agent raises.
        """
        request = RunRequest(
            user_id=user_id,
            session_id=session_id,
            message=message,
            config=config or RunConfig(),
            state_delta=state_delta,
            yield_user_message=yield_user_message,
        )
        return RunStream(TextRun(self._parts, request))

    def run_live(
        self,
        *,
        user_id: str,
        session_id: str,
        config: LiveRunConfig | None = None,
        state_delta: Mapping[str, Any] | None = None,
        yield_user_message: bool = False,
        on_notice: Callable[[Notice], None] | None = None,
    ) -> LiveSession:
        """A live session, to be entered: `async with runner.run_live(...) as live`. Nothing happens before.

        state_delta: stored as an event of the user before the model is connected. yield_user_message: whether the stored event of each
        `send` is also yielded. on_notice: takes what a person should know while entering takes its time.
        Entering raises `SessionNotFound`, `StorageError`, `PluginError`, `ModelUnavailable`, `SetupTimeout` and other `ModelError`s.
        """
        options = LiveOptions(
            config=config or LiveRunConfig(),
            state_delta=state_delta,
            yield_user_message=yield_user_message,
            on_notice=on_notice,
        )
        return LiveSession(partial(self._begin_live, user_id, session_id, options), options)

    async def _begin_live(self, user_id: str, session_id: str, options: LiveOptions) -> LiveStart:
        session = await self._open_session(user_id, session_id)
        agent, *rest = live_agents(self._tree.choose(session.events))
        invocation = InvocationContext(
            app_name=self.app_name,
            user_id=user_id,
            session=session,
            agent=agent,
            invocation_id=new_invocation_id(),
            run_config=options.config,
            artifacts=self._parts.artifact_access(user_id, session_id),
            memory=self._parts.memory_access(user_id),
            overlays=self._tree.live_overlays,
        )
        early_exit = await self._before_run(invocation)
        start = self._live_start(invocation, agent)
        return replace(start, rest=tuple(rest), continues=continued(invocation, agent), early_exit=early_exit)

    def _live_start(self, invocation: InvocationContext, agent: LlmAgent) -> LiveStart:
        """What this agent starts with in a live session."""
        if agent.live_model is None:
            raise ModelUnavailable(f"agent {agent.name!r} has no live_model")

        def at(other: LlmAgent) -> LiveStart:
            return replace(self._live_start(replace(invocation, agent=other, delta={}), other), handed_over=True)

        return LiveStart(
            invocation=invocation,
            agent=agent,
            model=agent.live_model,
            chain=self._chain,
            sessions=self.session_service,
            instruction=partial(instruction_of, invocation, agent),
            history=partial(live_history, invocation, agent),
            at=at,
            watched=self._tree.watched or self._chain.has("after_model"),
            effects=self._tree.effects,
        )

    async def _before_run(self, invocation: InvocationContext) -> Content | None:
        """The plugins' `before_run`. When it raises, `after_run` has run, and the caller gets the error."""
        try:
            answer: Content | None = await self._chain.first("before_run", invocation)
        except BaseException:
            for error in await self._chain.after_run(invocation):
                log.error("after_run_failed", error, plugin=error.plugin)
            raise
        return answer

    async def _open_session(self, user_id: str, session_id: str) -> Session:
        """The stored session, or a new one where that is allowed. Only *not found* leads to a new one; a lost race uses the winner's."""
        try:
            return await self._recent.get(user_id, session_id)
        except SessionNotFound:
            if not self._auto_create:
                raise
        try:
            return await self.session_service.create(app_name=self.app_name, user_id=user_id, session_id=session_id)
        except SessionExists:
            return await self._recent.get(user_id, session_id)
