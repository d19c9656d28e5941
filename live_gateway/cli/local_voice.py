"""Give an agent that brings no live model what this machine has: the embedded voice, or text alone where its packages are missing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

from live_gateway.agents.base import Agent
from live_gateway.agents.llm import LlmAgent
from live_gateway.agents.sequential import SequentialAgent
from live_gateway.cli.text_model import A
from live_gateway.clock import SystemClock
from live_gateway.models.base import Model
from live_gateway.models.cascade import CascadeLimits, CascadeLiveModel
from live_gateway.models.cascade.connection import CascadeConnection
from live_gateway.models.keyword import KeywordModel
from live_gateway.models.live import ConnectionNotice, LiveMessage, LiveModel, LiveSetup
from live_gateway.voice.local import Availability, LocalVoice, available
from live_gateway.voice.workers import Workers

VOICE_MISSING = "voice_missing"
"""Code of the notice that a client gets whose words cannot be heard here."""


def missing_voice() -> Availability | None:
    """What the embedded voice lacks on this machine; None when it is all there."""
    availability = available()
    return None if availability.ok else availability


def how_to_install(missing: Availability) -> str:
    """What is missing, and the command for the environment that this program runs in, whichever is active in the terminal."""
    python = f'"{sys.executable}"' if " " in sys.executable else sys.executable
    commands = [command.replace("python -m pip ", "pip ").replace("pip ", f"{python} -m pip ", 1) for command in missing.commands]
    return f"the local voice is not installed ({', '.join(missing.missing)} missing); run: {' && '.join(commands)}"


def with_live_models(agent: A, missing: Availability | None) -> A:
    """The agent, and every agent below it, with a live model and a text model; those that have one keep it. The given one is not changed.

    The embedded voice begins to load now, in the background, if any agent needs it. missing: what `missing_voice` says.
    """
    if not isinstance(agent, LlmAgent | SequentialAgent):
        return agent
    below = tuple(with_live_models(child, missing) for child in agent.sub_agents)
    if not isinstance(agent, LlmAgent):
        return replace(agent, sub_agents=below)
    model = agent.model or KeywordModel()
    return replace(agent, model=model, live_model=agent.live_model or _live_model(model, missing), sub_agents=below)


def needs_voice(agent: Agent) -> bool:
    """Whether this agent or one below it has no live model of its own."""
    return (isinstance(agent, LlmAgent) and agent.live_model is None) or any(needs_voice(child) for child in agent.sub_agents)


def _live_model(model: Model, missing: Availability | None) -> LiveModel:
    return CascadeLiveModel.local(model) if missing is None else TextOnlyModel(model, str(missing))


class TextOnlyModel:
    """A live model that neither hears nor speaks: typed messages are answered in writing. Each client is told once what is missing."""

    def __init__(self, model: Model, missing: str) -> None:
        self._model = model
        self._missing = missing
        self._voice = LocalVoice(vad=_Deaf, stt=_Deaf(), tts=_Mute())
        self._workers = Workers()

    @property
    def name(self) -> str:
        """`text-only/` and the name of the text model."""
        return f"text-only/{self._model.name}"

    def connect(self, setup: LiveSetup) -> CascadeConnection:
        """Open a connection; its first message is the notice `voice_missing`."""
        connection = _TextOnlyConnection(setup, self._model, self._voice, self._workers, CascadeLimits(), SystemClock())
        connection.missing = self._missing
        return connection


class _TextOnlyConnection(CascadeConnection):
    missing: str | None = None

    async def receive(self) -> LiveMessage | None:
        if self.missing is not None:
            notice = ConnectionNotice(VOICE_MISSING, {"message": self.missing})
            self.missing = None
            return notice
        return await super().receive()


class _Deaf:
    """Hears nothing, so it never has anything to recognise."""

    def __call__(self, frame: bytes) -> float:
        return 0.0

    def reset(self) -> None:
        """There is nothing to forget."""

    def transcribe(self, pcm: bytes) -> str:
        return ""


class _Mute:
    def synthesize(self, sentence: str) -> Iterator[bytes]:
        return iter(())
