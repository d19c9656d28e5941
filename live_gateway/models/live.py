"""What a live session needs of a model: a connection that takes audio and text and gives a stream of small messages.

A provider's message may say several things at once. A connection splits it into the messages below, in this order, so that nobody
downstream ever has to look at two fields of one object: usage, resumption handle, cancelled calls, interruption, speech activity, input
transcript, output transcript, audio and text, calls, generation complete, turn complete, go-away. Audio that comes together with an
interruption belongs to what was interrupted and is left out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, Protocol, TypeAlias

from live_gateway.content import (
    Content,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GenerateContentConfig,
    GenerateContentResponseUsageMetadata,
    GroundingMetadata,
)

INPUT_HZ = 16_000
"""Sample rate of what a connection takes: int16 little endian, mono."""
OUTPUT_HZ = 24_000
"""Sample rate of what a connection gives: int16 little endian, mono."""


@dataclass(frozen=True, slots=True)
class AudioOut:
    """A piece of the answer's voice: int16 little endian mono at `OUTPUT_HZ`."""

    pcm: bytes


@dataclass(frozen=True, slots=True)
class TextOut:
    """A piece of the answer's text (text modality)."""

    text: str
    thought: bool = False


@dataclass(frozen=True, slots=True)
class ContentOut:
    """Anything else of a model's turn: an image, executable code and its result."""

    content: Content


@dataclass(frozen=True, slots=True)
class Transcript:
    """A piece of what was said.

    role: whose words these are. text: the piece, or the whole so far where `replaces` is set (a recogniser may change its mind).
    finished: the model says that this transcription is complete; many never do. start_ms, end_ms: position of the speech in the input
    or of the voice in the answer, where known.
    """

    role: Literal["user", "model"]
    text: str
    finished: bool = False
    replaces: bool = False
    language: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """The model wants these run, side by side. Every call has an id."""

    calls: tuple[FunctionCall, ...]


@dataclass(frozen=True, slots=True)
class ToolCallsCancelled:
    """The model no longer wants the answers to these calls."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """The model hears the user begin to speak. While an answer plays, it means that the user interrupts it."""


@dataclass(frozen=True, slots=True)
class SpeechEnded:
    """The model hears that the user is done. `silence_ms`: how long ago the last voiced sample was, which is what the rule waited."""

    silence_ms: int = 0


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The model stopped its answer, because the user spoke over it."""


@dataclass(frozen=True, slots=True)
class GenerationComplete:
    """The model has made its whole answer; it may still be playing."""


@dataclass(frozen=True, slots=True)
class TurnComplete:
    """The model's turn is over; it waits for the user."""

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of the turn so far."""

    usage: GenerateContentResponseUsageMetadata


@dataclass(frozen=True, slots=True)
class Grounding:
    """Sources of the turn's answer."""

    grounding: GroundingMetadata


@dataclass(frozen=True, slots=True)
class ConnectionNotice:
    """Something about the connection itself that a person may want to know; `code` is one of the notices in docs/reference/wire.md."""

    code: str
    params: dict[str, str | int | float | bool] = field(default_factory=dict)


LiveMessage: TypeAlias = (
    AudioOut
    | TextOut
    | ContentOut
    | Transcript
    | ToolCalls
    | ToolCallsCancelled
    | SpeechStarted
    | SpeechEnded
    | Interrupted
    | GenerationComplete
    | TurnComplete
    | Usage
    | Grounding
    | ConnectionNotice
)


