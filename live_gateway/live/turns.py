"""The turn protocol of a live session: who speaks, which response is which, when one is over.

Pure: inputs in, effects out, time (monotonic seconds) passed in. Rules, each tested:

* A response begins with the model's first audio or text after the last one was complete. Its number only grows. It travels in every audio
  frame, so whoever holds audio of an interrupted response knows it by comparing numbers.
* A response is spoken from its first sample until what was sent has been played, which is later than the model's own end of turn. Until
  then the user can interrupt it: by speaking, by typing, by cancelling.
* It ends exactly once: played to its end, flushed, cancelled with the session, or failed with the model (`playback`).
* What the model still sends of an answer that was interrupted on our side is dropped until the model says that it stopped.
* A turn begins with the user: speech, typed text, push to talk. Late words of the user keep the turn in which they were spoken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from live_gateway.live.answer_time import AnswerTime
from live_gateway.live.items import (
    PlaybackMark,
    ResponseAudioEnd,
    ResponseEnded,
    ResponseInterrupted,
    ResponseStarted,
    ResponseStatus,
    SpeakingState,
    StateChanged,
    TurnMetrics,
)
from live_gateway.live.playback import Playback, Response

Reason = Literal["speech", "typed", "cancel", "model"]


@dataclass(frozen=True, slots=True)
class StopModel:
    """Ask the model to stop the answer it is making."""


@dataclass(frozen=True, slots=True)
class PlayingChanged:
    """Whether the user hears an answer now; a local model then distrusts what the microphone catches."""

    playing: bool


@dataclass(frozen=True, slots=True)
class InterruptionMark:
    """Record that the answer was interrupted: one mark per interruption, whoever noticed it first."""


TurnEffect: TypeAlias = (
    ResponseStarted
    | ResponseAudioEnd
    | ResponseInterrupted
    | ResponseEnded
    | StateChanged
    | TurnMetrics
    | StopModel
    | PlayingChanged
    | InterruptionMark
)


class Turns:
    """State of the turn protocol. Every input may leave effects, which `take` hands over in order.

    marks: the listener reports what it plays. interrupts: the user's speech stops an answer that plays.
    """

    def __init__(self, *, marks: bool, interrupts: bool = True) -> None:
        self._playback = Playback(marks=marks)
        self._interrupts = interrupts
        self._effects: list[TurnEffect] = []
        self._making: Response | None = None
        self._last_response = 0
        self._turn = 0
        self._user_turn = 0
        self._users_turn_open = False
        self._hears_speech = False
        self._user_speaking = False
        self._tools_running = 0
        self._awaiting_answer = False
        self._dropping = False
        self._marked = False  # whether the newest answer's interruption is on record
        self._time = AnswerTime()
        self._state: SpeakingState = "listening"
        self.playing = False  # whether the user hears an answer now

    @property
    def turn(self) -> int:
        """Number of the current turn; 0 before the first."""
        return self._turn

    @property
    def state(self) -> SpeakingState:
        """What the conversation is doing now."""
        return self._state

    @property
    def dropping(self) -> bool:
        """Whether what the model sends belongs to an answer that was interrupted on our side."""
        return self._dropping

    @property
    def making(self) -> int:
        """Number of the response that the model is making; 0 for none."""
        return self._making.number if self._making is not None else 0

    def take(self) -> list[TurnEffect]:
        """The effects since the last call, in order."""
        self._settle()
        effects, self._effects = self._effects, []
        return effects

    def deadline(self) -> float | None:
        """When `tick` is due; None when nothing waits for time."""
        return self._playback.deadline()

    # The user's side.

    def speech_started(self, now: float) -> None:
        """The model hears the user begin to speak (its own detection, or push to talk)."""
        self._hears_speech = True
        self._user_speaking = True
        self._awaiting_answer = False
        if self._interrupts:
            self._interrupt("speech", now)
        self._begin_users_turn()

    def speech_ended(self, silence_ms: int, now: float) -> None:
        """The model hears that the user is done."""
        self._user_speaking = False
        self._expect_answer(now, silence_ms)

    def words_of_user(self) -> int:
        """A piece of the user's transcription arrived; the turn it belongs to. Where the model signals speech, words never begin a turn."""
        if not self._hears_speech:
            self._begin_users_turn()
        return self._user_turn

    def typed(self, now: float) -> None:
        """The user sent a message. It stops an answer that plays, and begins a turn."""
        self._interrupt("typed", now)
        self._begin_users_turn()
        self._expect_answer(now, 0)

    def cancel(self, now: float) -> None:
        """The user stopped the answer, without saying anything."""
        if self._awaiting_answer and not self._playback.running:
            self._effects.append(StopModel())  # nothing is heard yet, but it is being made
        self._interrupt("cancel", now)
        self._awaiting_answer = False

    def answered_elsewhere(self) -> None:
        """The user's message was answered without the model."""
        self._awaiting_answer = False
        self._time.forget()

    def playback(self, mark: PlaybackMark, now: float) -> None:
        """The listener reports how far it played a response. Unknown responses are ignored; counts are clamped to what was sent."""
        self._playback.mark(mark, now)
        self._effects += self._playback.take()

    # The model's side.

    def audio(self, samples: int, now: float) -> tuple[int, int] | None:
        """The model made this much audio. Its response number and the index of its first sample, or None when it is to be dropped."""
        if self._dropping:
            return None
        response = self._answering(now)
        return response.number, self._playback.grow(response, samples, now)

    def text(self, now: float) -> bool:
        """The model made a piece of text; False when it is to be dropped."""
        if self._dropping:
            return False
        self._answering(now)
        return True

    def tools_started(self, count: int, now: float) -> None:
        """The model called this many tools."""
        self._tools_running += count
        self._time.tools_started(count, now)
        self._users_turn_open = False
        self._ensure_turn()

    def tool_finished(self, now: float, *, answered: bool) -> None:
        """A tool ended; the model goes on if it was answered."""
        self._tools_running -= 1
        self._time.tool_finished(now)
        if answered and not self._tools_running:
            self._awaiting_answer = True

    def generation_complete(self, now: float) -> None:
        """The model has made its whole answer."""
        self._complete()

    def turn_complete(self, now: float) -> None:
        """The model's turn is over."""
        self._complete()
        self._dropping = False
        if not self._tools_running and not self._user_speaking:
            self._awaiting_answer = False

    def model_interrupted(self, now: float) -> None:
        """The model stopped its answer by itself."""
        if not self._marked:  # else we had noticed first
            self._interrupt("model", now)
        if not self._marked:
            self._effects.append(InterruptionMark())
            self._marked = True
        self._dropping = False

    def handed_over(self, now: float, *, talking: bool) -> None:
        """Another agent goes on, and is to speak; what was made plays on. talking: by push to talk, which does not end with the agent."""
        self._complete()
        self._dropping, self._tools_running = False, 0
        self._user_speaking = self._user_speaking and talking
        self._awaiting_answer = not self._user_speaking

    # Time and end.

    def tick(self, now: float) -> None:
        """Time has passed."""
        self._playback.tick(now)
        self._effects += self._playback.take()

    def fail(self, now: float) -> None:
        """The model's connection broke: open responses fail."""
        self._end_all("failed", now)

    def close(self, now: float) -> None:
        """The session is over: open responses are cancelled."""
        self._end_all("cancelled", now)

    def _answering(self, now: float) -> Response:
        if self._making is not None:
            return self._making
        self._ensure_turn()
        self._users_turn_open = False
        self._awaiting_answer = False
        self._last_response += 1
        self._marked = False
        response = self._making = self._playback.begin(self._last_response, self._turn, now)
        self._effects.append(ResponseStarted(response.number, response.turn))
        if (metrics := self._time.answered(response.turn, now)) is not None:
            self._effects.append(metrics)
        return response

    def _complete(self) -> None:
        response, self._making = self._making, None
        if response is None:
            return
        if response.samples:
            self._effects.append(ResponseAudioEnd(response.number, response.samples))
        self._playback.complete(response)
        self._effects += self._playback.take()

    def _interrupt(self, reason: Reason, now: float) -> None:
        running = self._playback.running
        if not running:
            return
        if self._making is not None:
            self._making = None
            self._dropping = True
            if reason != "model":
                self._effects.append(StopModel())
        self._effects.append(ResponseInterrupted(self._last_response, reason))
        self._effects.append(InterruptionMark())
        self._marked = True
        for response in running:
            self._playback.stop(response, "cancelled" if reason == "cancel" else "interrupted", now)
        self._effects += self._playback.take()

    def _end_all(self, status: ResponseStatus, now: float) -> None:
        self._making = None
        self._playback.end_all(status, now)
        self._effects += self._playback.take()
        self._awaiting_answer = False

    def _begin_users_turn(self) -> None:
        if not self._users_turn_open:
            self._turn += 1
            self._users_turn_open = True
        self._user_turn = self._turn

    def _ensure_turn(self) -> None:
        if self._turn == 0:
            self._turn = 1

    def _expect_answer(self, now: float, silence_ms: int) -> None:
        self._awaiting_answer = True
        self._time.asked(now, silence_ms)

    def _settle(self) -> None:
        speaking = bool(self._playback.running)
        if speaking != self.playing:
            self.playing = speaking
            self._effects.append(PlayingChanged(speaking))
        if (state := self._derive_state(speaking)) != self._state:
            self._state = state
            self._effects.append(StateChanged(state))

    def _derive_state(self, speaking: bool) -> SpeakingState:
        if self._user_speaking:
            return "user_speaking"
        if speaking:
            return "speaking"
        if self._tools_running:
            return "tool"
        return "thinking" if self._awaiting_answer else "listening"
