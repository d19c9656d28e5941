"""Sessions in this process's memory: for tests and local use. Gone when the process ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from live_gateway.clock import Clock, SystemClock
from live_gateway.errors import DuplicateEvent, SessionExists, SessionNotFound
from live_gateway.events import Event, replace
from live_gateway.sessions.base import Session
from live_gateway.sessions.records import advance, check_names, check_same_session, make_record, new_session_id
from live_gateway.sessions.state import StateDelta, check_delta, merge_state, split_delta

_Key = tuple[str, str, str]


@dataclass(slots=True)
class _Log:
    state: dict[str, Any]
    last_update_time: float
    events: list[Event] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)


class InMemorySessionService:
    """A `SessionService` without a disk. Appending takes the same time however long the session is.

    Events are shared between the store and its readers: they are immutable, and what they hold must not be changed either.
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._logs: dict[_Key, _Log] = {}
        self._app_states: dict[str, dict[str, Any]] = {}
        self._user_states: dict[tuple[str, str], dict[str, Any]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None

    async def create(
        self, *, app_name: str, user_id: str, session_id: str | None = None, state: Mapping[str, Any] | None = None
    ) -> Session:
        key = (app_name, user_id, session_id or new_session_id())
        check_names(app_name=key[0], user_id=key[1], session_id=key[2])
        check_delta(state or {})
        if key in self._logs:
            raise SessionExists(f"session {key[2]!r} exists already")
        delta = split_delta(state or {})
        self._logs[key] = _Log(state={}, last_update_time=self._clock.wall())
        self._apply(key, delta)
        return self._handle(key)

    async def get(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        recent: int | None = None,
        after: float | None = None,
        after_seq: int | None = None,
    ) -> Session:
        key = (app_name, user_id, session_id)
        session = self._handle(key)
        events = self._logs[key].events
        first = max(after_seq or 0, 0 if recent is None else len(events) - max(recent, 0), 0)
        session.events = [event for event in events[first:] if after is None or event.timestamp >= after]
        return session

    async def list(self, *, app_name: str, user_id: str | None = None) -> Sequence[Session]:
        keys = [key for key in self._logs if key[0] == app_name and user_id in (None, key[1])]
        return sorted((self._handle(key) for key in keys), key=lambda session: session.last_update_time, reverse=True)

    async def delete(self, *, app_name: str, user_id: str, session_id: str) -> None:
        self._logs.pop((app_name, user_id, session_id), None)

    async def append_event(self, session: Session, event: Event) -> Event:
        if event.partial:
            return event
        record = make_record(event)
        key = (session.app_name, session.user_id, session.id)
        log = self._log(key)
        check_same_session(session, len(log.events))
        if record.event.id in log.ids:
            raise DuplicateEvent(f"session {session.id!r} already holds event {record.event.id!r}")
        stored = replace(record.event, seq=len(log.events) + 1)
        log.events.append(stored)
        log.ids.add(stored.id)
        log.last_update_time = stored.timestamp
        self._apply(key, record.delta)
        advance(session, log.events[session.head_seq :])
        return stored

    def _log(self, key: _Key) -> _Log:
        log = self._logs.get(key)
        if log is None:
            raise SessionNotFound(f"session {key[2]!r} was not found")
        return log

    def _apply(self, key: _Key, delta: StateDelta) -> None:
        self._logs[key].state.update(delta.session)
        if delta.app:
            self._app_states.setdefault(key[0], {}).update(delta.app)
        if delta.user:
            self._user_states.setdefault(key[:2], {}).update(delta.user)

    def _handle(self, key: _Key) -> Session:
        log = self._log(key)
        app, user = self._app_states.get(key[0], {}), self._user_states.get(key[:2], {})
        return Session(
            app_name=key[0],
            user_id=key[1],
            id=key[2],
            state=merge_state(app, user, log.state),
            head_seq=len(log.events),
            last_update_time=log.last_update_time,
        )
