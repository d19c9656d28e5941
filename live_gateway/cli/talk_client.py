"""The client's side of a live session (docs: the wire protocol), without I/O.

Frames and time in, frames out. Seconds are those of a monotonic clock, the same for every call. The shell sends what `take` gives, hands
over what arrives, and calls `tick` when `deadline` has come; it decides nothing.

What it does: says hello, waits for the welcome, speaks a recording at real-time pace in 40 ms chunks (or types a text), goes on with
silence as an open microphone would, plays the answer on paper and reports that, and is done when nothing more is to come.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass
from typing import Any, Literal

from live_gateway.cli.problems import Exit
from live_gateway.cli.talk_playback import PacedListener
from live_gateway.errors import GatewayError
from live_gateway.server.wire import SERVER_KINDS, VERSION, Codec, Flag, Frame, Kind, pack_frame, unpack_frame

INPUT_HZ = 16_000
OUTPUT_HZ = 24_000
CHUNK_S = 0.04
_CHUNK_SAMPLES = round(INPUT_HZ * CHUNK_S)
_CHUNK_BYTES = 2 * _CHUNK_SAMPLES
WELCOME_WAIT_S = 90.0
"""How long the gateway may take to be ready; it limits itself to less, a voice that is still loading included."""
SETTLE_S = 1.0
"""How long nothing must have happened before the conversation is over: longer than the silence after which speech counts as ended."""
LONGEST_ANSWER_S = 300.0
"""From the end of the recording; whatever still comes after it is not waited for."""

_SIGNS_OF_LIFE = frozenset(
    ["event", "interrupted", "response.audio.end", "response.end", "response.start", "state", "tool.call", "tool.update", "transcript"]
)
TOOL_OVER = frozenset(["done", "error", "denied", "cancelled", "expired"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to say.

    pcm: the recording, int16 mono at 16 kHz. last_sound_s: where in it the last sound ends; the answer's delay is counted from there.
    text: typed instead. patience_s: how long to wait without a sign of life.
    """

    pcm: bytes = b""
    last_sound_s: float = 0.0
    text: str | None = None
    session: str | None = None
    modality: Literal["AUDIO", "TEXT"] = "AUDIO"
    patience_s: float = 30.0


@dataclass(slots=True)
class Outcome:
    """How it went.

    code: the exit code, None while it still goes on. problem: the sentence for it. first_audio_s: from the last sound of the recording
    to the answer's first audio.
    """

    code: Exit | None = None
    problem: str | None = None
    session: str | None = None
    question: str = ""
    answer: str = ""
    first_audio_s: float | None = None


