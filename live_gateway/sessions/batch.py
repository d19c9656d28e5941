"""The statements of the SQL store: what one write transaction does with many appends, and how a session is read.

Locks are taken in one order everywhere (sessions, then app rows, then user rows, each sorted), so that processes on one PostgreSQL wait
for each other and never in a circle. Everything here is plain, synchronous code on a connection; `engine` decides where it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from sqlalchemy import BigInteger, Connection, Row, Select, Table, and_, bindparam, delete, insert, null, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite

from live_gateway.errors import DuplicateEvent, GatewayError, SessionExists, SessionNotFound, StorageError
from live_gateway.events import Event, decode_event, replace
from live_gateway.sessions.base import Session
from live_gateway.sessions.collecting import collections_paused
from live_gateway.sessions.records import Record, advance, check_same_session
from live_gateway.sessions.schema import app_states, events, sessions, user_states
from live_gateway.sessions.state import StateDelta, merge_state
from live_gateway.sessions.statements import execute

Key = tuple[str, str, str]
"""App, user and id: what names a session."""

_PAGE = 200  # rows read and decoded at a time: about 3 ms, after which others get their turn

_NAME = (sessions.c.app_name, sessions.c.user_id, sessions.c.id)
_IS_ONE = and_(*(column == bindparam(f"its_{column.name}") for column in _NAME))
_IS_ONE_OF = tuple_(*_NAME).in_(bindparam("keys", expanding=True))


def _names(keys: Sequence[Key]) -> dict[str, Any]:
    """The parameters of `_IS_ONE` for one key, of `_IS_ONE_OF` for many."""
    if len(keys) == 1:
        return dict(zip(("its_app_name", "its_user_id", "its_id"), keys[0], strict=True))
    return {"keys": list(keys)}


def _lock(one: bool, with_state: bool) -> Select[Any]:
    state = sessions.c.state if with_state else null().label("state")
    query = select(sessions.c.key, *_NAME, sessions.c.head_seq, state).order_by(sessions.c.key).with_for_update()
    return query.where(_IS_ONE if one else _IS_ONE_OF)


# Statements are built once: building one takes longer than SQLite takes to carry it out.
_LOCK = {(one, with_state): _lock(one, with_state) for one in (False, True) for with_state in (False, True)}
_INSERT_EVENT = insert(events).from_select(
    ["session_key", "seq", "id", "invocation_id", "author", "timestamp", "body"],
    select(
        sessions.c.key,
        sessions.c.head_seq + bindparam("place", type_=BigInteger),
        *(bindparam(f"new_{name}", type_=events.c[name].type) for name in ("id", "invocation_id", "author", "timestamp", "body")),
    ).where(sessions.c.key == bindparam("session")),
)
_MOVE_HEAD = (
    update(sessions)
    .where(sessions.c.key == bindparam("session"))
    .values(head_seq=sessions.c.head_seq + bindparam("count", type_=BigInteger), update_time=bindparam("time"))
)
_SET_STATE = update(sessions).where(sessions.c.key == bindparam("session")).values(state=bindparam("new_state"))


@dataclass(frozen=True, slots=True)
class Append:
    """One event to be stored through one handle."""

    session: Session
    record: Record

    @property
    def key(self) -> Key:
        return self.session.app_name, self.session.user_id, self.session.id


@dataclass(frozen=True, slots=True)
class Create:
    """One session to be made. `time`: seconds since the epoch."""

    key: Key
    delta: StateDelta
    time: float


@dataclass(frozen=True, slots=True)
class Delete:
    """One session to be removed."""

    key: Key


@dataclass(slots=True)
class Log:
    """What the transaction knows of one session: its row, locked, and what this batch adds to it. `head`: number of the last event before;
    `delta`: what the batch changes in the session's own state, keys bare."""

    key: int
    head: int
    state: str | None
    seen: dict[str, Any] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)
    added: list[Event] = field(default_factory=list)
    missed: list[Event] = field(default_factory=list)
    delta: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Appended:
    """A transaction's appends, to be settled when it is committed: an event or an error for each, and the logs to move handles along."""

    logs: dict[Key, Log]
    results: list[Event | GatewayError]

    def advance_handles(self, appends: Sequence[Append]) -> None:
        """Bring every handle up to the event that was appended through it."""
        for append, result in zip(appends, self.results, strict=True):
            if isinstance(result, Event):
                log, handle = self.logs[append.key], append.session
                advance(handle, log.missed)
                advance(handle, log.added[max(0, handle.head_seq - log.head) : max(0, result.seq - log.head)])


