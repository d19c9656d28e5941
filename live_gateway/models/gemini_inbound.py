"""What Gemini Live says to a gateway: frames in, small messages out. Pure: no socket, no clock, no task.

A frame is decoded straight into typed structs; base64 becomes bytes on the way, fields that nobody asked for are skipped. One frame may
say several things: they come out in the order that `models.live` documents, and where an interruption is among them, the frame's own
audio and text are left out, since they belong to what was interrupted. Resumption handles, go-away and errors are for the connection
itself, and come out as the messages defined here.

What the user said is hardly ever marked finished. It is when the answer to it is made (generation complete), so that the question stands
before the answer in every record.

A frame that does not fit the types (a field that changed its shape) is taken apart field by field, so that only the odd field is lost.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import msgspec
from google.genai.types import UsageMetadata as LiveUsage

from live_gateway.content import (
    Content,
    FunctionCall,
    GenerateContentResponseUsageMetadata,
    GroundingMetadata,
    Part,
)
from live_gateway.models.gemini_profile import GeminiProfile
from live_gateway.models.live import (
    AudioOut,
    ContentOut,
    GenerationComplete,
    Grounding,
    Interrupted,
    LiveMessage,
    SpeechEnded,
    SpeechStarted,
    TextOut,
    ToolCalls,
    ToolCallsCancelled,
    Transcript,
    TurnComplete,
    Usage,
)

GENERATED_ID: Final = "adk-"
"""Prefix of call ids that are made here because the model gave none."""


@dataclass(frozen=True, slots=True)
class SetupComplete:
    """The model is ready."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """handle: of the state as it is now; None while there is none. consumed: index of the last client message that it holds, if told."""

    handle: str | None
    consumed: int | None = None


@dataclass(frozen=True, slots=True)
class GoAway:
    """The connection will be closed in this many seconds."""

    time_left_s: float


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error in words, before the connection is closed. code: an HTTP status; status: its name in capitals."""

    code: int
    status: str

    @property
    def quota(self) -> bool:
        """Whether it is about the quota."""
        return self.code == 429 or self.status == "RESOURCE_EXHAUSTED"


Inbound: TypeAlias = LiveMessage | SetupComplete | Resumption | GoAway | Refusal


class BadFrame(Exception):
    """The frame is no JSON object."""


class _Struct(msgspec.Struct, rename="camel", gc=False):
    """A piece of the wire; keys in camelCase, all of them optional."""


class _Blob(_Struct):
    data: bytes = b""
    mime_type: str = ""


class _Part(_Struct):
    text: str | None = None
    thought: bool | None = None
    inline_data: _Blob | None = None


class _Turn(_Struct):
    parts: list[_Part] | None = None


class _Words(_Struct):
    text: str | None = None
    finished: bool | None = None
    language_code: str | None = None
    start_offset: str | None = None
    end_offset: str | None = None


class _ServerContent(_Struct):
    model_turn: _Turn | None = None
    output_transcription: _Words | None = None
    input_transcription: _Words | None = None
    interim_input_transcription: _Words | None = None
    turn_complete: bool | None = None
    generation_complete: bool | None = None
    interrupted: bool | None = None
    turn_complete_reason: str | None = None
    grounding_metadata: dict[str, Any] | None = None


class _Call(_Struct):
    name: str | None = None
    id: str | None = None
    args: dict[str, Any] | None = None
    will_continue: bool | None = None
    partial_args: list[Any] | None = None


class _ToolCall(_Struct):
    function_calls: list[_Call] | None = None


class _Cancellation(_Struct):
    ids: list[str] | None = None


class _GoAway(_Struct):
    time_left: str | None = None


class _Update(_Struct):
    new_handle: str | None = None
    resumable: bool | None = None
    last_consumed_client_message_index: int | str | None = None


class _Activity(_Struct):
    voice_activity_type: str | None = None
    vad_signal_type: str | None = None


class _Error(_Struct):
    code: int | None = None
    status: str | None = None


class _Message(_Struct):
    server_content: _ServerContent | None = None
    tool_call: _ToolCall | None = None
    usage_metadata: dict[str, Any] | None = None
    session_resumption_update: _Update | None = None
    tool_call_cancellation: _Cancellation | None = None
    voice_activity: _Activity | None = None
    voice_activity_detection_signal: _Activity | None = None
    go_away: _GoAway | None = None
    setup_complete: dict[str, Any] | None = None
    error: _Error | None = None


_decoder = msgspec.json.Decoder(_Message)


