"""What may differ from one run to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from live_gateway.models.live import (
    ContextWindowCompression,
    Generation,
    MediaResolution,
    SessionResumption,
    Thinking,
    VoiceActivityConfig,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Settings of one `run`.

    streaming_mode: `none` yields whole events only; `sse` yields pieces first, then the whole.
    max_llm_calls: how often the model may be asked in one run; beyond, the run ends with an error.
    """

    streaming_mode: Literal["none", "sse"] = "none"
    save_input_blobs_as_artifacts: bool = False
    max_llm_calls: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRunConfig:
    """Settings of one live session.

    modality: whether the model answers with its voice or with text. voice, language: names as the model knows them; None leaves them to it.
    voice_activity: when the user counts as speaking. playback_marks: the listener reports what was played (`playback`); without, a response
    counts as heard after its duration and 500 ms. generation, thinking, media_resolution: go before the agent's own settings.
    affective_dialog: the model adapts to the user's tone. proactivity: it may leave unanswered what was not meant for it.
    session_resumption: whether a connection that broke is taken up again where the model can. context_window_compression: the model's own
    way to keep a long session within its window, on by default; it changes nothing that is stored, and None turns it off.
    A model without one of these ways goes on without it. save_live_blob: keeps what each side said in a turn as an artifact (WAV: int16
    mono, the user at 16 kHz, the agent at 24 kHz), with an event that refers to it; entering is refused without an artifact service.
    record_to: directory in which the whole call is recorded, the user left and the agent right (WAV: int16 stereo at 24 kHz); entering is
    refused where no file can be made there. None: nothing is recorded.
    """

    modality: Literal["AUDIO", "TEXT"] = "AUDIO"
    voice: str | None = None
    language: str | None = None
    voice_activity: VoiceActivityConfig = field(default_factory=VoiceActivityConfig)
    input_transcription: bool = True
    output_transcription: bool = True
    playback_marks: bool = False
    generation: Generation | None = None
    thinking: Thinking | None = None
    media_resolution: MediaResolution | None = None
    affective_dialog: bool = False
    proactivity: bool = False
    session_resumption: SessionResumption = field(default_factory=SessionResumption)
    context_window_compression: ContextWindowCompression | None = field(default_factory=ContextWindowCompression)
    save_live_blob: bool = False
    record_to: Path | None = None
