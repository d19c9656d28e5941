"""What a live session is opened with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from live_gateway.agents.config import LiveRunConfig
from live_gateway.agents.context import InvocationContext
from live_gateway.agents.llm import LlmAgent
from live_gateway.content import Content
from live_gateway.live.items import Notice
from live_gateway.models.live import History, LiveModel
from live_gateway.plugins.chain import PluginChain
from live_gateway.sessions.base import SessionService
from live_gateway.tools.base import Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveStart:
    """What the runner found out before the connection opens.

    instruction: makes the system instruction, templates filled, once the run's state delta is stored. history: what was said before, as it
    is stored when asked for. at: the same for another agent of the tree. continues: the invocation that said the newest of the history.
    early_exit: a plugin's answer instead of the agent. rest: who goes on after it, in a sequence. handed_over: whether another agent
    had the session before. watched: whether any agent's `after_model` is to see answers. effects: what each tool
    of the tree does, by name.
    """

    invocation: InvocationContext
    agent: LlmAgent
    model: LiveModel
    chain: PluginChain
    sessions: SessionService
    instruction: Callable[[], Awaitable[str]]
    history: Callable[[], Awaitable[History]]
    at: Callable[[LlmAgent], LiveStart]
    continues: str | None = None
    early_exit: Content | None = None
    rest: tuple[LlmAgent, ...] = ()
    handed_over: bool = False
    watched: bool = False
    effects: Mapping[str, Effect] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOptions:
    """What the caller of `run_live` asked for beside the config."""

    config: LiveRunConfig = field(default_factory=LiveRunConfig)
    state_delta: Mapping[str, Any] | None = None
    yield_user_message: bool = False
    on_notice: Callable[[Notice], None] | None = None
