from __future__ import annotations

import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_gateway.voice.base import FRAME_SAMPLES
from live_gateway.voice.echo import BargeIn, BargeInConfig, is_echo, is_hallucination, overlap

REPLY = "The weather in Hangzhou is sunny, with 21 degrees. The sun sets at half past six."
FRAME_MS = 32


def frame(level: int = 2_000) -> bytes:
    return array.array("h", [level, -level] * (FRAME_SAMPLES // 2)).tobytes()


def hear(barge_in: BargeIn, ms: int, probability: float = 0.95, *, playing: bool = True, level: int = 2_000) -> list[float]:
    return [barge_in.listen(frame(level), probability, playing=playing) for _ in range(round(ms / FRAME_MS))]


def is_loud(barge_in: BargeIn) -> bool:
    return barge_in.loud_enough


def is_warming_up(barge_in: BargeIn) -> bool:
    return barge_in.warming_up


def listening(**changes: int) -> BargeIn:
    """After the warm-up, at the beginning of an answer whose echo may be expected, with enough voice to look at the words."""
    barge_in = BargeIn(BargeInConfig(warm_up_ms=0, **changes))
    barge_in.began()
    hear(barge_in, 400)
    assert barge_in.loud_enough
    return barge_in


@pytest.mark.parametrize(
    "heard",
    [
        "the weather in hangzhou is sunny",
        "The sun sets at half past six",
        "with twenty-one degrees",
        "Weather in Hangzo is sunny",
        "sunny with 21",
    ],
)
def test_the_replys_words_are_echo(heard: str) -> None:
    assert is_echo(heard, REPLY)


@pytest.mark.parametrize(
    "heard", ["stop", "no I meant Berlin", "what time is it in Paris", "set a timer for two minutes", "go forward", ""]
)
def test_other_words_are_not(heard: str) -> None:
    assert not is_echo(heard, REPLY)


def test_the_same_words_in_another_order_are_not_the_reply() -> None:
    assert overlap("six past half at sets sun", REPLY) < overlap("sun sets at half past six", REPLY) == 1.0


@given(st.text(max_size=40), st.text(max_size=80))
def test_overlap_is_a_share(heard: str, reply: str) -> None:
    assert 0.0 <= overlap(heard, reply) <= 1.0


@given(st.lists(st.sampled_from(["move", "the", "robot", "ten", "meters", "left"]), min_size=1, max_size=8), st.text("xyz ", max_size=30))
def test_whatever_stands_in_the_reply_is_echo(words: list[str], rest: str) -> None:
    assert overlap(" ".join(words), f"{rest} {' '.join(words)}") == 1.0


@pytest.mark.parametrize(("text", "voiced_ms", "made_up"), [
    ("You", 300, True), ("Thank you.", 350, True), ("So,", 220, True), ("Mm.", 399, True), ("", 5_000, True), ("...", 900, True),
    ("You", 400, False), ("Thank you.", 800, False), ("Stop.", 250, False), ("Yes", 230, False),
])  # fmt: skip
def test_favourites_of_a_recogniser_out_of_hardly_any_speech_are_made_up(text: str, voiced_ms: int, made_up: bool) -> None:
    assert is_hallucination(text, voiced_ms) is made_up


def test_250_of_350_ms_have_to_be_clearly_voiced() -> None:
    barge_in = BargeIn(BargeInConfig(warm_up_ms=0))
    barge_in.began()
    hear(barge_in, 224)
    assert not barge_in.loud_enough
    hear(barge_in, 400, 0.6)  # speech to the detector, but not clearly
    assert not barge_in.loud_enough
    hear(barge_in, 256)
    assert is_loud(barge_in)
    hear(barge_in, 400, 0.1)
    barge_in.began()
    hear(barge_in, 224)
    assert not is_loud(barge_in)


def test_while_the_echo_cancellation_learns_twice_as_much_is_wanted() -> None:
    barge_in = BargeIn()
    barge_in.began()
    hear(barge_in, 448)
    assert barge_in.warming_up
    assert not barge_in.loud_enough
    hear(barge_in, 96)
    assert is_loud(barge_in)
    hear(barge_in, 2_000, 0.0)
    assert not is_warming_up(barge_in)


def test_faint_sound_is_not_looked_at() -> None:
    barge_in = BargeIn(BargeInConfig(warm_up_ms=0))
    barge_in.began()
    hear(barge_in, 1_000, level=20)
    assert not barge_in.loud_enough


def test_before_there_is_enough_voice_nothing_is_decided() -> None:
    barge_in = BargeIn()
    assert barge_in.judge("stop it now", REPLY, 0.0, 2_000, last=True) == "unsure"


def test_words_of_the_reply_are_echo_however_little_they_sound_like_it() -> None:
    assert listening().judge("the sun sets at half past", REPLY, 0.0, 2_000, last=True) == "echo"


def test_the_sound_of_the_reply_is_echo_whatever_was_understood() -> None:
    assert listening().judge("this sounds at", REPLY, 0.7, 1_300) == "echo"
    assert listening().judge("this sounds", REPLY, 0.9, 500, last=True) == "echo"


def test_a_second_of_other_sound_is_the_user() -> None:
    assert listening().judge("no i meant", REPLY, 0.5, 1_000) == "user"


def test_short_or_doubtful_sound_waits_for_more() -> None:
    barge_in = listening()
    assert barge_in.judge("no i", REPLY, 0.5, 700) == "unsure"
    assert barge_in.judge("no i meant", REPLY, 0.67, 1_300) == "unsure"
    assert barge_in.judge("no i meant berlin", REPLY, 0.67, 1_300, last=True) == "user"


@pytest.mark.parametrize("words", ["Stop!", "wait", "Hold on.", "No."])
def test_a_word_that_means_stop_is_the_user_at_once_unless_the_reply_has_it(words: str) -> None:
    assert listening().judge(words, REPLY, 0.6, 600) == "user"
    assert listening().judge(words, f"Say {words} to end it.", 0.6, 600) == "echo"


def test_without_a_reply_any_words_are_the_users() -> None:
    assert listening().judge("well", "", 0.0, 500) == "user"


def test_where_no_echo_came_for_three_seconds_the_first_look_counts() -> None:
    barge_in = BargeIn(BargeInConfig(warm_up_ms=0))
    hear(barge_in, 3_100, 0.0)
    barge_in.began()
    hear(barge_in, 320)
    assert barge_in.judge("no i", REPLY, 0.7, 620) == "user"


def test_once_its_loudness_is_known_echo_is_no_speech_and_the_user_still_is() -> None:
    barge_in = listening()
    assert set(hear(barge_in, 640)) == {0.95}
    assert barge_in.judge("whatever", REPLY, 0.75, 1_500) == "echo"
    assert set(hear(barge_in, 640)) == {0.0}
    assert set(hear(barge_in, 640, level=8_000)) == {0.95}
    assert set(hear(barge_in, 64, playing=False)) == {0.95}  # the answer has played: nothing to be careful about
    assert barge_in.least_loudness == 0


def test_the_echos_loudness_is_forgotten_with_time() -> None:
    barge_in = listening()
    barge_in.judge("whatever", REPLY, 0.75, 1_500)
    hear(barge_in, 12_000, 0.0)
    assert set(hear(barge_in, 64)) == {0.95}
