from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_gateway.voice.sentences import SentenceSplitter, split_sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello there. How are you?", ["Hello there. ", "How are you?"]),
        ("It is 3.5 degrees. Cold!", ["It is 3.5 degrees. ", "Cold!"]),
        ("Dr. Smith met J. K. Rowling at 5 p.m. on Monday.", ["Dr. Smith met J. K. Rowling at 5 p.m. on Monday."]),
        ("Say e.g. this. Then that.", ["Say e.g. this. ", "Then that."]),
        ("Come in. Sit down.", ["Come in. ", "Sit down."]),
        ("Really?! Yes… Sure.", ["Really?! ", "Yes… ", "Sure."]),
        ('He said "stop." She did not.', ['He said "stop." ', "She did not."]),
        ("One\nTwo\n\nThree", ["One\n", "Two\n\n", "Three"]),
        ("你好。再见！", ["你好。", "再见！"]),
        ("", []),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert split_sentences(text) == expected


def test_a_sentence_comes_out_once_the_next_has_begun() -> None:
    splitter = SentenceSplitter()
    assert splitter.feed("It is 3.") == []
    assert splitter.feed("5 degrees.") == []
    assert splitter.feed(" ") == []
    assert splitter.feed("And") == ["It is 3.5 degrees. "]
    assert splitter.flush() == ["And"]
    assert splitter.flush() == []


def test_a_long_sentence_is_cut_at_a_comma_and_else_at_a_space() -> None:
    with_commas = "one two three four, " * 30
    pieces = split_sentences(with_commas, max_chars=100)
    assert all(len(piece) <= 100 for piece in pieces)
    assert all(piece.endswith(", ") for piece in pieces)
    without = "word " * 60
    assert all(len(piece) <= 100 and piece.endswith(" ") for piece in split_sentences(without, max_chars=100))
    assert [len(piece) for piece in split_sentences("x" * 250, max_chars=100)] == [100, 100, 50]


@given(st.lists(st.text(alphabet="ab. ,!?\n。Dr", max_size=12), max_size=30), st.integers(min_value=10, max_value=50))
def test_nothing_is_lost_and_pieces_do_not_matter(pieces: list[str], max_chars: int) -> None:
    splitter = SentenceSplitter(max_chars)
    sentences = [sentence for piece in pieces for sentence in splitter.feed(piece)]
    sentences += splitter.flush()
    assert "".join(sentences) == "".join(pieces)
    assert all(len(sentence) <= max_chars for sentence in sentences)
