"""Whatever a tool returns becomes a JSON object that keeps what the tool wrote."""

from __future__ import annotations

import json
from collections import namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from live_gateway.content import FunctionResponse, Part
from live_gateway.errors import ToolError
from live_gateway.events import Event, decode_event, encode_event
from live_gateway.tools.result import MAX_BYTES, MAX_RESULT_BYTES, to_response


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


@dataclass
class Reading:
    value: float
    at: datetime


class Station(BaseModel):
    name: str
    readings: list[Reading]
    secret: str = Field(default="hidden", exclude=True)


NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
Pair = namedtuple("Pair", ["left", "right"])  # noqa: PYI024


# case: K-TOOL-01
@pytest.mark.parametrize(
    ("result", "response"),
    [
        ("x", {"result": "x"}),
        ([1, 2], {"result": [1, 2]}),
        ({"a": 1}, {"a": 1}),
        (None, {"result": None}),
        (5, {"result": 5}),
        (True, {"result": True}),
        (MappingProxyType({"a": (1, 2)}), {"a": [1, 2]}),
        ({"r": {3, 1, 2}}, {"r": [1, 2, 3]}),
        ({"nan": float("nan"), "inf": [float("-inf")]}, {"nan": None, "inf": [None]}),
        (b"\x00\xff", {"result": "AP8="}),
        ({"c": Colour.RED, Colour.RED: Level.HIGH}, {"c": "red", "red": 3}),
        ({2: "two", None: "none", True: "yes"}, {"2": "two", "true": "yes", "null": "none"}),
        (
            {"at": NOON, "day": date(2026, 5, 1), "t": time(8, 30)},
            {"at": "2026-05-01T12:00:00+00:00", "day": "2026-05-01", "t": "08:30:00"},
        ),
        ({"d": timedelta(seconds=90), "n": Decimal("1.50")}, {"d": "PT90S", "n": "1.50"}),
        ({"u": UUID(int=1), "p": PurePosixPath("a/b")}, {"u": "00000000-0000-0000-0000-000000000001", "p": "a/b"}),
        (Reading(1.5, NOON), {"value": 1.5, "at": "2026-05-01T12:00:00+00:00"}),
        (
            Station(name="north", readings=[Reading(float("inf"), NOON)]),
            {"name": "north", "readings": [{"value": None, "at": "2026-05-01T12:00:00+00:00"}]},
        ),
        (Pair(1, "b"), {"left": 1, "right": "b"}),
        ({"array": np.arange(3), "scalar": np.float32(0.5)}, {"array": [0, 1, 2], "scalar": 0.5}),
        ({"bad\x00text": "a\ud800b"}, {"bad\ufffdtext": "a\ufffdb"}),
    ],
)
def test_known_values_keep_their_meaning(result: object, response: dict[str, Any]) -> None:
    assert to_response(result) == response


# report: A39
def test_keys_are_opaque_through_response_event_and_store_form() -> None:
    result = {"unit_price": 1, "X-y": {"a_b": 2, "camelCase": [{"snake_key": 3}]}}
    response = to_response(result)
    assert response == result
    part = Part(function_response=FunctionResponse(id="fc-1", name="price", response=response))
    event = Event(author="agent", content={"role": "user", "parts": [part]})  # type: ignore[arg-type]
    again = decode_event(encode_event(event))
    assert again.function_responses[0].response == result


def test_the_tools_own_object_is_not_changed() -> None:
    inner = [1, float("nan")]
    given_result = {"values": inner}
    to_response(given_result)["values"].append("more")
    assert len(given_result["values"]) == 2


def test_what_nobody_can_write_becomes_its_repr_and_says_so() -> None:
    class Strange:
        def __repr__(self) -> str:
            return "s" * 5000

    assert to_response(Strange()) == {"result": "s" * 1024, "_coerced": True}
    assert to_response({"deep": [Strange()]}) == {"deep": ["s" * 1024], "_coerced": True}
    assert to_response({"n": 2**80}) == {"n": str(2**80), "_coerced": True}
    assert to_response({"_coerced": "mine", "x": Strange()})["_coerced"] == "mine"


def test_a_repr_that_raises_still_gives_the_type() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no words")

    assert to_response(Broken()) == {"result": "<Broken>", "_coerced": True}


def test_a_cycle_is_refused() -> None:
    cycle: dict[str, Any] = {"a": []}
    cycle["a"].append(cycle)
    with pytest.raises(ToolError, match="contains itself"):
        to_response(cycle)


def test_one_object_twice_is_no_cycle() -> None:
    shared = {"k": 1}
    assert to_response([shared, shared]) == {"result": [{"k": 1}, {"k": 1}]}


def test_a_model_that_holds_itself_is_refused() -> None:
    class Node(BaseModel):
        next: Any = None

    node = Node()
    node.next = node
    with pytest.raises(ToolError, match="cannot be written"):
        to_response(node)


def test_deep_nesting_is_refused() -> None:
    deep: Any = 1
    for _ in range(200_000):
        deep = [deep]
    with pytest.raises(ToolError, match="deeper than 32"):
        to_response(deep)


@pytest.mark.parametrize("huge", ["x" * 5_000_000, ["y" * 100] * 50_000, range(10**12), {"k": "é" * (MAX_RESULT_BYTES - 100)}])
def test_a_huge_result_is_refused(huge: object) -> None:
    with pytest.raises(ToolError, match="larger than 256 KiB"):
        to_response(huge)


def test_binary_up_to_64_kib() -> None:
    assert len(to_response(bytes(MAX_BYTES))["result"]) > MAX_BYTES
    with pytest.raises(ToolError, match="binary data"):
        to_response(bytes(MAX_BYTES + 1))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=20) | st.datetimes(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.integers(), inner, max_size=4) | st.frozensets(st.integers())
    ),
    max_leaves=20,
)


@given(json_values)
def test_every_response_is_strict_storable_json(result: object) -> None:
    response = to_response(result)
    text = json.dumps(response, ensure_ascii=False, allow_nan=False)
    assert "\x00" not in text
    text.encode()
    assert to_response(json.loads(text)) == json.loads(text)