class GeminiInbound:
    """Decodes the frames of one connection, in their order. skipped: how many frames or fields of one did not fit and were left out."""

    def __init__(self, profile: GeminiProfile) -> None:
        self._profile = profile
        self._interim = self._words_open = False
        self._said = ""
        self.skipped = 0

    def decode(self, frame: bytes) -> list[Inbound]:
        """What a frame says; a text frame's bytes and a binary frame's are the same. Raises `BadFrame` if it is no JSON object."""
        try:
            message = _decoder.decode(frame)
        except msgspec.ValidationError:
            message = self._piecemeal(frame)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            self.skipped += 1
            raise BadFrame("a frame of the model is no JSON") from None
        content = message.server_content
        if content is not None and content.model_turn is not None and (audio := _only_audio(message, content)) is not None:
            return audio
        out: list[Inbound] = []
        self._rare(message, out)
        if message.tool_call_cancellation is not None and message.tool_call_cancellation.ids:
            out.append(ToolCallsCancelled(tuple(message.tool_call_cancellation.ids)))
        if content is not None:
            if content.interrupted:
                out.append(Interrupted())
            self._activity(message, out)
            self._words(content, out)
            if content.model_turn is not None and not content.interrupted:
                self._parts(content.model_turn.parts or [], frame, out)
        else:
            self._activity(message, out)
        if message.tool_call is not None:
            self._calls(message.tool_call.function_calls or [], out)
        if content is not None:
            self._ends(content, out)
        if message.go_away is not None:
            out.append(GoAway(_seconds(message.go_away.time_left) or 0.0))
        return out

    def _rare(self, message: _Message, out: list[Inbound]) -> None:
        if message.error is not None:
            out.append(Refusal(message.error.code or 0, message.error.status or ""))
        if message.setup_complete is not None:
            out.append(SetupComplete())
        if message.usage_metadata is not None:
            self._add(out, _usage, message.usage_metadata)
        if message.server_content is not None and message.server_content.grounding_metadata is not None:
            self._add(out, _grounding, message.server_content.grounding_metadata)
        update = message.session_resumption_update
        if update is not None:
            handle = update.new_handle if update.resumable and update.new_handle else None
            out.append(Resumption(handle, _index(update.last_consumed_client_message_index)))

    def _activity(self, message: _Message, out: list[Inbound]) -> None:
        for signal in (message.voice_activity, message.voice_activity_detection_signal):
            kind = (signal.voice_activity_type or signal.vad_signal_type or "") if signal is not None else ""
            if kind in ("ACTIVITY_START", "VAD_SIGNAL_TYPE_SOS"):
                out.append(SpeechStarted())
            elif kind in ("ACTIVITY_END", "VAD_SIGNAL_TYPE_EOS"):
                out.append(SpeechEnded())

    def _words(self, content: _ServerContent, out: list[Inbound]) -> None:
        interim, heard, spoken = content.interim_input_transcription, content.input_transcription, content.output_transcription
        if interim is not None and interim.text:
            self._interim = self._words_open = True
            out.append(_transcript("user", self._said + interim.text, interim, replaces=True))
        if heard is not None and (heard.text or heard.finished):
            self._heard(heard, out)
        if spoken is not None and (spoken.text or spoken.finished):
            out.append(_transcript("model", spoken.text or "", spoken, finished=bool(spoken.finished)))

    def _heard(self, heard: _Words, out: list[Inbound]) -> None:
        """A piece for good. After interim words, which it replaces, the whole so far is given."""
        finished = bool(heard.finished) or self._profile.one_input_transcription
        self._said += heard.text or ""
        self._words_open = True
        if self._interim:
            out.append(_transcript("user", self._said, heard, finished=finished, replaces=True))
        else:
            out.append(_transcript("user", heard.text or "", heard, finished=finished))
        if finished:
            self.reset()

    def _parts(self, parts: list[_Part], frame: bytes, out: list[Inbound]) -> None:
        for index, part in enumerate(parts):
            if part.inline_data is not None and part.inline_data.mime_type.startswith("audio/"):
                out.extend(_audio(part.inline_data))
            elif part.text is not None:
                if part.text:
                    out.append(TextOut(part.text, thought=bool(part.thought)))
            else:
                self._add(out, _other_part, (frame, index))

    def _calls(self, calls: list[_Call], out: list[Inbound]) -> None:
        """Whole calls only: what comes in pieces (`willContinue`, `partialArgs`) was not asked for and cannot be run."""
        whole = tuple(
            FunctionCall(id=call.id or f"{GENERATED_ID}{uuid.uuid4()}", name=call.name, args=call.args or {})
            for call in calls
            if call.name and not call.will_continue and not call.partial_args
        )
        self.skipped += len(calls) - len(whole)
        if whole:
            out.append(ToolCalls(whole))

    def _ends(self, content: _ServerContent, out: list[Inbound]) -> None:
        if content.generation_complete:
            if self._words_open:  # it answered all of them, and never says so
                out.append(Transcript("user", "", finished=True))
                self.reset()
            out.append(GenerationComplete())
        if content.turn_complete:
            reason = content.turn_complete_reason
            out.append(TurnComplete(None if reason in (None, "TURN_COMPLETE_REASON_UNSPECIFIED") else reason))
        if content.turn_complete or content.interrupted:
            self.reset()

    def reset(self) -> None:
        """Nothing that was said before is to be gone on with."""
        self._interim, self._said, self._words_open = False, "", False

    def _add(self, out: list[Inbound], make: Any, given: Any) -> None:
        """Add what pydantic makes of a rare field; one that it does not take is left out."""
        try:
            out.append(make(given))
        except ValueError:
            self.skipped += 1

    def _piecemeal(self, frame: bytes) -> _Message:
        """The message without the fields that do not fit."""
        raw = msgspec.json.decode(frame)
        if not isinstance(raw, dict):
            self.skipped += 1
            raise BadFrame("a frame of the model is no JSON object")
        message: _Message = self._fitting(raw, _Message)
        if isinstance(raw.get("serverContent"), dict) and message.server_content is None:
            message.server_content = self._fitting(raw["serverContent"], _ServerContent)
        return message

    def _fitting(self, raw: dict[str, Any], kind: type[Any]) -> Any:
        fitting = kind()
        for field in msgspec.structs.fields(kind):
            if field.encode_name not in raw:
                continue
            try:
                setattr(fitting, field.name, msgspec.convert(raw[field.encode_name], field.type))
            except msgspec.ValidationError:
                self.skipped += 1
        return fitting


