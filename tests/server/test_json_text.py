"""JSON text from outside: its shape is found without parsing it."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_gateway.errors import BadMessage
from live_gateway.server.json_text import MAX_DEPTH, MAX_KEYS, MAX_TOKENS, _marks, check_shape, clean

WHOLE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[][{}:]', re.DOTALL)


@given(st.text(alphabet='"\\[]{}:,a1 \n', max_size=60))
def test_the_marks_are_those_that_one_expression_finds(text: str) -> None:
    assert list(_marks(text)) == [match[0][0] for match in WHOLE.finditer(text)]


@given(
    st.recursive(
        st.none() | st.text(max_size=8), lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=4), inner), max_leaves=20
    )
)
def test_what_json_says_is_let_through(value: object) -> None:
    check_shape(json.dumps(value, ensure_ascii=False))
    check_shape(json.dumps(value))


@pytest.mark.parametrize(
    "text",
    ["[" * (MAX_DEPTH + 1), '{"a":1,' + '"a":1,' * MAX_KEYS + '"b":2}', "[" + '"",' * MAX_TOKENS + '""]', '"\\"[" ' * (MAX_TOKENS + 1)],
)
def test_too_much_is_refused(text: str) -> None:
    with pytest.raises(BadMessage):
        check_shape(text)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain\n\t", "plain\n\t"),
        ("a\0b", "a\ufffdb"),
        ("å\0", "å\ufffd"),
        ("\ud800", "\ufffd"),
        ('"\\u0000"', '"\\ufffd"'),
        ('"\\ud83d\\ude00"', '"\\ud83d\\ude00"'),
    ],
)
def test_what_no_store_can_hold_is_replaced(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned
