"""The steps of a `FakeGemini`'s script: what the server expects to be sent, what it sends, and what goes wrong.

script = [
    expect_text("hello"),
    say("Hi there!", ms=400),
    call("move", {"direction": "left"}, id="fc-1"),
    expect_tool_response("fc-1"),
    say("Done."),
    close(1011, "internal error"),
]

A script begins with the set-up: `expect_setup()` and `ready()` are put in front unless it begins with a step of its own about it
(`expect_setup`, `refuse`, `mute`).
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from live_gateway.testing.steps import Pause as Pause
from live_gateway.testing.steps import Wait as Wait

SentKind = Literal["setup", "audio", "video", "text", "activity_start", "activity_end", "audio_end", "content", "tool_response"]

OUTPUT_HZ = 24_000
Check: TypeAlias = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Expect:
    """The server waits to be sent one of these kinds. `check` is given its value; with `size`, audio adds up until it has so many bytes."""

    kinds: tuple[SentKind, ...]
    words: str
    check: Check = field(default=lambda value: True)
    size: int = 0
    utterance: bool = False

    def __str__(self) -> str:
        return f"expect {self.words}"


@dataclass(frozen=True, slots=True)
class Send:
    """The server sends frames; bytes go out as they are."""

    frames: tuple[Mapping[str, Any] | bytes, ...]
    words: str

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class Echo:
    """The server says back the audio that it took since the last time."""

    def __str__(self) -> str:
        return "echo"


@dataclass(frozen=True, slots=True)
class CallDeclared:
    """The server calls the next of the functions that the set-up declared, with arguments that fit its schema, and takes the answer."""

    def __str__(self) -> str:
        return "call a declared function"


@dataclass(frozen=True, slots=True)
class SayUntilInterrupted:
    """The server speaks as slowly as it is heard; when the user speaks, or types, it stops and says that it was interrupted."""

    frames: tuple[Mapping[str, Any], ...]
    words: str

    def __str__(self) -> str:
        return f"{self.words}, until interrupted"


@dataclass(frozen=True, slots=True)
class Fault:
    """The connection comes to an end, or does not come about. kind `close`: with a close frame. `fin`, `rst`: the socket alone."""

    kind: Literal["close", "fin", "rst", "refuse"]
    code: int = 1000
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.code} {self.reason}".rstrip() if self.kind in ("close", "refuse") else self.kind


@dataclass(frozen=True, slots=True)
class Stall:
    """The server says nothing more and reads nothing more, not even a close frame, until it is stopped."""

    def __str__(self) -> str:
        return "stall"


@dataclass(frozen=True, slots=True)
class Framing:
    """From now on frames go out as text or binary, and, with `slow_s`, one after the other with so many seconds between."""

    binary: bool | None = None
    slow_s: float = 0.0

    def __str__(self) -> str:
        return f"framing {'binary' if self.binary else 'text'}, {self.slow_s:g} s apart"


@dataclass(frozen=True, slots=True)
class Repeat:
    """These steps again and again, until the client leaves."""

    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return f"repeat: {', '.join(str(step) for step in self.steps)}"


Step: TypeAlias = Expect | Send | Echo | CallDeclared | SayUntilInterrupted | Fault | Stall | Pause | Wait | Framing | Repeat


# What the server says.


def send(*frames: Mapping[str, Any] | bytes) -> Send:
    """Send these messages as they are; bytes are sent as one frame, be they JSON or not."""
    kinds = ", ".join(f"{len(frame)} bytes" if isinstance(frame, bytes) else "+".join(frame) for frame in frames)
    return Send(frames, f"send {kinds}")


def ready() -> Send:
    """The set-up is complete."""
    return Send(({"setupComplete": {}},), "ready")


def content(**fields: Any) -> Send:
    """One `serverContent` message with these fields, in the wire's spelling."""
    return Send(({"serverContent": fields},), f"content {', '.join(fields)}")


