"""What a session is and what every store of sessions can do.

A session is a conversation of one user with one app: an ordered log of events and a state that follows from their deltas. The log is
written by `append_event` alone. Its order is `event.seq`: 1, 2, 3, ... without holes, the same for everybody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from live_gateway.events import Event


@dataclass(slots=True, kw_only=True)
class Session:
    """A handle on a stored session: what was in it when it was fetched, kept up to date by the appends made through this handle.

    state: app, user and session values in one read-only mapping, prefixes (`app:`, `user:`) put back. Writing to it, or to a value inside
    it, raises: state changes by appended events alone.
    events: oldest first; all of them, or what `get` was asked for. head_seq: number of the last stored event the handle knows, 0 for none.
    last_update_time: seconds since the Unix epoch.
    """

    app_name: str
    user_id: str
    id: str
    state: Mapping[str, Any]
    events: list[Event] = field(default_factory=list)
    head_seq: int = 0
    last_update_time: float = 0.0


class SessionService(Protocol):
    """A store of sessions. Every look-up takes app and user: somebody else's session is the same as none.

    One object may be used by any number of tasks of one event loop. Stores of files and servers are async context managers.
    """

    async def create(
        self, *, app_name: str, user_id: str, session_id: str | None = None, state: Mapping[str, Any] | None = None
    ) -> Session:
        """Make a session; without an id it gets one (128 bits). `temp:` keys of the initial state are dropped.

        Raises `SessionExists`, `InvalidState`, `StorageError`.
        """
        ...

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
        """Fetch a session with its events: at most the `recent` newest, of these only those with a timestamp not before `after`
        (seconds since the epoch) and a number above `after_seq`.

        Raises `SessionNotFound`, `StorageError`.
        """
        ...

    async def list(self, *, app_name: str, user_id: str | None = None) -> Sequence[Session]:
        """The sessions of a user, or of all users of the app; merged state, no events. Raises `StorageError`."""
        ...

    async def delete(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Remove a session with its events. A session that is not there is no error. Raises `StorageError`."""
        ...

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store an event and bring the handle up to date; the stored event is returned, with its `seq` and without `temp:` keys.

        The event given is not changed. A partial event is returned as it is and not stored. A handle that was behind has caught up when
        this returns. When it raises, nothing of the event is stored and the handle is as it was.
        Raises `SessionNotFound`, `DuplicateEvent`, `InvalidState`, `StorageError`.
        """
        ...
