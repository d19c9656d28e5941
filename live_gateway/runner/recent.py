"""The sessions that ran lately: their events, so that a run reads from the store only what is new."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from live_gateway.events import Event
from live_gateway.runner.history import History
from live_gateway.sessions.base import Session, SessionService

MAX_EVENTS = 100_000
"""So many events are kept in all; the sessions that were not used for longest are forgotten first."""

_Key = tuple[str, str]


@dataclass(slots=True)
class _Kept:
    events: list[Event]
    history: History = field(default_factory=History)


class RecentSessions:
    """Fetches sessions of one app. What it keeps are stored events, which never change, so it is never wrong, only behind: each fetch
    asks the store for what came after, and finds out whether the session is still the same one.
    """

    def __init__(self, service: SessionService, app_name: str, *, max_events: int = MAX_EVENTS) -> None:
        self._service = service
        self._app_name = app_name
        self._max_events = max_events
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._count = 0

    async def get(self, user_id: str, session_id: str) -> Session:
        """A fresh handle with all events. Raises as `SessionService.get`."""
        kept = self._kept.get((user_id, session_id))
        if kept is not None:
            last = kept.events[-1]
            session = await self._service.get(app_name=self._app_name, user_id=user_id, session_id=session_id, after_seq=last.seq - 1)
            if session.events and session.events[0].id == last.id:
                session.events = [*kept.events, *session.events[1:]]
                return session
            self._forget((user_id, session_id))
        return await self._service.get(app_name=self._app_name, user_id=user_id, session_id=session_id)

    def keep(self, session: Session) -> History:
        """Remember the events of a handle that holds all of them; the index over them."""
        key = (session.user_id, session.id)
        kept = self._kept.get(key)
        if kept is None or not _goes_on(kept.events, session.events):
            self._forget(key)
            kept = _Kept([])
        kept.history.follow(session.events)
        if session.events and len(session.events) == session.head_seq:
            self._take(key, kept, session.events[len(kept.events) :])
        else:
            self._forget(key)
        while self._count > self._max_events:
            self._forget(next(iter(self._kept)))
        return kept.history

    def _take(self, key: _Key, kept: _Kept, fresh: list[Event]) -> None:
        kept.events += fresh  # a copy of all of them would cost a long session more than the rest of its turn
        self._count += len(fresh)
        self._kept[key] = kept
        self._kept.move_to_end(key)

    def _forget(self, key: _Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._count -= len(kept.events)


def _goes_on(events: list[Event], longer: list[Event]) -> bool:
    return len(events) <= len(longer) and longer[len(events) - 1].id == events[-1].id