def say(text: str, *, ms: int = 200, chunk_ms: int = 40, complete: bool = True) -> Send:
    """Speak: the words as output transcription, each with its share of `ms` milliseconds of audio, and the turn's end."""
    pieces = [piece + " " for piece in text.split(" ")]
    pieces[-1] = pieces[-1][:-1]
    frames: list[Mapping[str, Any]] = []
    for index, piece in enumerate(pieces):
        share = ms * (index + 1) // len(pieces) - ms * index // len(pieces)
        frames.append({"serverContent": {"outputTranscription": {"text": piece}}})
        frames += [_audio_frame(min(chunk_ms, share - begin)) for begin in range(0, share, chunk_ms)]
    if complete:
        frames += [{"serverContent": {"generationComplete": True}}, {"serverContent": {"turnComplete": True}}]
    return Send(tuple(frames), f"say {text!r}")


def audio(ms: int) -> Send:
    """That much voice, in one frame."""
    return Send((_audio_frame(ms),), f"audio of {ms} ms")


def hear(text: str, *, finished: bool | None = None) -> Send:
    """A piece of the user's transcription."""
    piece = {"text": text} if finished is None else {"text": text, "finished": finished}
    return Send(({"serverContent": {"inputTranscription": piece}},), f"hear {text!r}")


def write(text: str, *, complete: bool = True) -> Send:
    """Answer in text."""
    frames: list[Mapping[str, Any]] = [{"serverContent": {"modelTurn": {"role": "model", "parts": [{"text": text}]}}}]
    if complete:
        frames += [{"serverContent": {"generationComplete": True}}, {"serverContent": {"turnComplete": True}}]
    return Send(tuple(frames), f"write {text!r}")


def call(name: str, args: Mapping[str, Any] | None = None, *, id: str | None = "fc-1") -> Send:  # noqa: A002 - what the field is called
    """Call a tool."""
    wire = {"name": name, "args": dict(args or {})} | ({"id": id} if id is not None else {})
    return Send(({"toolCall": {"functionCalls": [wire]}},), f"call {name} ({id})")


def cancel(*ids: str) -> Send:
    """Take calls back."""
    return Send(({"toolCallCancellation": {"ids": list(ids)}},), f"cancel {', '.join(ids)}")


def interrupted() -> Send:
    """The user spoke over the answer."""
    return Send(({"serverContent": {"interrupted": True}},), "interrupted")


def turn_complete() -> Send:
    """The turn is complete."""
    return Send(({"serverContent": {"turnComplete": True}},), "turn complete")


def handle(name: str | None) -> Send:
    """A resumption handle; None says that the state cannot be resumed now."""
    update = {"newHandle": name, "resumable": True} if name is not None else {"newHandle": "", "resumable": False}
    return Send(({"sessionResumptionUpdate": update},), f"handle {name}")


def go_away(seconds: float) -> Send:
    """The connection will be closed in so many seconds."""
    return Send(({"goAway": {"timeLeft": f"{seconds:g}s"}},), f"go away in {seconds:g} s")


def say_until_interrupted(text: str, *, ms: int = 10_000) -> SayUntilInterrupted:
    """Speak in real time, and stop for the user."""
    said = say(text, ms=ms)
    return SayUntilInterrupted(tuple(frame for frame in said.frames if isinstance(frame, Mapping)), said.words)


def call_declared() -> CallDeclared:
    """Call the next declared function and wait for its answer; without any, do nothing."""
    return CallDeclared()


def echo() -> Echo:
    """Say back the audio that was taken."""
    return Echo()


# What it expects.


def expect_setup(check: Check | None = None, **fields: Any) -> Expect:
    """Expect the set-up, with these fields at these paths (`sessionResumption__handle="h1"`), and for which `check` is true."""

    def matches(setup: Any) -> bool:
        return all(_at(setup, path) == value for path, value in fields.items()) and (check is None or check(setup))

    return Expect(("setup",), f"set-up {', '.join(fields)}".rstrip(), matches)


def expect_text(text: str | None = None) -> Expect:
    """Expect a message of the user: typed text as content that is to be answered, or as realtime text."""

    def matches(value: Any) -> bool:
        said = value if isinstance(value, str) else text_of(value)
        asked = isinstance(value, str) or bool(value.get("turnComplete"))
        return asked and (text is None or said == text)

    return Expect(("content", "text"), "text" if text is None else f"text {text!r}", matches)


