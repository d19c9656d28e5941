"""An invocation without a runner, for tests of what happens inside one."""

from __future__ import annotations

from typing import Any

from live_gateway.agents.base import Agent
from live_gateway.agents.context import InvocationContext
from live_gateway.sessions.base import Session
from live_gateway.sessions.state import read_only


def make_invocation(agent: Agent, state: dict[str, Any] | None = None) -> InvocationContext:
    """An invocation of this agent in a session with this state."""
    session = Session(app_name="app", user_id="user-1", id="s-1", state=read_only(state or {}))
    return InvocationContext(app_name="app", user_id="user-1", session=session, agent=agent, invocation_id="e-1")
