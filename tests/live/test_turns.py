"""The turn protocol: responses begin once and end once, and can be interrupted for as long as they play."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from live_gateway.live.items import (
    PlaybackMark,
    ResponseAudioEnd,
    ResponseEnded,
    ResponseInterrupted,
    ResponseStarted,
    StateChanged,
    TurnMetrics,
)
from live_gateway.live.turns import InterruptionMark, PlayingChanged, StopModel, Turns
from live_gateway.models.live import OUTPUT_HZ

SECOND = OUTPUT_HZ


def of_kind(effects: list[Any], *kinds: type) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, kinds)]


def spoken_answer(turns: Turns, seconds: float, now: float) -> list[Any]:
    """The model makes a whole answer in one burst."""
    turns.audio(round(seconds * SECOND), now)
    turns.generation_complete(now)
    turns.turn_complete(now)
    return turns.take()


def test_a_response_begins_with_its_first_audio_and_ends_after_its_duration_and_half_a_second() -> None:
    turns = Turns(marks=False)
    effects = spoken_answer(turns, 2.0, now=10.0)
    assert of_kind(effects, ResponseStarted, ResponseAudioEnd, ResponseEnded) == [ResponseStarted(1, 1), ResponseAudioEnd(1, 2 * SECOND)]
    assert of_kind(effects, StateChanged) == [StateChanged("speaking")]
    assert turns.deadline() == 12.5
    turns.tick(12.4)
    assert of_kind(turns.take(), ResponseEnded) == []
    turns.tick(12.5)
    assert of_kind(turns.take(), ResponseEnded) == [ResponseEnded(1, "completed", 2000)]
    assert turns.state == "listening"
    assert turns.deadline() is None


# contract: LIVE-21
def test_what_one_agent_made_plays_on_while_the_next_one_begins_to_think() -> None:
    turns = Turns(marks=False)
    turns.audio(2 * SECOND, 0.0)
    turns.tools_started(1, 0.0)
    turns.handed_over(0.1, talking=False)
    effects = turns.take()
    assert of_kind(effects, ResponseAudioEnd) == [ResponseAudioEnd(1, 2 * SECOND)]
    assert turns.playing
    assert turns.audio(SECOND, 0.5) == (2, 0)
    turns.generation_complete(0.6)
    turns.tick(4.0)
    assert [ended.response for ended in of_kind(turns.take(), ResponseEnded)] == [1, 2]


# contract: LIVE-21
def test_an_answer_that_was_interrupted_before_a_transfer_is_not_waited_for() -> None:
    turns = Turns(marks=False)
    turns.audio(SECOND, 0.0)
    turns.typed(0.1)
    assert turns.dropping
    turns.handed_over(0.2, talking=False)
    assert turns.audio(SECOND, 0.3) == (2, 0)


# contract: LIVE-21
def test_speech_ends_with_the_agent_that_heard_it_unless_a_button_is_held() -> None:
    for talking, state in ((False, "thinking"), (True, "user_speaking")):
        turns = Turns(marks=False)
        turns.speech_started(0.0)
        turns.handed_over(0.1, talking=talking)
        turns.take()
        assert turns.state == state


def test_a_listener_with_marks_ends_a_response_when_it_is_drained() -> None:
    turns = Turns(marks=True)
    spoken_answer(turns, 2.0, now=0.0)
    turns.playback(PlaybackMark("start", 1), 0.1)
    turns.playback(PlaybackMark("drained", 1, 2 * SECOND, 2 * SECOND), 2.3)
    assert of_kind(turns.take(), ResponseEnded) == [ResponseEnded(1, "completed", 2000)]


def test_a_listener_whose_marks_stop_is_believed_to_have_played_all() -> None:
    turns = Turns(marks=True)
    spoken_answer(turns, 2.0, now=0.0)
    turns.playback(PlaybackMark("pos", 1, SECOND, SECOND), 1.0)
    assert turns.deadline() == 7.0
    turns.tick(7.0)
    assert of_kind(turns.take(), ResponseEnded) == [ResponseEnded(1, "completed", 2000)]


@pytest.mark.parametrize("cause", ["speech", "typed", "cancel"])
def test_what_plays_can_be_interrupted_after_the_models_turn_is_complete(cause: str) -> None:
    turns = Turns(marks=False)
    spoken_answer(turns, 10.0, now=0.0)
    {"speech": turns.speech_started, "typed": turns.typed, "cancel": turns.cancel}[cause](3.0)
    effects = turns.take()
    assert of_kind(effects, ResponseInterrupted) == [ResponseInterrupted(1, cause)]  # type: ignore[arg-type]
    assert of_kind(effects, ResponseEnded) == [ResponseEnded(1, "cancelled" if cause == "cancel" else "interrupted", 3000)]
    assert of_kind(effects, StopModel) == []  # the model had finished: there is nothing to stop
    assert not turns.dropping


def test_an_interruption_during_generation_stops_the_model_and_drops_what_it_still_sends() -> None:
    turns = Turns(marks=False)
    turns.audio(SECOND, 0.0)
    turns.take()
    turns.typed(0.5)
    effects = turns.take()
    assert of_kind(effects, StopModel, ResponseInterrupted, InterruptionMark) == [
        StopModel(),
        ResponseInterrupted(1, "typed"),
        InterruptionMark(),
    ]
    assert turns.audio(SECOND, 0.6) is None
    turns.model_interrupted(0.7)
    assert of_kind(turns.take(), InterruptionMark, ResponseInterrupted) == []  # marked already
    assert turns.audio(SECOND, 0.8) == (2, 0)


def test_the_listener_says_how_much_it_heard_of_an_interrupted_response() -> None:
    turns = Turns(marks=True)
    spoken_answer(turns, 10.0, now=0.0)
    turns.playback(PlaybackMark("pos", 1, 2 * SECOND, 2 * SECOND), 2.0)
    turns.speech_started(2.5)
    assert of_kind(turns.take(), ResponseEnded) == []
    turns.playback(PlaybackMark("flushed", 1, 3 * SECOND, round(2.6 * SECOND)), 2.6)
    assert of_kind(turns.take(), ResponseEnded) == [ResponseEnded(1, "interrupted", 2600)]


def test_without_a_flushed_mark_the_last_mark_and_the_time_since_count() -> None:
    turns = Turns(marks=True)
    spoken_answer(turns, 10.0, now=0.0)
    turns.playback(PlaybackMark("pos", 1, 2 * SECOND, 2 * SECOND), 2.0)
    turns.speech_started(2.5)
    assert turns.deadline() == 3.0
    turns.tick(3.0)
    assert of_kind(turns.take(), ResponseEnded) == [ResponseEnded(1, "interrupted", 2500)]


# report: A52
def test_marks_are_clamped_to_what_was_sent_and_zero_is_legal() -> None:
    turns = Turns(marks=True)
    turns.audio(round(1.2 * SECOND), 0.0)
    turns.playback(PlaybackMark("pos", 1, 5 * SECOND, 5 * SECOND), 0.1)
    turns.cancel(0.1)
    turns.playback(PlaybackMark("flushed", 1, 5 * SECOND, 5 * SECOND), 0.2)
    assert of_kind(turns.take(), ResponseEnded) == [ResponseEnded(1, "cancelled", 1200)]
    turns.turn_complete(0.3)
    turns.audio(SECOND, 0.4)
    turns.cancel(0.4)
    turns.playback(PlaybackMark("flushed", 2, 0, 0), 0.5)
    assert of_kind(turns.take(), ResponseEnded) == [ResponseEnded(2, "cancelled", 0)]


def test_the_model_notices_an_interruption_itself() -> None:
    turns = Turns(marks=False)
    turns.audio(SECOND, 0.0)
    turns.model_interrupted(0.25)
    effects = turns.take()
    assert of_kind(effects, ResponseInterrupted, InterruptionMark) == [ResponseInterrupted(1, "model"), InterruptionMark()]
    assert of_kind(effects, ResponseEnded) == [ResponseEnded(1, "interrupted", 250)]
    assert turns.audio(SECOND, 0.3) == (2, 0)


def test_an_answer_that_is_not_heard_yet_can_be_cancelled() -> None:
    turns = Turns(marks=False)
    turns.typed(0.0)
    turns.take()
    turns.cancel(0.5)
    assert of_kind(turns.take(), StopModel, ResponseInterrupted) == [StopModel()]
    turns.cancel(0.6)
    assert of_kind(turns.take(), StopModel) == []


def test_an_interruption_is_marked_once_whoever_notices_it_first() -> None:
    turns = Turns(marks=False)
    spoken_answer(turns, 10.0, now=0.0)
    turns.speech_started(3.0)
    turns.model_interrupted(3.3)
    assert of_kind(turns.take(), InterruptionMark) == [InterruptionMark()]
    spoken_answer(turns, 10.0, now=4.0)
    turns.model_interrupted(5.0)
    assert of_kind(turns.take(), InterruptionMark) == [InterruptionMark()]


# case: K-LIVE-19
def test_an_interruption_without_any_audio_is_marked_too() -> None:
    turns = Turns(marks=False)
    turns.model_interrupted(0.0)
    assert of_kind(turns.take(), InterruptionMark) == [InterruptionMark()]


def test_with_interruptions_off_speech_leaves_the_answer_alone() -> None:
    turns = Turns(marks=False, interrupts=False)
    turns.audio(SECOND, 0.0)
    turns.speech_started(0.1)
    assert of_kind(turns.take(), ResponseInterrupted) == []


def test_two_responses_may_wait_to_be_played_and_one_interruption_stops_both() -> None:
    turns = Turns(marks=True)
    spoken_answer(turns, 5.0, now=0.0)
    spoken_answer(turns, 5.0, now=0.1)
    turns.cancel(1.0)
    assert of_kind(turns.take(), ResponseInterrupted) == [ResponseInterrupted(2, "cancel")]
    turns.tick(2.0)
    assert [ended.response for ended in of_kind(turns.take(), ResponseEnded)] == [1, 2]


def test_the_state_follows_the_conversation() -> None:
    turns = Turns(marks=False)
    seen: list[str] = []

    def states() -> list[str]:
        seen.extend(effect.state for effect in of_kind(turns.take(), StateChanged))
        return seen

    turns.speech_started(0.0)
    states()
    turns.speech_ended(500, 1.0)
    states()
    turns.tools_started(1, 1.0)
    states()
    turns.tool_finished(1.5, answered=True)
    states()
    spoken_answer_effects = spoken_answer(turns, 1.0, 2.0)
    seen.extend(effect.state for effect in of_kind(spoken_answer_effects, StateChanged))
    turns.tick(3.5)
    assert states() == ["user_speaking", "thinking", "tool", "thinking", "speaking", "listening"]


def test_the_first_audio_reports_how_long_the_user_waited() -> None:
    turns = Turns(marks=False)
    turns.speech_started(0.0)
    turns.speech_ended(500, 1.0)
    turns.audio(SECOND, 1.12)
    assert of_kind(turns.take(), TurnMetrics) == [TurnMetrics(1, eou_to_first_audio_ms=120, silence_ms=500, model_ms=120)]
    turns.audio(SECOND, 1.2)
    assert of_kind(turns.take(), TurnMetrics) == []


def test_of_the_wait_it_says_how_much_went_to_tools() -> None:
    turns = Turns(marks=False)
    turns.speech_started(0.0)
    turns.tools_started(1, 0.5)  # of an earlier question, and still running
    turns.speech_ended(500, 1.0)
    turns.tool_finished(1.25, answered=True)
    turns.tools_started(2, 1.5)
    turns.tool_finished(1.75, answered=False)
    turns.tool_finished(2.5, answered=True)
    turns.audio(SECOND, 3.0)
    expected = TurnMetrics(1, eou_to_first_audio_ms=2000, silence_ms=500, model_ms=750, tool_ms=1250)
    assert of_kind(turns.take(), TurnMetrics) == [expected]


# report: A25
def test_late_words_of_the_user_keep_the_turn_in_which_they_were_spoken() -> None:
    turns = Turns(marks=False)
    turns.speech_started(0.0)
    turns.speech_ended(500, 1.0)
    spoken_answer(turns, 1.0, 1.1)
    assert turns.words_of_user() == 1
    turns.speech_started(1.5)
    assert turns.words_of_user() == 2


def test_words_begin_a_turn_where_the_model_signals_no_speech() -> None:
    turns = Turns(marks=False)
    assert turns.words_of_user() == 1
    assert turns.words_of_user() == 1
    spoken_answer(turns, 1.0, 1.0)
    assert turns.words_of_user() == 2


def test_the_model_is_told_when_the_user_hears_an_answer() -> None:
    turns = Turns(marks=False)
    assert of_kind(spoken_answer(turns, 1.0, 0.0), PlayingChanged) == [PlayingChanged(playing=True)]
    turns.tick(1.5)
    assert of_kind(turns.take(), PlayingChanged) == [PlayingChanged(playing=False)]


def test_open_responses_fail_with_the_model_and_are_cancelled_with_the_session() -> None:
    turns = Turns(marks=False)
    turns.audio(SECOND, 0.0)
    turns.fail(0.5)
    assert of_kind(turns.take(), ResponseEnded) == [ResponseEnded(1, "failed", 500)]
    turns.audio(SECOND, 1.0)
    turns.close(1.0)
    assert of_kind(turns.take(), ResponseEnded) == [ResponseEnded(2, "cancelled", 0)]


@given(st.lists(st.integers(1, 4800), min_size=1, max_size=50))
def test_positions_follow_one_another_without_gap_or_overlap(pieces: list[int]) -> None:
    turns = Turns(marks=False)
    expected = 0
    for samples in pieces:
        assert turns.audio(samples, 0.0) == (1, expected)
        expected += samples
    turns.turn_complete(0.0)
    assert of_kind(turns.take(), ResponseAudioEnd) == [ResponseAudioEnd(1, expected)]


class AnyConversation(RuleBasedStateMachine):
    """In any order: numbers only grow, every response begins once and ends once, nothing is heard that was not sent."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = Turns(marks=False)
        self.now = 0.0
        self.tools = 0
        self.sent: dict[int, int] = {}
        self.started: list[int] = []
        self.ended: dict[int, int] = {}
        self.flushed = 0

    @rule(seconds=st.floats(0.0, 8.0))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.turns.tick(self.now)

    @rule(samples=st.integers(1, 5 * SECOND))
    def audio(self, samples: int) -> None:
        place = self.turns.audio(samples, self.now)
        if place is not None:
            number, pos = place
            assert number > self.flushed, "audio of a flushed response must not come out again"
            assert pos == self.sent.get(number, 0)
            self.sent[number] = pos + samples

    @rule()
    def text(self) -> None:
        self.turns.text(self.now)

    @rule(name=st.sampled_from(["generation_complete", "turn_complete", "model_interrupted", "typed", "cancel", "speech_started"]))
    def happens(self, name: str) -> None:
        getattr(self.turns, name)(self.now)

    @rule(silence=st.integers(0, 1000))
    def speech_ended(self, silence: int) -> None:
        self.turns.speech_ended(silence, self.now)

    @rule()
    def tool_called(self) -> None:
        self.turns.tools_started(1, self.now)
        self.tools += 1

    @rule(answered=st.booleans())
    def tool_ended(self, answered: bool) -> None:
        if self.tools:
            self.tools -= 1
            self.turns.tool_finished(self.now, answered=answered)

    @rule(
        event=st.sampled_from(["start", "pos", "drained", "flushed", "underrun"]),
        response=st.integers(0, 5),
        played=st.integers(0, 10 * SECOND),
    )
    def mark(self, event: Any, response: int, played: int) -> None:
        self.turns.playback(PlaybackMark(event, response, played, played), self.now)

    @invariant()
    def effects_are_consistent(self) -> None:
        for effect in self.turns.take():
            if isinstance(effect, ResponseStarted):
                assert effect.response == len(self.started) + 1
                self.started.append(effect.response)
            elif isinstance(effect, ResponseInterrupted):
                self.flushed = max(self.flushed, effect.response)
            elif isinstance(effect, ResponseEnded):
                assert effect.response in self.started
                assert effect.response not in self.ended
                self.ended[effect.response] = effect.heard_ms
                assert 0 <= effect.heard_ms <= round(self.sent.get(effect.response, 0) * 1000 / SECOND)

    def teardown(self) -> None:
        self.turns.close(self.now)
        self.effects_are_consistent()
        assert sorted(self.ended) == self.started
        assert self.turns.deadline() is None


TestAnyConversation = AnyConversation.TestCase