class Activity(Enum):
    """Push to talk: the client says when the user speaks."""

    START = "start"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceActivityConfig:
    """How a model decides that the user is speaking. Milliseconds.

    automatic: False means push to talk: the client marks the activity. interrupts: whether speech stops an answer that plays.
    start_sensitivity, end_sensitivity: how readily speech is taken to begin and to end; None leaves it to the model. all_input: whether a
    turn holds everything that was sent since the last one (a video, say), and not only what was said.
    """

    automatic: bool = True
    silence_duration_ms: int = 500
    prefix_padding_ms: int = 300
    interrupts: bool = True
    start_sensitivity: Literal["HIGH", "LOW"] | None = None
    end_sensitivity: Literal["HIGH", "LOW"] | None = None
    all_input: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResumption:
    """Whether a provider's session can be taken up again after its connection broke, instead of being told its history anew.

    handle: of an earlier connection, to begin with. transparent: ask to be told which messages a handle covers; None asks where the
    provider can tell (Vertex), and only once there is a handle.
    """

    enabled: bool = True
    handle: str | None = None
    transparent: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextWindowCompression:
    """The provider's own way to keep a long session within its window; it changes nothing that is stored. Token counts.

    trigger_tokens: from when on it is done. target_tokens: what is kept. None leaves them to the provider.
    """

    trigger_tokens: int | None = None
    target_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """How answers are made; None leaves a setting to the agent, and then to the model."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_output_tokens: int | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """How much the model thinks before it speaks: a budget in tokens (0: not at all) or a level, as the model takes it."""

    budget: int | None = None
    level: Literal["MINIMAL", "LOW", "MEDIUM", "HIGH"] | None = None
    include_thoughts: bool | None = None


MediaResolution: TypeAlias = Literal["LOW", "MEDIUM", "HIGH"]


@dataclass(frozen=True, slots=True)
class History:
    """What was said before a connection, oldest first, without audio and with calls in words.

    unanswered: the last of it is a message of the user that the model is to answer at once.
    """

    contents: Sequence[Content]
    unanswered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSetup:
    """What a connection is opened with. Nothing in it is changed by the connection.

    config: the agent's generation settings; generation, thinking and media_resolution go before them. affective_dialog: the model adapts to
    the user's tone. proactivity: it may leave unanswered what was not meant for it. notify: takes what a person should know while opening
    takes its time (a voice that is still loading). history: what was said before, as it is stored by now; asked for whenever a
    connection begins without one to resume. conversation: a name for what this connection holds, and
    continues: the name of the one whose words are the newest of the history, where this one goes straight on from it.
    """

    instruction: str = ""
    tools: tuple[FunctionDeclaration, ...] = ()
    modality: Literal["AUDIO", "TEXT"] = "AUDIO"
    voice: str | None = None
    language: str | None = None
    voice_activity: VoiceActivityConfig = field(default_factory=VoiceActivityConfig)
    input_transcription: bool = True
    output_transcription: bool = True
    config: GenerateContentConfig | None = None
    generation: Generation | None = None
    thinking: Thinking | None = None
    media_resolution: MediaResolution | None = None
    affective_dialog: bool = False
    proactivity: bool = False
    session_resumption: SessionResumption = field(default_factory=SessionResumption)
    context_window_compression: ContextWindowCompression | None = field(default_factory=ContextWindowCompression)
    notify: Callable[[ConnectionNotice], None] | None = None
    history: Callable[[], Awaitable[History]] | None = None
    conversation: str | None = None
    continues: str | None = None


class LiveConnection(Protocol):
    """One open connection. Sending and receiving go on at the same time; each from one task at a time."""

    async def receive(self) -> LiveMessage | None:
        """The next message; None when the model ended the connection cleanly. Raises `ModelError` when it broke."""
        ...

    async def send_audio(self, pcm: bytes) -> None:
        """Hand over microphone audio: int16 little endian mono at `INPUT_HZ`, any even length."""
        ...

    async def send_image(self, data: bytes, mime_type: str) -> None:
        """Hand over one image of what the user shows."""
        ...

    async def send_content(self, content: Content) -> None:
        """Hand over a message of the user; the model answers it. Raises `ModelError` if not one byte was handed over."""
        ...

    async def send_activity(self, activity: Activity) -> None:
        """Push to talk: the user begins or ends to speak."""
        ...

    async def end_audio(self) -> None:
        """The microphone is off; whatever was said is complete."""
        ...

    async def send_tool_responses(self, responses: Sequence[FunctionResponse]) -> None:
        """Answer calls. Each response has the id and the name of its call."""
        ...

    async def interrupt(self) -> None:
        """Stop the answer that is being made, if this model can; otherwise do nothing (its audio is dropped on our side)."""
        ...

    def set_playing(self, playing: bool) -> None:
        """Tell whether the user hears an answer right now: what the microphone catches may then be the answer's own echo."""
        ...


class LiveModel(Protocol):
    """A model that can hold a live conversation."""

    @property
    def name(self) -> str:
        """What the provider calls it, or ours for an embedded one."""
        ...

    def connect(self, setup: LiveSetup) -> AbstractAsyncContextManager[LiveConnection]:
        """Open a connection: entering waits until the model is ready, leaving closes it and leaves no task behind.

        Raises `ModelUnavailable`, `SetupTimeout` or another `ModelError` on entering.
        """
        ...
