"""Settings: environment, overrides, and messages that a person can act on."""

from __future__ import annotations

import pytest

from live_gateway.settings import PREFIX, Settings, SettingsError, load_settings


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"{PREFIX}{name.upper()}", raising=False)


def test_defaults_are_those_of_a_private_local_gateway() -> None:
    settings = load_settings()
    assert (settings.host, settings.port, settings.store, settings.app_name) == ("127.0.0.1", 8080, None, None)


def test_environment_overrides_defaults_and_arguments_override_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVE_GATEWAY_PORT", "9000")
    monkeypatch.setenv("LIVE_GATEWAY_STORE", "memory://")
    assert load_settings(port=None).port == 9000
    assert load_settings(port=9001).port == 9001
    assert load_settings(port=9001).store == "memory://"


def test_an_empty_variable_is_one_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVE_GATEWAY_STORE", "")
    monkeypatch.setenv("LIVE_GATEWAY_PORT", "")
    assert load_settings() == load_settings(host="127.0.0.1")


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("LIVE_GATEWAY_PORT", "http", "LIVE_GATEWAY_PORT: input should be a valid integer"),
        ("LIVE_GATEWAY_PORT", "70000", "LIVE_GATEWAY_PORT: input should be less than or equal to 65535"),
        ("LIVE_GATEWAY_LOG_LEVEL", "loud", "LIVE_GATEWAY_LOG_LEVEL: input should be 'debug'"),
        ("LIVE_GATEWAY_APP_NAME", "a/b", "LIVE_GATEWAY_APP_NAME: string should match pattern"),
        ("LIVE_GATEWAY_HOST", "   ", "LIVE_GATEWAY_HOST: string should have at least 1 character"),
    ],
)
def test_a_wrong_value_is_reported_by_its_variable(monkeypatch: pytest.MonkeyPatch, variable: str, value: str, expected: str) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert str(caught.value).startswith(expected)


def test_a_wrong_argument_is_reported_by_its_option_and_all_problems_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVE_GATEWAY_LOG_FORMAT", "xml")
    with pytest.raises(SettingsError) as caught:
        load_settings(port=-1)
    assert "--port: " in str(caught.value)
    assert "LIVE_GATEWAY_LOG_FORMAT: " in str(caught.value)


def test_the_message_never_repeats_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVE_GATEWAY_PORT", "hunter2-secret")
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert "hunter2" not in str(caught.value)
