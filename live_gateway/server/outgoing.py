"""What goes to a client: items of a live session and stored events as frames of the wire (docs/reference/wire.md).

Durable messages carry `seq`, `t` (epoch milliseconds of the event) and `session` and follow from the stored event alone; all others are
volatile. An audio chunk becomes one `bytes`, everything else JSON texts. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Literal

import msgspec

from live_gateway.confirmation import CONFIRM, ToolConfirmation, asked_in, original_call, rejected
from live_gateway.content import FunctionCall, FunctionResponse, digest
from live_gateway.errors import PublicError
from live_gateway.events import USER, Event, encode_event, event_to_dict
from live_gateway.live.items import (
    AudioChunk,
    Failure,
    LiveItem,
    Notice,
    Partial,
    Relay,
    ResponseAudioEnd,
    ResponseEnded,
    ResponseInterrupted,
    ResponseStarted,
    StateChanged,
    Stored,
    ToolFinished,
    ToolRunning,
    ToolStarted,
    TranscriptUpdate,
    TurnMetrics,
)
from live_gateway.server.wire import MAX_PAYLOAD, pack_audio_down

GROWING, COMPLETE, HEARD = 0, 1, 2
"""Revisions of a transcript: while it grows, when it is complete, and once it is known how much of it was heard."""

AckState = Literal["persisted", "delivered", "not_delivered", "delivered_not_persisted", "unknown"]
_RETRY: Mapping[AckState, str] = {
    "persisted": "never",
    "delivered": "never",
    "not_delivered": "ok",
    "delivered_not_persisted": "never",
    "unknown": "ask",
}
_REMEMBERED = 64
_SURROGATE = re.compile("[\ud800-\udfff]")

Message = dict[str, Any]


class Outgoing:
    """Makes the frames of one connection.

    session: id of the session. effects: what each tool does, by name; a tool that is not listed counts as writing. events: also send every
    event whole. It remembers the transcripts it sent last, so that what was heard of one can be sent with its text.
    """

    def __init__(self, session: str, effects: Mapping[str, Literal["read", "write"]], *, events: bool = False) -> None:
        self._session = session
        self._effects = effects
        self._events = events
        self._frame_no = 0
        self._said: dict[str, Message] = {}

    def frames(self, item: LiveItem, now_ms: float) -> list[str | bytes]:
        """The item as the client sees it, in order. now_ms: epoch milliseconds, for the header of audio frames."""
        match item:
            case AudioChunk():
                return self._audio(item, now_ms)
            case Stored(event):
                return self._stored(event)
            case Partial(event, update):
                whole: list[str | bytes] = [self._event_frame(event)] if self._events else []
                return whole if update is None else [encode(_growing(update)), *whole]
            case Relay(frame):
                return [frame]
            case _:
                return [encode(volatile(item))]

    def durable(self, event: Event) -> list[Message]:
        """The messages that follow from a stored event; a replay gives the same."""
        stamp = self._stamp(event)
        return [message | stamp for message in self._messages(event)]

    def _audio(self, chunk: AudioChunk, now_ms: float) -> list[str | bytes]:
        frames: list[str | bytes] = []
        for start in range(0, len(chunk.pcm), MAX_PAYLOAD):
            piece = chunk.pcm if len(chunk.pcm) <= MAX_PAYLOAD else chunk.pcm[start : start + MAX_PAYLOAD]
            frames.append(pack_audio_down(chunk.response, self._frame_no, chunk.pos + start // 2, now_ms, piece))
            self._frame_no += 1
        return frames

    def _stored(self, event: Event) -> list[str | bytes]:
        frames: list[str | bytes] = [encode(message) for message in self.durable(event)]
        if self._events:
            frames.append(self._event_frame(event))
        return frames

    def _messages(self, event: Event) -> Iterator[Message]:
        if event.transcription is not None:
            yield self._remember(event.id, _spoken(event))
        elif event.text:
            yield self._remember(event.id, _written(event))
        for call in event.function_calls:
            if call.name == CONFIRM:
                yield from self._asked(call)
            else:
                yield self._called(call)
        for response in event.function_responses:
            if response.name != CONFIRM:
                yield _tool_update(response)
        decided = event.custom_metadata.get("decided")
        if isinstance(decided, dict):
            yield _decided(decided)
        heard = event.custom_metadata.get("heard")
        if isinstance(heard, dict):
            yield self._heard(event, heard)

    def _called(self, call: FunctionCall, asked: ToolConfirmation | None = None) -> Message:
        effect = self._effects.get(call.name or "", "write")
        return _tool_call(call.id or "", call.name or "", call.args or {}, effect, asked)

    def _asked(self, question: FunctionCall) -> Iterator[Message]:
        """The call once more, and that it waits for a person."""
        if (call := original_call(question)) is not None:
            yield self._called(call, asked_in(question))
            yield {"type": "tool.update", "call": call.id or "", "status": "waiting_confirm"}

    def _remember(self, item: str, message: Message) -> Message:
        self._said[item] = message
        while len(self._said) > _REMEMBERED:
            del self._said[next(iter(self._said))]
        return message

    def _heard(self, event: Event, heard: Mapping[str, Any]) -> Message:
        """Without the text where the transcript lies too far back: a client keeps the text it has. Never more than the text has: what was
        heard was counted before a plugin took words out of it."""
        item = str(heard.get("item", ""))
        known = self._said.get(item) or {"type": "transcript", "item": item, "role": "model", "author": event.author, "final": True}
        chars = heard.get("chars", 0)
        return known | {"revision": HEARD, "heard_chars": min(chars, len(known["text"])) if "text" in known else chars}

    def _event_frame(self, event: Event) -> str:
        head = encode({"type": "event"} | (self._stamp(event) if event.seq else {}))
        return f'{head[:-1]},"event":{_event_json(event)}}}'

    def _stamp(self, event: Event) -> Message:
        return {"seq": event.seq, "t": round(event.timestamp * 1000), "session": self._session}


def volatile(item: LiveItem) -> Message:
    """The message for an item that is neither audio nor an event."""
    match item:
        case ResponseStarted(response, turn):
            return {"type": "response.start", "response": response, "turn": turn}
        case ResponseAudioEnd(response, samples):
            return {"type": "response.audio.end", "response": response, "samples": samples}
        case ResponseInterrupted(response, reason):
            return {"type": "interrupted", "response": response, "reason": reason}
        case ResponseEnded(response, status, heard_ms):
            return {"type": "response.end", "response": response, "status": status, "heard_ms": heard_ms}
        case StateChanged(state):
            return {"type": "state", "state": state}
        case ToolStarted(call, name, args, effect, needs_confirm, hint):
            return _tool_call(call, name, args, effect, ToolConfirmation(hint) if needs_confirm else None) | {"pending": True}
        case ToolRunning(call):
            return {"type": "tool.update", "call": call, "status": "running", "pending": True}
        case ToolFinished():
            return _tool_finished(item)
        case TurnMetrics():
            return {"type": "metrics"} | {name: value for name, value in asdict(item).items() if value is not None}
        case Notice(level, code, params):
            return notice(level, code, params)
        case Failure(problem, _, fatal, ref):
            return error(problem, fatal=fatal, ref=ref)
        case _:
            raise TypeError(f"{type(item).__name__} is not a volatile item")


def welcome(*, session: str, model: str, head_seq: int, acks: list[Message], limits: Message, features: list[str]) -> Message:
    """The live session is open. Nothing can be resumed: there is no token."""
    return {
        "type": "welcome",
        "v": 1,
        "session": session,
        "resume_token": None,
        "resume_ttl_s": 0,
        "resumed": False,
        "head_seq": head_seq,
        "replay_from": None,
        "acks": acks,
        "upstream": "live",
        "model": model,
        "input_hz": 16_000,
        "output_hz": 24_000,
        "limits": limits,
        "features": features,
    }


def ack(message_id: str, state: AckState, seq: int = 0) -> Message:
    """What became of a message of the user."""
    message: Message = {"type": "ack", "message_id": message_id, "state": state, "retry": _RETRY[state]}
    return message | {"seq": seq} if seq else message


def input_ack(stream: int, pos: int) -> Message:
    """How far the microphone has been heard: index after the last sample that arrived."""
    return {"type": "input.ack", "stream": stream, "pos": pos}


def pong(t0: float, t1: float, t2: float) -> Message:
    """The answer to a ping; t1, t2: when it came and when this was made, epoch milliseconds."""
    return {"type": "pong", "t0": t0, "t1": t1, "t2": t2}


def notice(level: str, code: str, params: Mapping[str, Any] | None = None) -> Message:
    """Something a person may want to know."""
    return {"type": "notice", "level": level, "code": code, "params": dict(params or {})}


def error(problem: PublicError, *, fatal: bool = False, ref: str | None = None) -> Message:
    """Something failed. ref: the message it is about."""
    message: Message = {"type": "error", "code": problem.code, "message": problem.message, "fatal": fatal, "retryable": problem.retryable}
    return message | {"ref": ref} if ref is not None else message


def goaway(reason: str, deadline_ms: int, retry_after_ms: int) -> Message:
    """The server is going to close this connection; come back after `retry_after_ms`."""
    return {"type": "goaway", "reason": reason, "deadline_ms": deadline_ms, "retry_after_ms": retry_after_ms}


def encode(message: object) -> str:
    """The message as JSON text. Lone surrogates become U+FFFD, what is no JSON its `repr`."""
    try:
        return msgspec.json.encode(message, enc_hook=_enc_hook).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(_clean(message), enc_hook=_enc_hook).decode()


def close_reason(code: str) -> str:
    """The reason of a close frame: the code word, at most 120 bytes of ASCII."""
    return code.encode("ascii", "replace")[:120].decode("ascii")


def _growing(update: TranscriptUpdate) -> Message:
    message: Message = {
        "type": "transcript",
        "item": update.item,
        "turn": update.turn,
        "role": update.role,
        "author": update.author,
        "text": update.text,
        "delta": update.delta,
        "final": False,
        "revision": GROWING,
        "start_ms": update.start_ms,
        "end_ms": update.end_ms,
        "source": update.source,
    }
    return message | {"lang": update.language} if update.language else message


def _complete(event: Event, role: str, text: str, source: str) -> Message:
    live = event.custom_metadata.get("live")
    place: Mapping[str, Any] = live if isinstance(live, dict) else {}
    return {
        "type": "transcript",
        "item": event.id,
        "turn": place.get("turn", 0),
        "role": role,
        "author": event.author,
        "text": text,
        "delta": "",
        "final": True,
        "revision": COMPLETE,
        "start_ms": place.get("startMs"),
        "end_ms": place.get("endMs"),
        "source": source,
    }


def _spoken(event: Event) -> Message:
    transcription = event.transcription
    assert transcription is not None
    message = _complete(event, "user" if event.input_transcription else "model", transcription.text or "", "voice")
    return message | {"lang": transcription.language_code} if transcription.language_code else message


def _written(event: Event) -> Message:
    by_user = event.author == USER
    return _complete(event, "user" if by_user else "model", event.text, "typed" if by_user else "text")


def _tool_call(call: str, name: str, args: Mapping[str, Any], effect: str, asked: ToolConfirmation | None = None) -> Message:
    message: Message = {
        "type": "tool.call",
        "call": call,
        "name": name,
        "args": args,
        "effect": effect,
        "needs_confirm": asked is not None,
        "digest": digest(args),
    }
    return message | {"hint": asked.hint} if asked is not None and asked.hint else message


def _decided(decided: Mapping[str, Any]) -> Message:
    status = "running" if decided.get("confirmed") is True else "denied"
    return {"type": "tool.update", "call": str(decided.get("call", "")), "status": status, "by": USER}


def _tool_update(response: FunctionResponse) -> Message:
    payload = response.response or {}
    message: Message = {"type": "tool.update", "call": response.id or ""}
    if "error" in payload:
        problem = payload["error"]
        text = problem if isinstance(problem, str) else encode(problem)
        status = "cancelled" if text == "cancelled" else "denied" if text == rejected(response.name) else "error"
        return message | {"status": status, "error": text}
    return message | {"status": "progress" if response.will_continue else "done", "result": _result(payload)}


def _tool_finished(item: ToolFinished) -> Message:
    message: Message = {"type": "tool.update", "call": item.call, "status": item.status}
    if item.result is not None:
        message["result"] = _result(item.result)
    if item.error is not None:
        message["error"] = item.error
    return message | {"ms": item.ms, "pending": True}


def _result(response: Any) -> Any:
    """A tool's plain result is stored as `{"result": ...}`; people see what the tool returned."""
    return response["result"] if isinstance(response, dict) and response.keys() == {"result"} else response


def _event_json(event: Event) -> str:
    try:
        return encode_event(event).decode()
    except UnicodeEncodeError:
        return encode(event_to_dict(event))


def _enc_hook(value: object) -> str:
    return repr(value)[:1024]


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {_clean(key): _clean(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(entry) for entry in value]
    return value
