"""Pieces of a streamed answer, put together."""

from __future__ import annotations

import pytest
from google.genai.types import PartialArg
from hypothesis import given
from hypothesis import strategies as st

from live_gateway.content import FunctionCall, Part, text_of
from live_gateway.errors import ModelError
from live_gateway.models.aggregate import Aggregator


def whole(*pieces: list[Part]) -> list[Part]:
    aggregator = Aggregator()
    for piece in pieces:
        aggregator.add(piece)
    content = aggregator.whole()
    return [] if content is None else list(content.parts or ())


# case: K-FLOW-13
# contract: RUN-19
def test_texts_are_joined_and_thoughts_kept_apart() -> None:
    aggregator = Aggregator()
    shown = [
        aggregator.add([part]) for part in (Part(text="hm", thought=True), Part(text="m", thought=True), Part(text="Hel"), Part(text="lo"))
    ]
    assert [text_of(content) for content in shown] == ["", "", "Hel", "lo"]
    content = aggregator.whole()
    assert content is not None
    assert content.role == "model"
    assert content.parts == [Part(text="hmm", thought=True), Part(text="Hello")]


def fragment(*args: PartialArg, name: str | None = None, more: bool = True) -> list[Part]:
    return [Part(function_call=FunctionCall(name=name, id="1" if name else None, partial_args=list(args) or None, will_continue=more))]


# case: K-FLOW-13
def test_arguments_are_assembled_from_fragments_by_path() -> None:
    (part,) = whole(
        fragment(name="book"),
        fragment(PartialArg(json_path="$.city", string_value="Ro")),
        fragment(PartialArg(json_path="$.city", string_value="me"), PartialArg(json_path="$.guests[0].age", number_value=30)),
        fragment(PartialArg(json_path="$.guests[1].age", number_value=1.5), PartialArg(json_path="$['late in']", bool_value=True)),
        fragment(PartialArg(json_path="$.note", null_value="NULL_VALUE"), more=False),
    )
    assert part.function_call is not None
    assert (part.function_call.name, part.function_call.id) == ("book", "1")
    assert part.function_call.args == {"city": "Rome", "guests": [{"age": 30}, {"age": 1.5}], "late in": True, "note": None}


@pytest.mark.parametrize("path", ["$", "$[0]", "$.a[5]", "$.a[99999]"])
def test_a_path_that_does_not_fit_is_a_model_error(path: str) -> None:
    with pytest.raises(ModelError):
        whole(fragment(name="x"), fragment(PartialArg(json_path=path, string_value="v")))


def test_a_stream_that_ends_inside_of_a_call_is_a_model_error() -> None:
    with pytest.raises(ModelError, match="'x'"):
        whole(fragment(name="x"))


def test_calls_and_signatures_keep_their_place_and_nothing_given_is_changed() -> None:
    first, signed, call = Part(text="a"), Part(text="b", thought_signature=b"s"), Part(function_call=FunctionCall(name="t", args={}))
    given_parts = [first, signed, Part(text="c"), call, Part(text="d"), Part(text="e"), Part(text="")]
    assert whole(given_parts) == [first, signed, Part(text="c"), call, Part(text="de")]
    assert first.text == "a"
    assert whole([Part(text="")], []) == []


@given(st.lists(st.lists(st.tuples(st.text(max_size=3), st.booleans()), max_size=3), max_size=6))
def test_the_whole_says_what_the_pieces_said(pieces: list[list[tuple[str, bool]]]) -> None:
    aggregator = Aggregator()
    said = ""
    for piece in pieces:
        said += text_of(aggregator.add([Part(text=text, thought=thought or None) for text, thought in piece]))
    assert text_of(aggregator.whole()) == said
