"""The steps of a `ScriptedLiveModel`'s script: what the model says and does, and what it expects to be sent.

script = [
    expect_content("hello"),
    say("Hi there!", ms=400),
    call("move", {"direction": "left"}, id="fc-1"),
    expect_tool_responses("fc-1"),
    say("Done."),
    end(),
]
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from live_gateway.content import Content, FunctionCall, FunctionResponse, text_of
from live_gateway.models.live import (
    INPUT_HZ,
    OUTPUT_HZ,
    Activity,
    AudioOut,
    GenerationComplete,
    LiveMessage,
    SpeechEnded,
    SpeechStarted,
    ToolCalls,
    Transcript,
    TurnComplete,
)

SentKind = Literal["audio", "image", "content", "activity", "end_audio", "tool_responses", "interrupt"]


@dataclass(frozen=True, slots=True)
class Emit:
    """The model sends these messages."""

    messages: tuple[LiveMessage, ...]
    words: str

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class Pause:
    """The other side says nothing for some seconds of the loop's time; what it is sent is taken all the while."""

    seconds: float

    def __str__(self) -> str:
        return f"pause {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Wait:
    """The other side says nothing until the test opens the gate."""

    gate: asyncio.Event

    def __str__(self) -> str:
        return "wait for a gate"


@dataclass(frozen=True, slots=True)
class Fail:
    """The connection breaks with this error."""

    error: Exception

    def __str__(self) -> str:
        return f"fail with {self.error!r}"


@dataclass(frozen=True, slots=True)
class End:
    """The model ends the connection cleanly."""

    def __str__(self) -> str:
        return "end"


@dataclass(frozen=True, slots=True)
class Hang:
    """The model says nothing more, and the connection stays open."""

    def __str__(self) -> str:
        return "hang"


@dataclass(frozen=True, slots=True)
class Expect:
    """The model waits to be sent something. `check` is given what was sent; with `size` (bytes), sends add up until they have it.
    A matching send waits for `gate` and then raises `error`, where these are set."""

    kind: SentKind
    words: str
    check: Callable[[Any], bool]
    size: int = 0
    gate: asyncio.Event | None = None
    error: Exception | None = None

    def __str__(self) -> str:
        return f"expect {self.words}"


@dataclass(frozen=True, slots=True)
class OnConnect:
    """What happens before the connection is open: pauses, gates, notices, a failure. Only as the first step."""

    steps: tuple[Emit | Pause | Wait | Fail, ...]

    def __str__(self) -> str:
        return f"on connect: {', '.join(str(step) for step in self.steps)}"


Step: TypeAlias = Emit | Pause | Wait | Fail | End | Hang | Expect | OnConnect


def emit(*messages: LiveMessage) -> Emit:
    """Send these messages, one after the other."""
    if not messages:
        raise ValueError("emit needs at least one message")
    return Emit(messages, f"emit {', '.join(type(message).__name__ for message in messages)}")


def say(text: str, *, ms: int = 200, complete: bool = True) -> Emit:
    """Speak: the text word by word, each with its share of `ms` milliseconds of audio; then, unless told otherwise, the turn's end."""
    pieces = [piece + " " for piece in text.split(" ")]
    pieces[-1] = pieces[-1][:-1]
    messages: list[LiveMessage] = []
    for index, piece in enumerate(pieces):
        share = ms * (index + 1) // len(pieces) - ms * index // len(pieces)
        messages += [Transcript("model", piece), voice(share)]
    if complete:
        messages += [GenerationComplete(), TurnComplete()]
    return Emit(tuple(messages), f"say {text!r}")


def hear(text: str) -> Emit:
    """Hear the user say something: speech begins, its complete transcript, speech ends."""
    return Emit((SpeechStarted(), Transcript("user", text, finished=True), SpeechEnded()), f"hear {text!r}")


def call(name: str, args: Mapping[str, Any] | None = None, *, id: str = "fc-1") -> Emit:  # noqa: A002 - what the field is called
    """Call one tool. For several in one message: `emit(ToolCalls((FunctionCall(...), ...)))`."""
    return Emit((ToolCalls((FunctionCall(id=id, name=name, args=dict(args or {})),)),), f"call {name} ({id})")


def voice(ms: int) -> AudioOut:
    """That much audible audio, as the model sends it."""
    return AudioOut(b"\x00\x10" * (OUTPUT_HZ * ms // 1000))


def pause(seconds: float) -> Pause:
    """Say nothing for some seconds; on a virtual-time loop they take no time."""
    return Pause(seconds)


def wait(gate: asyncio.Event) -> Wait:
    """Say nothing until the gate opens."""
    return Wait(gate)


def fail(error: Exception) -> Fail:
    """Break the connection."""
    return Fail(error)


def end() -> End:
    """End the connection cleanly."""
    return End()


def hang() -> Hang:
    """Say nothing more. A script that has no steps left does the same; this one says that it is meant."""
    return Hang()


def on_connect(*steps: Emit | Pause | Wait | Fail) -> OnConnect:
    """What happens while the connection is being opened; only as the first step. Emitted notices go to the setup's `notify`."""
    return OnConnect(steps)


def expect_audio(pcm: bytes | None = None, *, ms: int | None = None) -> Expect:
    """Expect one send of exactly these bytes, or as many sends as it takes for `ms` milliseconds, or one send of any audio."""
    if pcm is not None:
        return Expect("audio", f"audio of {len(pcm)} bytes", lambda sent: bool(sent == pcm))
    if ms is not None:
        return Expect("audio", f"{ms} ms of audio", lambda sent: True, size=INPUT_HZ * ms // 1000 * 2)
    return Expect("audio", "audio", lambda sent: True)


def expect_image(mime_type: str | None = None) -> Expect:
    """Expect an image, of this type where one is named."""
    return Expect("image", f"image {mime_type or ''}".rstrip(), lambda sent: mime_type in (None, sent[1]))


def expect_content(text: str | None = None, *, check: Callable[[Content], bool] | None = None) -> Expect:
    """Expect a message of the user: with exactly this text, and for which `check` is true."""

    def matches(content: Content) -> bool:
        return text in (None, text_of(content)) and (check is None or check(content))

    return Expect("content", "content" if text is None else f"content {text!r}", matches)


def expect_tool_responses(*ids: str, check: Callable[[Sequence[FunctionResponse]], bool] | None = None) -> Expect:
    """Expect the answers to these calls in one send, in this order, and for which `check` is true. No ids: any."""

    def matches(responses: Sequence[FunctionResponse]) -> bool:
        return (not ids or ids == tuple(response.id for response in responses)) and (check is None or check(responses))

    return Expect("tool_responses", f"tool responses {', '.join(ids)}".rstrip(), matches)


def expect_activity(activity: Activity) -> Expect:
    """Expect a push-to-talk mark."""
    return Expect("activity", f"activity {activity.value}", lambda sent: sent is activity)


def expect_end_audio() -> Expect:
    """Expect that the microphone is reported off."""
    return Expect("end_audio", "end of audio", lambda sent: True)


def expect_interrupt() -> Expect:
    """Expect to be told to stop the answer."""
    return Expect("interrupt", "interrupt", lambda sent: True)


def refuse(step: Expect, error: Exception) -> Expect:
    """The expected send raises this error to the sender."""
    return dataclasses.replace(step, error=error, words=f"{step.words}, refuse it with {error!r}")


def delay(step: Expect, gate: asyncio.Event) -> Expect:
    """The expected send does not return before the gate is open."""
    return dataclasses.replace(step, gate=gate, words=f"{step.words}, take it when a gate opens")
