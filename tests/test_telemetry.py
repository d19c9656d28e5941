"""Logs carry names and numbers, never content."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from live_gateway.telemetry import ALLOWED, JsonFormatter, TextFormatter, configure, get_logger, redact

SECRETS = [
    "AIzaSyD-1234567890abcdefghijk",
    "ya29.a0AfH6SMBx-secret",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
    "ticket.9f8e7d6c",
    "sk-proj1234567890",
]


@pytest.fixture(autouse=True)
def untouched_logging() -> Iterator[None]:
    root = logging.getLogger("live_gateway")
    before = (root.handlers[:], root.level, root.propagate)
    yield
    root.handlers[:], root.level, root.propagate = before


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_one_object_with_known_fields_only() -> None:
    stream = io.StringIO()
    configure("info", stream=stream)
    log = get_logger("live_gateway.test")
    log.info("session_opened", session="s1", duration_ms=12, text="what he said", args={"a": 1}, transcript="words", host=None)
    log.debug("too_quiet", session="s1")
    log.warning("odd", code="x\ny")
    assert [{key: value for key, value in line.items() if key != "ts"} for line in lines(stream)] == [
        {"level": "info", "logger": "live_gateway.test", "event": "session_opened", "session": "s1", "duration_ms": 12},
        {"level": "warning", "logger": "live_gateway.test", "event": "odd", "code": "x\ny"},
    ]
    assert all(isinstance(line["ts"], float) for line in lines(stream))


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()], ids=["json", "text"])
def test_what_looks_like_a_credential_is_masked(secret: str, formatter: logging.Formatter) -> None:
    stream = io.StringIO()
    configure("debug", stream=stream)
    logging.getLogger("live_gateway").handlers[0].setFormatter(formatter)
    log = get_logger("live_gateway.test")
    log.info("opened", url=f"wss://host/path?x=1&key={secret}&y=2", reason=f"refused {secret}")
    clumsy = f"clumsy {secret}"
    log.info(clumsy)
    assert secret not in stream.getvalue()
    assert "clumsy ***" in stream.getvalue()


def test_a_query_key_of_any_form_is_masked() -> None:
    assert redact({"url": "https://host/?key=short&alt=1"}) == {"url": "https://host/?key=***&alt=1"}


def test_values_are_plain_and_short() -> None:
    assert redact({"count": 1, "duration_ms": 0.5, "name": "n" * 500, "state": True, "error": ValueError("x")}) == {
        "count": 1,
        "duration_ms": 0.5,
        "name": "n" * 200,
        "state": True,
        "error": "x",
    }


def test_no_allowed_field_is_a_place_for_content() -> None:
    assert not ALLOWED & {
        "text",
        "transcript",
        "args",
        "result",
        "content",
        "audio",
        "message",
        "key",
        "token",
        "ticket",
        "prompt",
        "response_text",
    }


def test_an_exception_is_logged_by_type_and_place_never_by_its_words() -> None:
    stream = io.StringIO()
    configure("info", stream=stream)
    try:
        raise ValueError("the words of the user")
    except ValueError as error:
        get_logger("live_gateway.test").error("failed", error, session="s1")
    (line,) = lines(stream)
    assert line["error_type"] == "ValueError"
    assert line["path"].startswith(f"{__name__}:")
    assert "words" not in stream.getvalue()
    get_logger("live_gateway.test").error("failed without one")


def test_a_traceback_handed_to_the_standard_library_does_not_come_out_either() -> None:
    stream = io.StringIO()
    configure("info", stream=stream)
    try:
        raise ValueError("the words of the user")
    except ValueError:
        logging.getLogger("live_gateway.test").exception("boom")
    assert "words" not in stream.getvalue()
    assert "boom" in stream.getvalue()


def test_text_for_a_terminal() -> None:
    stream = io.StringIO()
    configure("info", as_json=False, stream=stream)
    get_logger("live_gateway.test").info("ready", port=8000)
    assert stream.getvalue().endswith(" info    ready port=8000\n")


def test_the_level_is_kept_and_handlers_do_not_pile_up() -> None:
    stream = io.StringIO()
    configure("warning", stream=stream)
    configure("warning", stream=stream)
    log = get_logger("live_gateway.test")
    log.info("quiet")
    log.warning("loud")
    assert len(lines(stream)) == 1
