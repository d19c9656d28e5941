"""Several agents for tests of live sessions that move from one to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from live_gateway.agents.base import Agent
from live_gateway.agents.llm import LlmAgent
from live_gateway.content import TASK_COMPLETED, TRANSFER_TO_AGENT
from live_gateway.plugins.base import Plugin
from live_gateway.runner import Runner
from live_gateway.sessions.base import SessionService
from live_gateway.testing.scripted_live import ScriptedLiveModel
from live_gateway.testing.steps import Emit, Step, call, hang


def transfer(to: str, call_id: str = "t-1") -> list[Step]:
    """The model hands the conversation over. It is not answered, and says nothing more."""
    return [hand_over(to, call_id), hang()]


def hand_over(to: str, call_id: str = "t-1") -> Emit:
    """The model calls for another agent."""
    return call(TRANSFER_TO_AGENT, {"agent_name": to}, id=call_id)


def completes(call_id: str = "d-1") -> list[Step]:
    """The model says that its part of a sequence is done."""
    return [call(TASK_COMPLETED, {}, id=call_id), hang()]


def scripted(name: str, *scripts: Sequence[Step], allow: Sequence[Any] = (), **fields: Any) -> LlmAgent:
    """An agent whose live model plays these scripts, one for each connection."""
    return LlmAgent(name=name, live_model=ScriptedLiveModel(*scripts, name=f"model of {name}", allow=allow), **fields)


def model_of(agent: Agent) -> ScriptedLiveModel:
    """The scripted live model of an agent."""
    assert isinstance(agent, LlmAgent)
    assert isinstance(agent.live_model, ScriptedLiveModel)
    return agent.live_model


def verified(*agents: Agent) -> None:
    """Every script was played to its end, and nothing else was sent."""
    for agent in agents:
        model_of(agent).verify()


def family(root: Agent, *, plugins: Sequence[Plugin] = (), sessions: SessionService | None = None) -> Runner:
    """A runner of these agents, with everything in memory."""
    if sessions is None:
        return Runner.in_memory("app", root, plugins=plugins)
    return Runner(app_name="app", agent=root, session_service=sessions, plugins=plugins, auto_create_session=True)
