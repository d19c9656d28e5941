"""Give an agent that brings no text model one that this machine has."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from live_gateway.cli.problems import CommandError

if TYPE_CHECKING:
    from live_gateway.agents.base import Agent
    from live_gateway.models.base import Model

A = TypeVar("A", bound="Agent")
KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY")


def text_model(name: str | None) -> Model:
    """Gemini where a model is named, else rules that need no network. Raises `CommandError` for a name without a key."""
    if name is None:
        from live_gateway.models.keyword import KeywordModel

        return KeywordModel()
    if not any(os.environ.get(key) for key in KEYS):
        raise CommandError(f"model {name!r} needs a key: set {KEYS[0]}")
    from live_gateway.models.gemini import GeminiModel

    return GeminiModel(name)


def with_text_models(agent: A, model: Model) -> A:
    """The agent, and every agent below it, with a text model; those that have one keep it. The given one is not changed."""
    from live_gateway.agents.custom import CustomAgent
    from live_gateway.agents.llm import LlmAgent
    from live_gateway.agents.sequential import SequentialAgent

    if not isinstance(agent, LlmAgent | CustomAgent | SequentialAgent):
        return agent
    below = tuple(with_text_models(child, model) for child in agent.sub_agents)
    if isinstance(agent, LlmAgent):
        return replace(agent, model=agent.model or model, sub_agents=below)
    return replace(agent, sub_agents=below)
