from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_gateway.voice.numbers import find_numbers, format_number, normalise, spell, spell_digits, tokenize


def values(text: str) -> list[float]:
    return [number.value for number in find_numbers(tokenize(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ten", [10]),
        ("twenty-one", [21]),
        ("a hundred and five", [105]),
        ("one hundred twenty three", [123]),
        ("two thousand and twenty four", [2024]),
        ("three million four hundred thousand and one", [3_400_001]),
        ("1,250 people", [1250]),
        ("2.5 km and -3 degrees", [2.5, -3]),
        ("minus four", [-4]),
        ("three point one four", [3.14]),
        ("two and a half hours", [2.5]),
        ("half an hour", [0.5]),
        ("3 and a half", [3.5]),
        ("5 hundred", [500]),
        ("two nine three four zero", [2, 9, 3, 4, 0]),
        ("one and two", [1, 2]),
        ("a cat and an owl", []),
        ("hundreds of tens", []),
        ("", []),
    ],
)
def test_numbers_are_found_in_digits_and_in_words(text: str, expected: list[float]) -> None:
    assert values(text) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("10 meters", "ten meters"),
        ("Go forward, ten meters!", "go forward 10 meters"),
        ("an ill-disposed man", "an ill disposed man"),
        ("It’s 25 degrees.", "it's twenty five degrees"),
        ("twenty-one", "21"),
    ],
)
def test_texts_that_say_the_same_are_equal(one: str, other: str) -> None:
    assert normalise(one) == normalise(other)


def test_normal_form_keeps_what_differs() -> None:
    assert normalise("ten meters") != normalise("nine meters")
    assert normalise("I am one of them") == "i am 1 of them"


def test_digits_are_spelled() -> None:
    assert spell_digits("Go forward 10 meters, 2.5 km, 1,250 times.") == (
        "go forward ten meters two point five km one thousand two hundred fifty times"
    )


@given(st.integers(min_value=-(10**12) + 1, max_value=10**12 - 1))
def test_a_spelled_whole_number_is_read_back(value: int) -> None:
    assert values(spell(value)) == [value]


@given(st.integers(min_value=0, max_value=10**6), st.integers(min_value=1, max_value=999))
def test_a_spelled_decimal_is_read_back(whole: int, thousandths: int) -> None:
    value = float(f"{whole}.{thousandths:03}")
    assert values(spell(value)) == pytest.approx([value])
    assert values(format_number(value)) == pytest.approx([value])


@given(st.text(max_size=60))
def test_any_text_has_a_normal_form_that_stays(text: str) -> None:
    once = normalise(text)
    assert once == once.strip()
    assert not {",", "!", "?"} & set(once)
    tokens = tokenize(text)
    numbers = find_numbers(tokens)
    assert all(before.last <= after.first for before, after in itertools.pairwise(numbers))
