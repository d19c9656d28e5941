"""Agents and plugins for tests of runs."""

from __future__ import annotations

from typing import Any

from live_gateway.runner import Runner
from live_gateway.sessions.memory import InMemorySessionService


def runner_on(agent: Any, service: Any = None, **options: Any) -> Runner:
    return Runner(app_name="app", agent=agent, session_service=service or InMemorySessionService(), **options)
