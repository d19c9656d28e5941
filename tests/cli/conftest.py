"""Ports, and a machine without the voice packages."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator

import pytest

from live_gateway.voice.local import Availability


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Commands set up the package's logging for a process of their own."""
    logger = logging.getLogger("live_gateway")
    before = (list(logger.handlers), logger.level, logger.propagate)
    yield
    logger.handlers[:], logger.level, logger.propagate = before


@pytest.fixture
def used_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield int(listener.getsockname()[1])


@pytest.fixture
def unused_port() -> Iterator[int]:
    """A port that nobody else gets and on which nobody listens."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])


@pytest.fixture
def no_voice(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = Availability(("hibari-tts", "moonshine-voice"), ('pip install "live-gateway[voice]"',))
    monkeypatch.setattr("live_gateway.cli.local_voice.available", lambda: missing)


@pytest.fixture
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