def expect_content(check: Check | None = None, *, turn_complete: bool | None = None) -> Expect:
    """Expect client content, for which `check` is true, with this end of turn."""

    def matches(value: Any) -> bool:
        ends = turn_complete is None or bool(value.get("turnComplete")) == turn_complete
        return ends and (check is None or check(value))

    return Expect(("content",), f"client content (turn complete: {turn_complete})", matches)


def expect_audio(*, ms: int | None = None) -> Expect:
    """Expect one message of audio, or as many as it takes for so many milliseconds."""
    if ms is None:
        return Expect(("audio",), "audio")
    return Expect(("audio",), f"{ms} ms of audio", size=16 * ms * 2)


def expect_utterance() -> Expect:
    """Expect the user to say something: a message of text, or speech and then half a second of silence or the end of the microphone."""
    return Expect(("content", "text", "audio", "activity_end", "audio_end"), "something said", utterance=True)


def expect_video() -> Expect:
    """Expect an image."""
    return Expect(("video",), "video")


def expect_activity(which: Literal["start", "end"]) -> Expect:
    """Expect a push-to-talk mark."""
    return Expect(("activity_start",) if which == "start" else ("activity_end",), f"activity {which}")


def expect_audio_end() -> Expect:
    """Expect that the microphone is reported off."""
    return Expect(("audio_end",), "end of audio")


def expect_tool_response(*ids: str, check: Check | None = None) -> Expect:
    """Expect answers to these calls in one message, in this order, and for which `check` is true. No ids: any."""

    def matches(value: Any) -> bool:
        responses = value.get("functionResponses", [])
        return (not ids or ids == tuple(response.get("id") for response in responses)) and (check is None or check(responses))

    return Expect(("tool_response",), f"tool response {', '.join(ids)}".rstrip(), matches)


# What goes wrong, and when.


def close(code: int = 1000, reason: str = "") -> Fault:
    """Close with this code."""
    return Fault("close", code, reason)


def drop(how: Literal["fin", "rst"] = "fin") -> Fault:
    """End the connection without a close frame."""
    return Fault(how)


def refuse(status: int = 503) -> Fault:
    """Answer the upgrade with this HTTP status; only as the first and only step."""
    return Fault("refuse", status)


def stall() -> Stall:
    """Say and read nothing more."""
    return Stall()


def mute() -> Stall:
    """Take the connection and then say nothing, not even that the set-up is complete; as the first step."""
    return Stall()


def pause(seconds: float) -> Pause:
    """Say nothing for some seconds."""
    return Pause(seconds)


def wait(gate: asyncio.Event) -> Wait:
    """Say nothing until the gate opens."""
    return Wait(gate)


def framing(kind: Literal["text", "binary"]) -> Framing:
    """Send what follows in frames of this kind; binary is what the service does."""
    return Framing(binary=kind == "binary")


def slow(seconds: float) -> Framing:
    """Leave so many seconds between the frames that follow."""
    return Framing(slow_s=seconds)


def repeat(*steps: Step) -> Repeat:
    """These steps, until the client leaves; only as the last step."""
    return Repeat(steps)


def text_of(value: Mapping[str, Any]) -> str:
    """All text of a client content."""
    turns: Sequence[Mapping[str, Any]] = value.get("turns") or ()
    return "".join(part.get("text") or "" for turn in turns for part in turn.get("parts") or ())


def voice(ms: int) -> bytes:
    """That much audible voice, as the model sends it."""
    return b"\x00\x10" * (OUTPUT_HZ * ms // 1000)


def audio_frame(pcm: bytes) -> dict[str, Any]:
    """The message that carries this voice."""
    data = base64.b64encode(pcm).decode()
    return {
        "serverContent": {"modelTurn": {"role": "model", "parts": [{"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": data}}]}}
    }


def _audio_frame(ms: int) -> dict[str, Any]:
    return audio_frame(voice(ms))


def _at(value: Any, path: str) -> Any:
    for name in path.split("__"):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