def store_appends(connection: Connection, appends: Sequence[Append], *, careful: bool, again: bool) -> Appended:
    """Store all events that can be stored; an error for each of the others.

    careful: look for event ids that are stored already; without it they come out as an `IntegrityError` of the database.
    again: an earlier attempt may have been committed unnoticed, so the same event found stored is a success.
    """
    logs = _lock_sessions(connection, appends)
    if careful:
        _find_stored(connection, appends, logs)
    results: list[Event | GatewayError] = []
    rows: list[dict[str, Any]] = []
    accepted: list[Append] = []
    for append in appends:
        result = _place(append, logs.get(append.key), again=again)
        results.append(result)
        if isinstance(result, Event) and result.seq > logs[append.key].head:
            rows.append(_event_row(append, result, logs[append.key]))
            accepted.append(append)
    if rows:
        execute(connection, _INSERT_EVENT, rows)
        _move_sessions(connection, logs.values())
        merge_shared_states(connection, [(append.key, append.record.delta) for append in accepted])
    _read_missed(connection, appends, logs)
    return Appended(logs, results)


def _place(append: Append, log: Log | None, *, again: bool) -> Event | GatewayError:
    """The event with its number, added to its log; or why not."""
    if log is None:
        return SessionNotFound(f"session {append.session.id!r} was not found")
    try:
        check_same_session(append.session, log.head)
    except SessionNotFound as error:
        return error
    event = append.record.event
    stored = log.seen.get(event.id)
    if stored is not None and again and stored.body == append.record.body.decode():
        return replace(event, seq=stored.seq)
    if stored is not None or event.id in log.ids:
        return DuplicateEvent(f"session {append.session.id!r} already holds event {event.id!r}")
    placed = replace(event, seq=log.head + len(log.added) + 1)
    log.ids.add(event.id)
    log.added.append(placed)
    log.delta.update(append.record.delta.session)
    return placed


def _event_row(append: Append, event: Event, log: Log) -> dict[str, Any]:
    return {
        "session": log.key,
        "place": event.seq - log.head,
        "new_id": event.id,
        "new_invocation_id": event.invocation_id,
        "new_author": event.author,
        "new_timestamp": event.timestamp,
        "new_body": append.record.body.decode(),
    }


def _lock_sessions(connection: Connection, appends: Sequence[Append]) -> dict[Key, Log]:
    keys = sorted({append.key for append in appends})
    with_state = any(append.record.delta.session for append in appends)
    if len(keys) == 1:
        rows = execute(connection, _LOCK[True, with_state], _names(keys))
    else:
        rows = connection.execute(_LOCK[False, with_state], _names(keys))
    return {(app, user, name): Log(key, head, state) for key, app, user, name, head, state in rows}


def _find_stored(connection: Connection, appends: Sequence[Append], logs: Mapping[Key, Log]) -> None:
    by_number = {log.key: log for log in logs.values()}
    wanted = {(logs[append.key].key, append.record.event.id) for append in appends if append.key in logs}
    query = select(events.c.session_key, events.c.id, events.c.seq, events.c.body)
    for row in connection.execute(query.where(tuple_(events.c.session_key, events.c.id).in_(wanted))):
        by_number[row.session_key].seen[row.id] = row


def _move_sessions(connection: Connection, logs: Iterable[Log]) -> None:
    moved = [log for log in logs if log.added]
    heads = [{"session": log.key, "count": len(log.added), "time": log.added[-1].timestamp} for log in moved]
    execute(connection, _MOVE_HEAD, heads)
    states = [{"session": log.key, "new_state": _merged(log.state, log.delta)} for log in moved if log.delta]
    if states:
        execute(connection, _SET_STATE, states)


def _read_missed(connection: Connection, appends: Sequence[Append], logs: Mapping[Key, Log]) -> None:
    """Read what handles of this batch have missed, inside the transaction: when that fails, nothing is stored."""
    behind: dict[Key, int] = {}
    for append in appends:
        log = logs.get(append.key)
        if log is not None and append.session.head_seq < log.head:
            behind[append.key] = min(append.session.head_seq, behind.get(append.key, log.head))
    for key, seq in behind.items():
        log = logs[key]
        log.missed = read_events(connection, log.key, and_(events.c.seq > seq, events.c.seq <= log.head))


def merge_shared_states(connection: Connection, deltas: Sequence[tuple[Key, StateDelta]]) -> None:
    """Merge the app and user parts of these deltas, in their order, key by key."""
    apps: dict[tuple[str, ...], dict[str, Any]] = {}
    users: dict[tuple[str, ...], dict[str, Any]] = {}
    for key, delta in deltas:
        if delta.app:
            apps.setdefault(key[:1], {}).update(delta.app)
        if delta.user:
            users.setdefault(key[:2], {}).update(delta.user)
    _merge_rows(connection, app_states, apps)
    _merge_rows(connection, user_states, users)


