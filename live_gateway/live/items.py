"""What a listener of a live session gets, in order: audio, events, and what is worth showing before it is stored.

Durable is only `Stored`. Everything else is volatile: sent at once, never replayed; audio and its flush never wait for the store.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec

from live_gateway.errors import PublicError
from live_gateway.events import Event

SpeakingState = Literal["listening", "user_speaking", "thinking", "tool", "speaking"]
ResponseStatus = Literal["completed", "interrupted", "cancelled", "failed"]
ToolStatus = Literal["waiting_confirm", "progress", "done", "error", "denied", "cancelled"]


class AudioChunk(msgspec.Struct, frozen=True, gc=False):
    """A piece of a response's voice: int16 little endian mono at 24 kHz. `pos`: index of its first sample inside the response. `author`:
    the agent that speaks."""

    response: int
    pos: int
    pcm: bytes
    author: str = ""


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored event (`event.seq` above 0), in the session's order."""

    event: Event


@dataclass(frozen=True, slots=True)
class Partial:
    """A partial event: a piece of a transcription or of a text answer. For a transcription `transcript` says the same as a whole."""

    event: Event
    transcript: TranscriptUpdate | None = None


@dataclass(frozen=True, slots=True)
class TranscriptUpdate:
    """The whole text of a transcription so far. `item`: id of the event that will hold the complete one. `turn`: number of the turn."""

    item: str
    turn: int
    role: Literal["user", "model"]
    author: str
    text: str
    delta: str
    revision: int = 0
    start_ms: int | None = None
    end_ms: int | None = None
    language: str | None = None
    source: Literal["voice", "typed", "text"] = "voice"


@dataclass(frozen=True, slots=True)
class ResponseStarted:
    """The model begins to answer. `response` only grows within a live session."""

    response: int
    turn: int


@dataclass(frozen=True, slots=True)
class ResponseAudioEnd:
    """The last sample of the response has been handed over; `samples` in all, at 24 kHz."""

    response: int
    samples: int


@dataclass(frozen=True, slots=True)
class ResponseInterrupted:
    """Stop playing: drop everything whose response number is not above `response`."""

    response: int
    reason: Literal["speech", "typed", "cancel", "model"]


@dataclass(frozen=True, slots=True)
class ResponseEnded:
    """The response is over, exactly once. `heard_ms`: how much of it was played to the user."""

    response: int
    status: ResponseStatus
    heard_ms: int


@dataclass(frozen=True, slots=True)
class StateChanged:
    """What the conversation is doing now."""

    state: SpeakingState


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """The model called a tool; the stored call comes in the session's order. Shown once more, with needs_confirm, when a person is asked
    about it first; hint: words for the person."""

    call: str
    name: str
    args: dict[str, Any]
    effect: Literal["read", "write"]
    needs_confirm: bool = False
    hint: str = ""


@dataclass(frozen=True, slots=True)
class ToolRunning:
    """The tool of this call has begun."""

    call: str


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """How far a tool call has come, at once; the stored response comes in the session's order."""

    call: str
    status: ToolStatus
    ms: int
    result: Any = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class TurnMetrics:
    """How long a turn took. Milliseconds from the decision that the user had finished (end of utterance) to the first audio of the answer:
    `tool_ms` of it tools ran, `model_ms` is the rest. `silence_ms` is what the end-of-speech rule had
    waited before that decision."""

    turn: int
    eou_to_first_audio_ms: int | None = None
    silence_ms: int | None = None
    model_ms: int | None = None
    tool_ms: int | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """Something a person may want to know; `code` is one of the notices in docs/reference/wire.md."""

    level: Literal["info", "warning"]
    code: str
    params: dict[str, str | int | float | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failure:
    """Something failed. Unless `fatal`, the session goes on."""

    error: PublicError
    exception: Exception
    fatal: bool = False
    ref: str | None = None


@dataclass(frozen=True, slots=True)
class Relay:
    """Something of the server's own (a pong, an error) that goes out at its place among the items."""

    frame: str


LiveItem: TypeAlias = (
    AudioChunk
    | Stored
    | Partial
    | ResponseStarted
    | ResponseAudioEnd
    | ResponseInterrupted
    | ResponseEnded
    | StateChanged
    | ToolStarted
    | ToolRunning
    | ToolFinished
    | TurnMetrics
    | Notice
    | Failure
    | Relay
)


@dataclass(frozen=True, slots=True)
class SendResult:
    """What became of a message. `seq` is 0 where the content is not something that `send` stores."""

    state: Literal["persisted", "delivered"]
    seq: int = 0


@dataclass(frozen=True, slots=True)
class PlaybackMark:
    """What the listener reports about a response, in samples at 24 kHz. `heard`: played and out of the speaker."""

    event: Literal["start", "pos", "drained", "flushed", "underrun"]
    response: int
    played: int = 0
    heard: int = 0