def _only_audio(message: _Message, content: _ServerContent) -> list[Inbound] | None:
    """The hot path: a frame that is one piece of audio and nothing else. None for any other."""
    parts = content.model_turn.parts if content.model_turn is not None else None
    if (
        not parts
        or len(parts) != 1
        or (blob := parts[0].inline_data) is None
        or content.output_transcription is not None
        or content.input_transcription is not None
        or content.interim_input_transcription is not None
        or content.turn_complete
        or content.generation_complete
        or content.interrupted
        or content.grounding_metadata is not None
        or message.tool_call is not None
        or message.usage_metadata is not None
        or message.session_resumption_update is not None
        or message.tool_call_cancellation is not None
        or message.voice_activity is not None
        or message.voice_activity_detection_signal is not None
        or message.go_away is not None
        or message.error is not None
        or not blob.mime_type.startswith("audio/")
    ):
        return None
    return _audio(blob)


def _audio(blob: _Blob) -> list[Inbound]:
    """Whole samples only."""
    pcm = blob.data if len(blob.data) % 2 == 0 else blob.data[:-1]
    return [AudioOut(pcm)] if pcm else []


def _transcript(role: Literal["user", "model"], text: str, words: _Words, *, finished: bool = False, replaces: bool = False) -> Transcript:
    start, end = _seconds(words.start_offset), _seconds(words.end_offset)
    return Transcript(
        role,
        text,
        finished=finished,
        replaces=replaces,
        language=words.language_code,
        start_ms=None if start is None else round(start * 1000),
        end_ms=None if end is None else round(end * 1000),
    )


def _usage(raw: dict[str, Any]) -> Usage:
    """Live names the answer's tokens `response...`, everything else in this ecosystem `candidates...`."""
    live = LiveUsage._from_response(response=raw, kwargs={})
    counts = live.model_dump(exclude_none=True)
    for old, new in (
        ("response_token_count", "candidates_token_count"),
        ("response_tokens_details", "candidates_tokens_details"),
    ):
        if old in counts:
            counts[new] = counts.pop(old)
    known = GenerateContentResponseUsageMetadata.model_fields
    return Usage(GenerateContentResponseUsageMetadata(**{name: value for name, value in counts.items() if name in known}))


def _grounding(raw: dict[str, Any]) -> Grounding:
    return Grounding(GroundingMetadata._from_response(response=raw, kwargs={}))


def _other_part(place: tuple[bytes, int]) -> ContentOut:
    frame, index = place
    raw = msgspec.json.decode(frame)["serverContent"]["modelTurn"]["parts"][index]
    return ContentOut(Content(role="model", parts=[Part._from_response(response=raw, kwargs={})]))


def _seconds(duration: str | None) -> float | None:
    """A protobuf duration (`"9.5s"`) in seconds; None for anything else."""
    if duration is None:
        return None
    try:
        return max(0.0, float(duration.removesuffix("s")))
    except ValueError:
        return None


def _index(value: int | str | None) -> int | None:
    try:
        return None if value is None else int(value)
    except ValueError:
        return None