def _merge_rows(connection: Connection, table: Table, deltas: Mapping[tuple[str, ...], Mapping[str, Any]]) -> None:
    if not deltas:
        return
    names = [column.name for column in table.primary_key.columns]
    here = and_(*(table.c[name] == bindparam(f"row_{name}") for name in names))
    for owner, delta in sorted(deltas.items()):
        row = {f"row_{name}": value for name, value in zip(names, owner, strict=True)}
        fresh = insert_if_missing(connection, table).values(**dict(zip(names, owner, strict=True)), state="{}")
        connection.execute(fresh)
        state = connection.execute(select(table.c.state).where(here).with_for_update(), row).scalar_one()
        connection.execute(update(table).where(here).values(state=bindparam("new_state")), row | {"new_state": _merged(state, delta)})


def insert_if_missing(connection: Connection, table: Table) -> Any:
    """An insert that does nothing when the row is there."""
    make = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    return make(table).on_conflict_do_nothing()


def _merged(state: str | None, delta: Mapping[str, Any]) -> str:
    stored: dict[str, Any] = msgspec.json.decode(state or "{}")
    return msgspec.json.encode({**stored, **delta}).decode()


def create_session(connection: Connection, create: Create, *, again: bool) -> Session | GatewayError:
    """Make a session; its handle, or `SessionExists`. `again`: an earlier attempt may have been committed unnoticed."""
    app_name, user_id, session_id = create.key
    values = {"app_name": app_name, "user_id": user_id, "id": session_id, "head_seq": 0, "state": _merged(None, create.delta.session)}
    fresh = insert_if_missing(connection, sessions).values(**values, create_time=create.time, update_time=create.time)
    made = connection.execute(fresh.returning(sessions.c.key)).scalar_one_or_none()
    if made is None:
        query = select(sessions.c.create_time).where(_IS_ONE)
        if not again or connection.execute(query, _names([create.key])).scalar_one_or_none() != create.time:
            return SessionExists(f"session {session_id!r} exists already")
    else:
        merge_shared_states(connection, [(create.key, create.delta)])
    return handle_of(connection.execute(_ONE_SESSION, _names([create.key])).one())


def delete_session(connection: Connection, job: Delete) -> None:
    """Remove a session; its events go with it."""
    connection.execute(delete(sessions).where(_IS_ONE), _names([job.key]))


def select_sessions() -> Select[Any]:
    """Sessions with the three states that make up what a reader sees."""
    own_app = app_states.c.app_name == sessions.c.app_name
    own_user = and_(user_states.c.app_name == sessions.c.app_name, user_states.c.user_id == sessions.c.user_id)
    return select(sessions, app_states.c.state.label("app_state"), user_states.c.state.label("user_state")).select_from(
        sessions.outerjoin(app_states, own_app).outerjoin(user_states, own_user)
    )


_ONE_SESSION = select_sessions().where(_IS_ONE)


def handle_of(row: Row[Any]) -> Session:
    """A handle without events from a row of `select_sessions`."""
    app, user, own = (msgspec.json.decode(text or "{}") for text in (row.app_state, row.user_state, row.state))
    return Session(
        app_name=row.app_name,
        user_id=row.user_id,
        id=row.id,
        state=merge_state(app, user, own),
        head_seq=row.head_seq,
        last_update_time=row.update_time,
    )


def read_session(connection: Connection, key: Key, *, recent: int | None, after: float | None, after_seq: int | None) -> Session:
    """A session with the events asked for. Raises `SessionNotFound`."""
    row = connection.execute(_ONE_SESSION, _names([key])).one_or_none()
    if row is None:
        raise SessionNotFound(f"session {key[2]!r} was not found")
    session = handle_of(row)
    last_left_out = max(after_seq or 0, 0 if recent is None else session.head_seq - max(recent, 0))
    if last_left_out < session.head_seq:
        wanted = and_(events.c.seq > last_left_out, events.c.seq <= session.head_seq)
        session.events = read_events(connection, row.key, wanted if after is None else and_(wanted, events.c.timestamp >= after))
    return session


def read_events(connection: Connection, session_key: int, wanted: Any) -> list[Event]:
    """The events of one session that fulfil a condition, oldest first. Raises `StorageError` for one that this program cannot read."""
    query = select(events.c.seq, events.c.body).where(events.c.session_key == session_key, wanted).order_by(events.c.seq)
    found: list[Event] = []
    with collections_paused(), connection.execute(query.execution_options(yield_per=_PAGE)) as rows:
        for page in rows.partitions():
            found.extend(_decode(row.seq, row.body) for row in page)
    return found


def _decode(seq: int, body: str) -> Event:
    try:
        return replace(decode_event(body), seq=seq)
    except ValueError as error:
        raise StorageError(f"event {seq} of the session is in a form that this version cannot read") from error
