"""What of an answer was heard."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from live_gateway.live.heard import Spoken, Words, heard


def test_half_of_the_samples_is_half_of_the_text_cut_before_the_word() -> None:
    words = Words(samples=1000, item="t1", text="It is sunny in Oslo today.")
    assert heard(words, 500) == {"item": "t1", "chars": len("It is sunny ")}


def test_all_and_nothing() -> None:
    words = Words(samples=1000, item="t1", text="It is sunny.")
    assert heard(words, 5000) == {"item": "t1", "chars": 12}
    assert heard(words, 0) == {"item": "t1", "chars": 0}
    assert heard(Words(samples=0, item="t1", text="x"), 0) is None
    assert heard(Words(samples=10, item="t1", text=""), 0) is None


@given(st.text(max_size=200), st.integers(1, 10_000), st.integers(0, 20_000))
def test_never_more_than_was_spoken_and_never_within_a_word(text: str, samples: int, played: int) -> None:
    share = heard(Words(samples=samples, item="t", text=text), played)
    if share is None:
        assert text == ""
        return
    chars = share["chars"]
    assert 0 <= chars <= len(text)
    assert chars in (0, len(text)) or text[chars - 1].isspace() or text[chars].isspace()


def test_words_before_the_audio_belong_to_the_response_that_then_begins() -> None:
    spoken = Spoken()
    spoken.words("t1", "Hello", 0)
    spoken.response_started(1)
    spoken.samples(1, 100)
    spoken.words("t1", "Hello there.", 1)
    assert spoken.take(1) == Words(samples=100, item="t1", text="Hello there.")
    assert spoken.take(1) is None


def test_words_after_the_audio_belong_to_the_response_without_words() -> None:
    spoken = Spoken()
    spoken.response_started(1)
    spoken.samples(1, 100)
    spoken.words("t1", "Late words", 0)
    assert spoken.take(1) == Words(samples=100, item="t1", text="Late words")


def test_a_response_without_words_has_nothing_to_record() -> None:
    spoken = Spoken()
    spoken.response_started(1)
    assert spoken.take(1) is None
