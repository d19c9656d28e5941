"""Instruction templates."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_gateway.errors import ConfigurationError
from live_gateway.flow.instructions import fill, render


def filled(template: str, **state: Any) -> str:
    return render(template, state, {})


# contract: INST-01
# case: K-INST-01
def test_keys_are_filled_from_the_state() -> None:
    text = filled("Hello {user_name}, you are in {app_state} state.", user_name="Foo", app_state="active")
    assert text == "Hello Foo, you are in active state."


# case: K-INST-02
async def test_artifacts_are_fetched_by_name() -> None:
    asked: list[str] = []

    async def load(name: str) -> str | None:
        asked.append(name)
        return {"my_file": "content"}.get(name)

    assert await fill("a {artifact.my_file} {artifact.my_file} b{artifact.other?}", {}, load) == "a content content b"
    assert asked == ["my_file", "other"]
    with pytest.raises(ConfigurationError, match="failed to load artifact missing_file: artifact not found"):
        await fill("{artifact.missing_file}", {}, load)
    with pytest.raises(ConfigurationError, match="artifact service is not initialized"):
        await fill("{artifact.my_file}", {}, None)
    with pytest.raises(ConfigurationError, match="without a name"):
        await fill("{artifact.}", {}, load)
    assert await fill("no braces", {}, None) == "no braces"


# case: K-INST-03
def test_a_missing_key_is_an_error_unless_it_is_optional() -> None:
    assert filled("[{x?}]") == "[]"
    assert filled("[{ x }]", x=None) == "[]"
    with pytest.raises(ConfigurationError, match="state key does not exist: 'missing'"):
        filled("{missing}")


# case: K-INST-05
def test_numbers_render_plainly() -> None:
    assert filled("{age} {ratio} {yes}", age=30, ratio=0.5, yes=True) == "30 0.5 True"


# contract: INST-01
@pytest.mark.parametrize(
    "literal", ["{}", "{1x}", "{a b}", '{"json": 1}', "{a-b}", "{other:key}", "{app:a-b}", "{x", "x}", "{app:}", "{?}"]
)
def test_anything_that_is_no_identifier_stays_as_it_is(literal: str) -> None:
    assert filled(f"a {literal} b") == f"a {literal} b"


# contract: INST-01
def test_prefixed_keys_are_filled_when_set_empty_when_optional_and_else_literal_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("live_gateway").propagate = True
    assert render("{user:name} {app:x?}|", {"user:name": "Ada"}, {}) == "Ada |"
    with caplog.at_level(logging.WARNING, logger="live_gateway"):
        assert [filled("{user:never_set_here}") for _ in range(3)] == ["{user:never_set_here}"] * 3
    assert [record.message for record in caplog.records] == ["instruction_key_not_set"]


_PIECES = st.tuples(st.text(alphabet="ab .:?", max_size=4), st.sampled_from(["", "{a}", "{{b}}", "{ a? }", "{none?}", "{1}", "{}"]))


@given(st.lists(_PIECES, max_size=6))
def test_only_placeholders_change(pieces: list[tuple[str, str]]) -> None:
    values = {"{a}": "{b}", "{{b}}": "2", "{ a? }": "{b}", "{none?}": ""}
    template = "".join(text + braces for text, braces in pieces)
    assert filled(template, a="{b}", b=2) == "".join(text + values.get(braces, braces) for text, braces in pieces)
