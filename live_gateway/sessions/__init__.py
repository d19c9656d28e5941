"""Stored conversations: what a session is (`base`), its state (`state`), who writes it (`writer`), and the stores."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from live_gateway.sessions.base import Session, SessionService
from live_gateway.sessions.memory import InMemorySessionService
from live_gateway.sessions.writer import SessionWriter, Slot, Storing

__all__ = [
    "InMemorySessionService",
    "OpenableSessionService",
    "Session",
    "SessionService",
    "SessionWriter",
    "Slot",
    "Storing",
    "open_session_service",
]


class OpenableSessionService(SessionService, AbstractAsyncContextManager["OpenableSessionService"], Protocol):
    """A store to be used with `async with`."""


def open_session_service(url: str | None = None) -> OpenableSessionService:
    """The store that a URL names: `memory://`, `sqlite:///file` or a path, `postgresql://user@host/name`; None: a file in the user's data
    directory. Nothing is opened before it is entered. Raises `ConfigurationError` for any other URL.
    """
    if url == "memory://":
        return InMemorySessionService()
    from live_gateway.sessions.sql import SqlSessionService  # heavy: only whoever wants a database waits for its import

    return SqlSessionService(url if url is not None else default_path())


def default_path() -> str:
    """Where sessions are kept when nothing else is said."""
    from platformdirs import user_data_path

    return str(user_data_path("live-gateway", appauthor=False) / "sessions.sqlite3")