class TalkClient:
    """One conversation of one recording or text. `done` says that it is over and `outcome` how."""

    def __init__(self, plan: Plan, *, epoch_s: float) -> None:
        """epoch_s: what has to be added to the monotonic clock to get seconds since the Unix epoch."""
        self.outcome = Outcome()
        self.listener = PacedListener(OUTPUT_HZ)
        self._plan = plan
        self._epoch_s = epoch_s
        self._out: list[str | bytes] = []
        self._opened_at = 0.0
        self._speaking_since: float | None = None
        self._chunks_sent = 0
        self._active_at = 0.0
        self._state = "listening"
        self._open_responses: set[int] = set()
        self._open_tools: set[str] = set()
        self._closed_tools: set[str] = set()
        self._texts: dict[str, tuple[str, str]] = {}
        self._answered = False
        self._answer_failed = False
        self._fatal: str | None = None

    @property
    def done(self) -> bool:
        """Whether the conversation is over; what `take` still gives should be sent."""
        return self.outcome.code is not None

    @property
    def sent_s(self) -> float:
        """Seconds of the recording that have been sent."""
        return min(self._chunks_sent * CHUNK_S, self._length_s)

    def open(self, now: float) -> None:
        """The socket is open."""
        self._opened_at = now
        hello: dict[str, Any] = {
            "type": "hello",
            "v": VERSION,
            "input": "hands_free",
            "caps": ["playback"],
            "config": {"modalities": [self._plan.modality]},
        }
        if self._plan.session is not None:
            hello["session"] = self._plan.session
        self._say(hello)

    def receive(self, frame: str | bytes, now: float) -> dict[str, Any] | None:
        """Take a frame of the server. A message is returned as parsed, to be shown; what is no frame of the protocol ends it all."""
        message = None
        try:
            if isinstance(frame, bytes):
                self._hear(frame, now)
            else:
                message = _parse(frame)
                self._note(message, now)
        except (GatewayError, TypeError, ValueError) as error:
            self._finish(Exit.SERVER_ERROR, f"the server does not speak the protocol of this client: {error}")
        self.tick(now)
        return message

    def disconnected(self, code: int, reason: str) -> None:
        """The server closed the socket, or it broke (1006)."""
        if self._answered and self._at_rest and self._fatal is None:
            self._finish(Exit.OK, None)
        words = f"{code} {reason}".strip()
        self._finish(Exit.SERVER_ERROR, self._fatal or f"the server ended the connection before the answer was complete ({words})")

    def fail(self, code: Exit, problem: str) -> None:
        """Something outside of the protocol went wrong; it is over, unless it was already."""
        self._finish(code, problem)

    def tick(self, now: float) -> None:
        """Let time pass: send what is due, play on, notice the end."""
        if self.done:
            return
        self._send_audio(now)
        self._play(now)
        self._look_for_the_end(now)

    def deadline(self) -> float:
        """When `tick` has something to do, at the latest."""
        if self._speaking_since is None:
            return self._opened_at + WELCOME_WAIT_S
        due = self._chunk_due if self._plan.text is None else self._end_due
        playing = self.listener.deadline()
        return due if playing is None else min(due, playing)

    def take(self) -> list[str | bytes]:
        """The frames to send, in order."""
        out, self._out = self._out, []
        return out

    # What arrives.

    def _hear(self, frame: bytes, now: float) -> None:
        audio = unpack_frame(frame, SERVER_KINDS)
        if self.outcome.first_audio_s is None:
            self.outcome.first_audio_s = now - self._begun - self._plan.last_sound_s
        self._active_at = now
        self.listener.audio(audio.stream, audio.payload, now)

    def _note(self, message: dict[str, Any], now: float) -> None:
        kind = message["type"]
        if kind in _SIGNS_OF_LIFE:
            self._active_at = now
        match kind:
            case "welcome":
                self._welcomed(message, now)
            case "state":
                self._state = str(message.get("state"))
            case "transcript":
                self._note_transcript(message)
            case "response.start" | "response.audio.end" | "response.end" | "interrupted":
                self._note_response(kind, message, now)
            case "tool.call" | "tool.update":
                self._note_tool(kind, message)
            case "notice" if message.get("code") == "voice_missing" and self._plan.text is None:
                params = message.get("params") or {}
                self._finish(Exit.SERVER_ERROR, f"the server cannot hear: {params.get('message')}")
            case "error" if message.get("fatal"):
                self._fatal = f"{message.get('message') or 'the server failed'} ({message.get('code')})"

    def _welcomed(self, message: dict[str, Any], now: float) -> None:
        self.outcome.session = message.get("session")
        self._speaking_since = self._active_at = now
        if self._plan.text is not None:
            content = {"role": "user", "parts": [{"text": self._plan.text}]}
            self._say({"type": "content", "message_id": uuid.uuid4().hex, "content": content})

    def _note_transcript(self, message: dict[str, Any]) -> None:
        item, role = str(message.get("item")), str(message.get("role"))
        self._texts[item] = (role, str(message.get("text", "")))
        self._answered |= role == "model" and bool(message.get("final"))
        self.outcome.question = " ".join(text for who, text in self._texts.values() if who == "user")
        self.outcome.answer = " ".join(text for who, text in self._texts.values() if who == "model")

    def _note_response(self, kind: str, message: dict[str, Any], now: float) -> None:
        number = int(message.get("response", 0))
        if kind == "response.start":
            self._open_responses.add(number)
        elif kind == "response.audio.end":
            self.listener.audio_end(number, now)
        elif kind == "interrupted":
            self.listener.flush(number, now)
        else:
            self._open_responses.discard(number)
            self.listener.audio_end(number, now)
            self._answered |= message.get("status") == "completed"
            self._answer_failed = message.get("status") == "failed"

    def _note_tool(self, kind: str, message: dict[str, Any]) -> None:
        call = str(message.get("call"))
        if kind == "tool.update" and message.get("status") in TOOL_OVER:
            self._open_tools.discard(call)
            self._closed_tools.add(call)
        elif message.get("needs_confirm") or message.get("status") == "waiting_confirm":
            self._open_tools.discard(call)  # nobody here decides about it, so it is not waited for
        elif call not in self._closed_tools:
            self._open_tools.add(call)

    # What follows.

    @property
    def _begun(self) -> float:
        return self._opened_at if self._speaking_since is None else self._speaking_since

    @property
    def _length_s(self) -> float:
        return len(self._plan.pcm) / 2 / INPUT_HZ

    @property
    def _end_of_question(self) -> float:
        return self._begun + self._length_s

    @property
    def _chunk_due(self) -> float:
        return self._begun + (self._chunks_sent + 1) * CHUNK_S

    def _send_audio(self, now: float) -> None:
        """The chunks that a microphone would have caught by now: those of the recording, then silence."""
        if self._speaking_since is None or self._plan.text is not None:
            return
        while self._chunk_due <= now:
            self._out.append(pack_frame(self._chunk(self._chunks_sent)))
            self._chunks_sent += 1

    def _chunk(self, number: int) -> Frame:
        pcm = self._plan.pcm[number * _CHUNK_BYTES : (number + 1) * _CHUNK_BYTES].ljust(_CHUNK_BYTES, b"\0")
        captured_ms = (self._chunk_due + self._epoch_s) * 1000
        flags = Flag.START if number == 0 else Flag.NONE
        return Frame(Kind.AUDIO_UP, flags, Codec.PCM16, 1, number, number * _CHUNK_SAMPLES, captured_ms, pcm)

    def _play(self, now: float) -> None:
        self.listener.tick(now)
        for mark in self.listener.take():
            self._say({"type": "playback", "heard": mark.played, **asdict(mark)})
        if self.listener.playing:
            self._active_at = now

    def _look_for_the_end(self, now: float) -> None:
        if self._speaking_since is None:
            if now >= self._opened_at + WELCOME_WAIT_S:
                self._finish(Exit.SERVER_ERROR, f"the server did not get ready within {WELCOME_WAIT_S:.0f} seconds")
            return
        if now < self._end_due:
            return
        if self._at_rest and self._answered:
            self._finish(Exit.OK, None)
        elif self._at_rest and self._answer_failed:
            self._finish(Exit.SERVER_ERROR, "the agent failed to answer")
        else:
            self._finish(Exit.NO_ANSWER, self._why_no_answer())

    @property
    def _end_due(self) -> float:
        """When the conversation is over if nothing more happens."""
        settled = self._at_rest and (self._answered or self._answer_failed)
        quiet_since = max(self._end_of_question, self._active_at)
        return min(quiet_since + (SETTLE_S if settled else self._plan.patience_s), self._end_of_question + LONGEST_ANSWER_S)

    @property
    def _at_rest(self) -> bool:
        return self._state == "listening" and self.listener.idle and not self._open_responses and not self._open_tools

    def _why_no_answer(self) -> str:
        if self._answered:
            return "the conversation did not come to rest; the answer may be incomplete"
        if self.outcome.question:
            return "no answer came"
        return "no answer came, and no words were understood in the recording" if self._plan.pcm else "no answer came"

    def _finish(self, code: Exit, problem: str | None) -> None:
        if self.done:
            return
        self.outcome.code, self.outcome.problem = code, problem
        self._say({"type": "bye"})

    def _say(self, message: dict[str, Any]) -> None:
        self._out.append(json.dumps(message, ensure_ascii=False))


def _parse(frame: str) -> dict[str, Any]:
    message = json.loads(frame)
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise ValueError("a message is an object with a type")
    return message
