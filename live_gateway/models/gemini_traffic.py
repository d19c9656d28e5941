"""What is under way on a connection to Gemini Live: whose turn it is, which calls are open, whether the model owes an answer. Pure.

A turn is open from the user's first sign (speech, text, an answer to a call) or the model's first piece until the model says that its turn
is complete. The model owes an answer from when the user is done until then, but not while a call is open, while the user speaks, or after
the answer is made: some models wait for its playback before they call the turn complete.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from live_gateway.content import Content
from live_gateway.models.live import (
    AudioOut,
    ContentOut,
    GenerationComplete,
    Interrupted,
    LiveMessage,
    SpeechEnded,
    SpeechStarted,
    TextOut,
    ToolCalls,
    ToolCallsCancelled,
    Transcript,
    TurnComplete,
)

LATE_WORDS_S: Final = 1.0
"""The user's words may be written down later than the model's turn is complete. So soon after it they belong to the turn that is over."""

MAX_REMEMBERED_CALLS: Final = 1024


class Traffic:
    """State of one session's traffic, over all of its connections. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._speaking = False
        self._asked = False
        self._making = False
        self._made = False
        self._gave = False
        self._old_turn_ends = False
        self._calls: dict[str, bool] = {}
        self._just_answered: set[str] = set()
        self._issued: dict[str, None] = {}
        self._since = 0.0
        self.quiet_from = 0.0

    def idle(self, now: float) -> bool:
        """Nobody speaks, nothing is asked, no call is open, and no late words are to be expected."""
        return not (self._speaking or self._asked or self._making or self._calls) and now >= self.quiet_from

    @property
    def gave(self) -> bool:
        """Whether the model gave something in this turn."""
        return self._gave

    @property
    def owed_since(self) -> float | None:
        """When the model was last heard of while it owes an answer; None while it owes none."""
        if self._speaking or self._calls or self._made or not (self._asked or self._making):
            return None
        return self._since

    @property
    def has_new_calls(self) -> bool:
        """Whether a call is open, or was answered a moment ago, that the newest handle does not know."""
        return bool(self._just_answered) or not all(self._calls.values())

    def knows(self, ids: Iterable[str]) -> bool:
        """Whether the model that is connected, or the one that it resumes, made all of these calls."""
        return all(call_id in self._issued for call_id in ids)

    def alive(self, now: float) -> None:
        """A frame arrived."""
        self._since = now

    def asked(self, now: float) -> None:
        """The user's message was sent."""
        self._asked = True
        self._made = self._gave = False
        self._since = now

    def answered(self, ids: Iterable[str], now: float, *, silent: bool) -> None:
        """Calls were answered. silent: the model was told to say nothing about it."""
        for call_id in ids:
            if self._calls.pop(call_id, True) is False:
                self._just_answered.add(call_id)
        if not silent:
            self.asked(now)

    def activity(self, kind: Literal["start", "end"], now: float) -> None:
        """Push to talk."""
        if kind == "start":
            self._speaking = True
        else:
            self._speaking = False
            self._making = True
            self.asked(now)

    def handle_given(self) -> None:
        """The model's state with all of its calls can be resumed."""
        self._just_answered.clear()
        self._calls = dict.fromkeys(self._calls, True)

    def message(self, message: LiveMessage, now: float) -> bool:
        """The model said this. True if it calls a turn complete in which it was asked and gave nothing."""
        match message:
            case AudioOut() | TextOut():
                self._gives()
            case ContentOut(content):
                self._works() if _is_work(content) else self._gives()
            case Transcript(role=role):
                self._words(role, now)
            case ToolCalls(calls):
                self._gives()
                self._called([call.id or "" for call in calls])
            case ToolCallsCancelled(ids):
                for call_id in ids:
                    self._calls.pop(call_id, None)
            case SpeechStarted():
                self._speaking = True
            case SpeechEnded():
                self.activity("end", now)
            case Interrupted():
                self._making = False
                self._old_turn_ends = True
            case GenerationComplete():
                self._made = True
            case TurnComplete():
                return self._turn_complete(now)
        return False

    def lost(self) -> bool:
        """The connection is gone, and with it what was being said. True if a turn was open that will not be ended by the model."""
        was_open, self._making = self._making, False
        self._speaking = self._made = self._old_turn_ends = self._gave = False
        self._asked = False
        return was_open

    def forget_calls(self) -> None:
        """A model that knows nothing of them was connected."""
        self._calls.clear()
        self._just_answered.clear()
        self._issued.clear()

    def _called(self, ids: Iterable[str]) -> None:
        for call_id in ids:
            self._issued[call_id] = None
            self._calls[call_id] = False
        while len(self._issued) > MAX_REMEMBERED_CALLS:
            del self._issued[next(iter(self._issued))]

    def _works(self) -> None:
        self._making = True
        self._made = False

    def _gives(self) -> None:
        self._works()
        self._gave = True
        self._just_answered.clear()

    def _words(self, role: str, now: float) -> None:
        if role == "model":
            self._gives()
        elif self._making or now >= self.quiet_from:
            self._making = self._asked = True
            self._since = now

    def _turn_complete(self, now: float) -> bool:
        self.quiet_from = now + LATE_WORDS_S
        if self._old_turn_ends:  # of the answer that was interrupted; what interrupted it is still to be answered
            self._old_turn_ends = False
            return False
        empty = self._asked and not self._gave and not self._calls
        self._asked = self._making = self._made = self._gave = False
        return empty


def _is_work(content: Content) -> bool:
    """Whether it is only code that the model runs by itself, or its result: no answer yet."""
    return all(part.executable_code or part.code_execution_result for part in content.parts or ())
