"""Give an agent that brings no live model Gemini Live, where one is named and there is a key."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from live_gateway.agents.llm import LlmAgent
from live_gateway.agents.sequential import SequentialAgent
from live_gateway.cli.problems import CommandError
from live_gateway.cli.text_model import KEYS, A

if TYPE_CHECKING:
    from live_gateway.models.live import LiveModel


def live_model(name: str, base_url: str | None = None) -> LiveModel:
    """Gemini Live under this name, at the service or at another base URL.

    Raises `CommandError` without a key, `ModelUnavailable` for a base URL that names no host.
    """
    if not any(os.environ.get(key) for key in KEYS):
        raise CommandError(f"live model {name!r} needs a key: set {KEYS[0]}")
    from live_gateway.models.gemini_live import GeminiLiveModel

    model = GeminiLiveModel(name, base_url=base_url)
    model.access.base()  # said now, not to the first client
    return model


def with_live_model(agent: A, model: LiveModel) -> A:
    """The agent, and every agent below it, with this live model; those that have one keep it. The given one is not changed."""
    if not isinstance(agent, LlmAgent | SequentialAgent):
        return agent
    below = tuple(with_live_model(child, model) for child in agent.sub_agents)
    if isinstance(agent, LlmAgent):
        return replace(agent, live_model=agent.live_model or model, sub_agents=below)
    return replace(agent, sub_agents=below)
