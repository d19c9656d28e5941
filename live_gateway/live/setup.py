"""What a live agent's connection is opened with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from live_gateway.agents.config import LiveRunConfig
from live_gateway.agents.llm import LlmAgent
from live_gateway.content import FunctionDeclaration
from live_gateway.live.items import Notice
from live_gateway.live.start import LiveStart
from live_gateway.live.streams import live_declaration
from live_gateway.models.live import ConnectionNotice, LiveSetup


async def live_setup(start: LiveStart, config: LiveRunConfig, notify: Callable[[Notice], None] | None) -> LiveSetup:
    """The setup of this agent. notify: takes what a person should know while connecting. Raises what filling the instruction raised.

    A session that was handed over begins anew at the model, with its history: what another agent's connection could be resumed with would
    bring that agent's instruction and tools along.
    """

    def tell(notice: ConnectionNotice) -> None:
        if notify is not None:
            notify(Notice("info", notice.code, notice.params))

    resumption = config.session_resumption
    return LiveSetup(
        instruction=await start.instruction(),
        tools=_declarations(start),
        modality=config.modality,
        voice=config.voice or _own_voice(start.agent),
        language=config.language,
        voice_activity=config.voice_activity,
        input_transcription=config.input_transcription,
        output_transcription=config.output_transcription,
        config=start.agent.config,
        generation=config.generation,
        thinking=config.thinking,
        media_resolution=config.media_resolution,
        affective_dialog=config.affective_dialog,
        proactivity=config.proactivity,
        session_resumption=replace(resumption, handle=None) if start.handed_over else resumption,
        context_window_compression=config.context_window_compression,
        notify=tell,
        conversation=None if start.handed_over else start.invocation.invocation_id,
        continues=None if start.handed_over else start.continues,
    )


def _declarations(start: LiveStart) -> tuple[FunctionDeclaration, ...]:
    return tuple(live_declaration(tool) for tool in start.agent.tools_in(start.invocation))


def _own_voice(agent: LlmAgent) -> str | None:
    """The voice that the agent's settings name, for a run that names none."""
    speech = agent.config.speech_config if agent.config is not None else None
    voice = getattr(speech, "voice_config", None)
    prebuilt = voice.prebuilt_voice_config if voice is not None else None
    return prebuilt.voice_name if prebuilt is not None else None
