"""State: whose a key is, what may be written, and what cannot be written to."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_gateway.errors import InvalidState
from live_gateway.sessions.state import DirtyState, check_delta, merge_state, read_only, split_delta, thaw, without_temp

NAMES = st.text(st.characters(codec="utf-8"), max_size=4)
KEYS = st.builds("".join, st.tuples(st.sampled_from(["", "app:", "user:", "temp:", "app:temp:", "user:app:"]), NAMES))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
DELTAS = st.dictionaries(KEYS, JSON, max_size=5)


# contract: STATE-01
# case: K-STATE-07
def test_keys_are_sorted_by_owner_one_level_deep() -> None:
    split = split_delta({"app:a": 1, "user:b": 2, "c": 3, "temp:d": 4, "app:temp:x": 5, "user:app:y": 6, "temp:app:z": 7, "temperature": 8})
    assert split.app == {"a": 1, "temp:x": 5}
    assert split.user == {"b": 2, "app:y": 6}
    assert split.session == {"c": 3, "temperature": 8}
    assert without_temp({"temp:d": 4, "app:temp:x": 5, "temperature": 8}) == {"app:temp:x": 5, "temperature": 8}


# contract: STATE-02
@given(DELTAS)
def test_split_and_merge_are_inverse_but_for_temp(delta: dict[str, Any]) -> None:
    check_delta(delta)
    split = split_delta(delta)
    merged = merge_state(split.app, split.user, split.session)
    assert thaw(merged) == without_temp(delta)


# contract: STATE-02
def test_missing_rows_read_as_empty() -> None:
    assert dict(merge_state({}, {}, {})) == {}


# contract: STATE-08
@given(DELTAS)
def test_all_json_is_accepted(delta: dict[str, Any]) -> None:
    check_delta(delta)
    assert json.loads(json.dumps(delta)) == delta


# contract: STATE-08
@pytest.mark.parametrize(
    ("delta", "words"),
    [
        ({1: "x"}, "state key 1 is of type int"),
        ({None: "x"}, "state key None is of type NoneType"),
        ({"k": object()}, "'k' is of type object"),
        ({"k": [{"a": (1, {2})}]}, "'k' is of type set"),
        ({"k": {"a": {3: 1}}}, "'k' has a key of type int"),
        ({"k": math.nan}, "'k' is nan"),
        ({"k": [-math.inf]}, "'k' is -inf"),
        ({"k": b"x"}, "bytes"),
        ({"k": 1j}, "complex"),
        ({"k": ["\ud800"]}, "surrogate"),
        ({"k": {"\udc00": 1}}, "surrogate"),
        ({"\ud800": 1}, "surrogate"),
    ],
)
def test_anything_else_is_refused_naming_key_and_type(delta: dict[Any, Any], words: str) -> None:
    with pytest.raises(InvalidState, match=words):
        check_delta(delta)


# contract: STATE-08
def test_bottomless_values_are_refused() -> None:
    bottomless: dict[str, Any] = {}
    bottomless["self"] = [bottomless]
    with pytest.raises(InvalidState, match="nested deeper than 32"):
        check_delta({"k": bottomless})


def test_what_was_appended_is_copied_deeply() -> None:
    inner = [1]
    split = split_delta({"k": {"l": inner}, "app:k": inner, "user:k": inner})
    inner.append(2)
    assert (split.session, split.app, split.user) == ({"k": {"l": [1]}}, {"k": [1]}, {"k": [1]})


# contract: STATE-05
def test_read_only_at_every_depth_and_no_view_of_the_source() -> None:
    source: dict[str, Any] = {"a": {"b": [{"c": 1}]}}
    view: Any = read_only(source)
    for target in (view, view["a"], view["a"]["b"][0]):
        with pytest.raises(TypeError):
            target["x"] = 1
        with pytest.raises(TypeError):
            del target["a"]
    with pytest.raises(AttributeError):
        view["a"]["b"].append(1)
    source["a"]["b"][0]["c"] = 2
    assert view["a"]["b"][0]["c"] == 1
    thawed = thaw(view)
    thawed["a"]["b"].append(3)
    assert thawed == {"a": {"b": [{"c": 1}, 3]}}


# contract: STATE-03
def test_dirty_reads_see_own_writes_then_the_others_then_what_is_stored() -> None:
    stored, pending = read_only({"a": 1, "b": 1, "c": [1]}), {"b": 2}
    mine: dict[str, Any] = {}
    first, second = DirtyState(stored, pending, mine), DirtyState(stored, pending, {})
    assert dict(first) == {"a": 1, "b": 2, "c": [1]}
    first["a"] = {"x": [1]}
    first["temp:t"] = 1
    assert first["a"] == second["a"] == {"x": [1]}
    assert second["temp:t"] == 1
    assert mine == {"a": {"x": [1]}, "temp:t": 1}
    assert second.delta == {}
    assert (len(first), "a" in first, "z" in first, first.get("z")) == (4, True, False, None)
    fresh = DirtyState(stored, {}, {})
    assert fresh["a"] == 1, "a write whose event was never stored is gone"


# contract: STATE-03, STATE-05
def test_values_read_from_dirty_state_are_copies() -> None:
    state = DirtyState(read_only({"c": [1]}), {}, {})
    state["c"].append(2)
    assert state["c"] == [1]
    value = [1]
    state["d"] = value
    value.append(2)
    assert state["d"] == [1]
    state["d"].append(3)
    assert state["d"] == [1]
    assert state.delta == {"d": [1]}


# contract: STATE-08
def test_a_bad_write_is_refused_at_once_and_keys_are_not_removed() -> None:
    state = DirtyState({}, {}, {})
    with pytest.raises(InvalidState, match="'k' is of type object"):
        state["k"] = object()
    with pytest.raises(InvalidState):
        state["k"] = [math.nan]
    assert dict(state) == {}
    state["k"] = 1
    with pytest.raises(TypeError, match="set 'k' to None"):
        del state["k"]
    assert state["k"] == 1
