"""What the only writer of an SQLite file knows of its sessions without reading: the newest event and the state of those used lately.

A run asks at its start what is new in its session. Nearly always nothing is, and whoever holds the lock of the file and carries out every
write can say so without a visit to the file. What is known here is never more than what is committed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from live_gateway.events import Event
from live_gateway.sessions.base import Session
from live_gateway.sessions.batch import Append, Appended, Create, Key, Log
from live_gateway.sessions.records import with_delta
from live_gateway.sessions.state import StateDelta

LIMIT = 1_000
"""Of so many sessions the newest event and the state are kept; the one that was not used for longest goes first."""


@dataclass(slots=True)
class _Head:
    last: Event
    state: Mapping[str, Any]


@dataclass(slots=True, eq=False)
class Reading:
    """A read that is under way. `spoiled`: something of what it may have seen was written meanwhile."""

    key: Key
    spoiled: bool = False


class Heads:
    """The newest event and the merged state of sessions, kept up to date by every commit.

    After a write that failed nobody knows whether it was committed, or still will be; nothing is known then until a later write, which
    waits for the earlier one, has succeeded.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._known: OrderedDict[Key, _Head] = OrderedDict()
        self._readings: set[Reading] = set()
        self._sure = True

    def get(self, key: Key, after_seq: int) -> Session | None:
        """What a read of the events after this number would give now; None when that has to be read."""
        head = self._known.get(key)
        if head is None or after_seq < head.last.seq - 1:
            return None
        self._known.move_to_end(key)
        return Session(
            app_name=key[0],
            user_id=key[1],
            id=key[2],
            state=head.state,
            events=[head.last] if after_seq < head.last.seq else [],
            head_seq=head.last.seq,
            last_update_time=head.last.timestamp,
        )

    @contextmanager
    def reading(self, key: Key) -> Iterator[Reading]:
        """Watch what is written while a session is read."""
        reading = Reading(key, spoiled=not self._sure)
        self._readings.add(reading)
        try:
            yield reading
        finally:
            self._readings.discard(reading)

    def keep(self, reading: Reading, session: Session) -> None:
        """Remember what was read, if it is still so and holds the newest event."""
        if reading.spoiled or not session.events or session.events[-1].seq != session.head_seq:
            return
        self._put(reading.key, _Head(session.events[-1], session.state))

    def appended(self, appends: Sequence[Append], done: Appended) -> None:
        """These events were committed."""
        self._sure = True
        for key, log in done.logs.items():
            if log.added:
                self._move(key, log)
        for append in appends:
            self._shared_state_changed(append.key, append.record.delta)

    def created(self, create: Create) -> None:
        """This session was made, or was there already."""
        self._sure = True
        self._shared_state_changed(create.key, create.delta)

    def deleted(self, key: Key) -> None:
        """This session was removed."""
        self._sure = True
        self._forget(lambda other: other == key)

    def failed(self) -> None:
        """A write failed, or its answer was lost."""
        self._sure = False
        self._forget(lambda _: True)

    def _move(self, key: Key, log: Log) -> None:
        head = self._known.get(key)
        self._spoil(lambda other: other == key)
        if head is None:
            return
        if head.last.seq != log.head:
            del self._known[key]
            return
        self._put(key, _Head(log.added[-1], with_delta(head.state, log.delta) if log.delta else head.state))

    def _shared_state_changed(self, key: Key, delta: StateDelta) -> None:
        if delta.app:
            self._forget(lambda other: other[0] == key[0])
        elif delta.user:
            self._forget(lambda other: other[:2] == key[:2])

    def _put(self, key: Key, head: _Head) -> None:
        self._known[key] = head
        self._known.move_to_end(key)
        if len(self._known) > self._limit:
            self._known.popitem(last=False)

    def _forget(self, concerned: Callable[[Key], bool]) -> None:
        for key in [key for key in self._known if concerned(key)]:
            del self._known[key]
        self._spoil(concerned)

    def _spoil(self, concerned: Callable[[Key], bool]) -> None:
        for reading in self._readings:
            reading.spoiled = reading.spoiled or concerned(reading.key)
