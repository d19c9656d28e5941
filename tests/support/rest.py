"""An app of one agent over HTTP, and short words for its requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from live_gateway.agents.llm import LlmAgent
from live_gateway.models.base import Model
from live_gateway.plugins.base import Plugin
from live_gateway.runner import Runner
from live_gateway.server.app import create_app
from live_gateway.server.gateway import ServerConfig
from live_gateway.tools.base import Tool
from tests.support.http_client import HttpClient

SESSIONS = "/apps/app/users/u/sessions"


def rest_runner(
    model: Model | None = None, *, tools: Sequence[Tool | Callable[..., Any]] = (), plugins: Sequence[Plugin] = (), **agent: Any
) -> Runner:
    """A runner over services in memory; a session that is not there is not made."""
    in_memory = Runner.in_memory("app", LlmAgent(name="agent", model=model, tools=tools, **agent))
    return Runner(
        app_name="app",
        agent=in_memory.agent,
        session_service=in_memory.session_service,
        artifact_service=in_memory.artifact_service,
        plugins=plugins,
    )


def client_of(runner: Runner, config: ServerConfig | None = None) -> HttpClient:
    """A client of a server with this runner."""
    return HttpClient(create_app(runner, config))


def asking(text: str | None = "hello", **fields: Any) -> dict[str, Any]:
    """The body of a run."""
    message = {} if text is None else {"newMessage": {"role": "user", "parts": [{"text": text}]}}
    return {"appName": "app", "userId": "u", "sessionId": "s", **message, **fields}


def answering(call: str, name: str, response: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The body of a run that answers a call."""
    part = {"functionResponse": {"id": call, "name": name, "response": response}}
    return asking(None, newMessage={"role": "user", "parts": [part]}, **fields)
