"""What the tests of `WS /live` share: an application around a scripted model, and what a client says first."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from starlette.applications import Starlette

from live_gateway.agents.llm import LlmAgent
from live_gateway.runner import Runner
from live_gateway.server.app import create_app
from live_gateway.server.gateway import ServerConfig
from live_gateway.testing.scripted_live import ScriptedLiveModel
from live_gateway.testing.steps import SentKind, Step
from tests.support.asgi_client import AsgiClient

FINAL = {"type": "transcript", "role": "model", "final": True}
CHUNK = b"\x01\x00" * 640


def set_light(on: bool) -> dict[str, bool]:
    """Switch the light."""
    return {"on": on}


AUDIO: tuple[SentKind, ...] = ("audio",)


def model(*steps: Step, allow: Collection[SentKind] = AUDIO) -> ScriptedLiveModel:
    return ScriptedLiveModel(steps, allow=allow)


def runner_of(live_model: ScriptedLiveModel, name: str = "demo") -> Runner:
    return Runner.in_memory(name, LlmAgent(name="assistant", live_model=live_model, tools=[set_light]))


def app_of(live_model: ScriptedLiveModel, config: ServerConfig | None = None) -> Starlette:
    return create_app(runner_of(live_model), config)


async def welcomed(client: AsgiClient, **hello: Any) -> dict[str, Any]:
    client.say("hello", v=1, **hello)
    return await client.until("welcome")


def content(message_id: str, text: str) -> dict[str, Any]:
    return {"message_id": message_id, "content": {"parts": [{"text": text}]}}
