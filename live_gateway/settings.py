"""Settings of a gateway process, read from the environment: `LIVE_GATEWAY_PORT=9000` and so on.

What the command line says stands above the environment, the environment above the defaults. An empty variable counts as not set.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

PREFIX = "LIVE_GATEWAY_"

NonEmpty = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Settings(BaseSettings):
    """What a gateway process may be told from outside."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, frozen=True, extra="forbid")

    host: NonEmpty = "127.0.0.1"
    """Address to listen on. Only this machine can reach 127.0.0.1."""
    port: int = Field(default=8080, ge=0, le=65_535)
    """Port to listen on; 0 takes a free one."""
    store: NonEmpty | None = None
    """Where conversations are kept: `memory://`, `sqlite:///path/to/file`, `postgresql://...`. None is a SQLite file in the user's data
    directory of this platform."""
    artifacts: Path | None = None
    """Directory of the files that belong to conversations. None: beside the default store; with `memory://`, in memory."""
    record_calls: Path | None = None
    """Directory, already there, in which every live call is recorded as a stereo WAV file. None: no call is recorded."""
    app_name: NonEmpty | None = None
    """Name under which the conversations are kept; None is the agent's name."""
    live_model: NonEmpty | None = None
    """Gemini Live model of agents that bring no live model; its key is in GEMINI_API_KEY or GOOGLE_API_KEY. None is the local voice."""
    gemini_base_url: NonEmpty | None = None
    """Where Gemini Live is; None is the service's own address."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "json", "text"] = "auto"
    """`auto` is text on a terminal and one JSON object per line elsewhere."""


class SettingsError(ValueError):
    """A setting has a value that it cannot have. The message names the variable, not the value: values may be secrets."""


def load_settings(**overrides: Any) -> Settings:
    """The settings of the environment; overrides that are not None stand above it.

    Raises `SettingsError` with one sentence per wrong value.
    """
    try:
        return Settings(**{name: value for name, value in overrides.items() if value is not None})
    except ValidationError as error:
        raise SettingsError(_sentences(error, overrides)) from None


def _sentences(error: ValidationError, overrides: dict[str, Any]) -> str:
    return "; ".join(f"{_where(problem['loc'], overrides)}: {_what(problem['msg'])}" for problem in error.errors(include_input=False))


def _where(location: tuple[int | str, ...], overrides: dict[str, Any]) -> str:
    name = str(location[0]) if location else "settings"
    return f"--{name.replace('_', '-')}" if overrides.get(name) is not None else f"{PREFIX}{name.upper()}"


def _what(message: str) -> str:
    return message[:1].lower() + message[1:]
