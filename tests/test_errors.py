"""The error tree, its drawing, and the one table that says what an error means at an edge."""

from __future__ import annotations

import inspect
import re

import pytest

from live_gateway import errors
from live_gateway.errors import (
    DeliveredNotPersisted,
    DeliveryUnknown,
    ErrorFacts,
    GatewayError,
    NotDelivered,
    PluginError,
    SessionNotFound,
    StorageError,
    facts,
    public_error,
)

KINDS: list[type[Exception]] = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)]
WIRE_CLOSE_CODES = {1000, 1001, 1009, 1011, 1012, 1013, *range(4000, 4008), 4500, 4501, *range(4504, 4513)}
"""The close codes of the wire."""


def make(kind: type[Exception]) -> Exception:
    return PluginError("p", "on_event", ValueError("x")) if kind is PluginError else kind("x")


def test_the_drawing_in_the_docstring_is_the_tree() -> None:
    drawn: dict[str, str] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"^    ((?:[│ ]   )*)(?:[├└]── )?([A-Z]\w+)", line)
        if match is None:
            continue
        depth = 0 if match.group(2) == "GatewayError" else len(match.group(1)) // 4 + 1
        path[depth:] = [match.group(2)]
        if depth:
            drawn[match.group(2)] = path[depth - 1]
    real = {
        kind.__name__: kind.__base__.__name__
        for kind in KINDS
        if issubclass(kind, GatewayError) and kind is not GatewayError and kind.__base__
    }
    assert drawn == real


def test_everything_is_exported() -> None:
    assert {kind.__name__ for kind in KINDS} | {"ErrorFacts", "PublicError", "facts", "public_error"} == set(errors.__all__)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_has_a_code_and_legal_facts(kind: type[Exception]) -> None:
    error = make(kind)
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", getattr(error, "code", ""))
    row = facts(error)
    assert 400 <= row.http_status <= 599
    assert row.close_code in WIRE_CLOSE_CODES
    seen = public_error(error)
    assert (seen.code, seen.message) == (getattr(error, "code", None), str(error))
    assert (seen.http_status, seen.close_code, seen.retryable) == (row.http_status, row.close_code, row.retryable)


def test_codes_are_unique() -> None:
    codes = [getattr(kind, "code", None) for kind in KINDS if kind is not GatewayError]
    assert sorted(set(map(str, codes))) == sorted(map(str, codes))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_can_be_reconnected_and_what_cannot(kind: type[Exception]) -> None:
    """4000 to 4499 mean reconnect, 4500 to 4999 mean stop: whoever is told to stop is not told that a retry helps."""
    row = facts(make(kind))
    if row.close_code >= 4500:
        assert not row.retryable


# contract: LIVE-07
def test_the_three_answers_of_send_have_no_parent_in_common() -> None:
    three = (NotDelivered, DeliveredNotPersisted, DeliveryUnknown)
    for kind in three:
        assert kind.__bases__ == (Exception,)
        assert not issubclass(kind, GatewayError)
    assert [facts(kind()).retryable for kind in three] == [True, False, False]


def test_facts_come_from_the_nearest_ancestor() -> None:
    class Special(SessionNotFound):
        pass

    class Unheard(GatewayError):
        pass

    assert facts(Special()) == facts(SessionNotFound()) == ErrorFacts(404, 4504, retryable=False)
    assert facts(Unheard()) == facts(ValueError()) == ErrorFacts(500, 1011, retryable=False)
    assert facts(StorageError()).close_code == 4004


def test_the_words_of_a_stranger_never_come_out() -> None:
    seen = public_error(RuntimeError("password=hush"))
    assert seen.code == "internal"
    assert "hush" not in seen.message
    assert not seen.retryable


# contract: PLUG-02
def test_a_plugin_error_names_plugin_and_hook() -> None:
    error = PluginError("guard", "on_event", ValueError("no"))
    assert (error.plugin, error.hook) == ("guard", "on_event")
    assert str(error).startswith("plugin 'guard' failed in on_event")
