"""What one server process knows: the runners by app, the sockets that are open, and who drives which session."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from live_gateway.agents.config import LiveRunConfig
from live_gateway.clock import Clock, LoopClock
from live_gateway.errors import ConfigurationError, SessionError, SessionNotFound
from live_gateway.runner import Runner
from live_gateway.server.outgoing import Message, close_reason, encode, goaway

SessionKey = tuple[str, str, str]
"""App, user and session."""

RELEASE_S = 15.0
RETRY_AFTER_MS = 1000


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """How the server treats its clients. Seconds.

    hosts: names under which the server answers, beside addresses and `localhost`. origins: pages that may use it, beside its own.
    hello_s: how long a client may take to say hello. setup_s: how long the model may take to be ready, a local voice that is still loading
    included. send_s: how long a client may take nothing of what it is sent. max_live: live sessions at once. record_calls: directory in
    which every live session is recorded (`LiveRunConfig.record_to`).
    """

    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    hello_s: float = 10.0
    setup_s: float = 60.0
    send_s: float = 10.0
    max_live: int = 500
    record_calls: Path | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """How a connection ends. word: the reason of the close frame. frame: a last message before it. polite: False when nobody is there."""

    code: int
    word: str
    frame: str | None = None
    polite: bool = True

    @property
    def reason(self) -> str:
        """The reason of the close frame."""
        return close_reason(self.word)


DONE = Ending(1000, "done")
GONE = Ending(1006, "gone", polite=False)


class Driver(Protocol):
    """A socket that drives a session."""

    gone: asyncio.Event
    """Set when the socket has let go of its session."""

    def end(self, ending: Ending) -> None:
        """End the connection; the first ending counts."""
        ...

    def tell(self, message: Message) -> None:
        """Send its client a message."""
        ...


class Gateway:
    """One server process. runners: by app name; the first is what a client gets that names no app."""

    def __init__(self, runners: Mapping[str, Runner] | Runner, config: ServerConfig | None = None, clock: Clock | None = None) -> None:
        self.runners: dict[str, Runner] = {runners.app_name: runners} if isinstance(runners, Runner) else dict(runners)
        if not self.runners:
            raise ConfigurationError("a server needs at least one runner")
        self.config = config or ServerConfig()
        self.clock = clock or LoopClock()
        self.draining = False
        self._sockets: set[Driver] = set()
        self._drivers: dict[SessionKey, Driver] = {}

    @property
    def sockets(self) -> frozenset[Driver]:
        """The sockets that are open."""
        return frozenset(self._sockets)

    def recorded(self, config: LiveRunConfig) -> LiveRunConfig:
        """These settings of a live session, with what this server does with every one."""
        return replace(config, record_to=self.config.record_calls)

    @property
    def full(self) -> bool:
        """Whether no more live sessions fit."""
        return len(self._sockets) >= self.config.max_live

    def runner(self, app: str | None) -> Runner:
        """The runner of an app. Raises `SessionNotFound` when there is no such app."""
        if app is None:
            return next(iter(self.runners.values()))
        if app not in self.runners:
            raise SessionNotFound("There is no such app here.")
        return self.runners[app]

    def add(self, socket: Driver) -> None:
        """A socket was opened."""
        self._sockets.add(socket)

    def remove(self, socket: Driver) -> None:
        """A socket has come to its end and drives nothing."""
        self._sockets.discard(socket)
        for key in [key for key, driver in self._drivers.items() if driver is socket]:
            del self._drivers[key]
        socket.gone.set()

    async def drive(self, key: SessionKey, socket: Driver, taken_over: Ending) -> None:
        """Make this socket the one that drives the session; another one that does is ended first, with `taken_over`.

        Raises `SessionError` when the other one does not let go in time.
        """
        try:
            async with asyncio.timeout(RELEASE_S):
                while (other := self._drivers.get(key)) is not None:
                    other.end(taken_over)
                    await other.gone.wait()
        except TimeoutError:
            raise SessionError("The session is still in use by another connection.") from None
        self._drivers[key] = socket

    def announce(self, key: SessionKey, message: Message) -> None:
        """Tell whoever drives this session."""
        if (driver := self._drivers.get(key)) is not None:
            driver.tell(message)

    async def drain(self, deadline_s: float = 5.0) -> None:
        """Take no more clients, tell everybody to go away, and wait until they have gone, at most so long."""
        self.draining = True
        frame = encode(goaway("drain", 0, RETRY_AFTER_MS))
        sockets = list(self._sockets)
        for socket in sockets:
            socket.end(Ending(1012, "drain", frame))
        try:
            async with asyncio.timeout(deadline_s):
                for socket in sockets:
                    await socket.gone.wait()
        except TimeoutError:
            return
