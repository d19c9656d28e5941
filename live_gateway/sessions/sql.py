"""Sessions in a database: an SQLite file for one process, PostgreSQL for many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from sqlalchemy import Connection

from live_gateway.clock import Clock, SystemClock
from live_gateway.errors import GatewayError, SessionNotFound, StorageError
from live_gateway.events import Event
from live_gateway.sessions.base import Session
from live_gateway.sessions.batch import Append, Create, Delete, Key, handle_of, read_session, select_sessions
from live_gateway.sessions.commit import CommitQueue, Patience, Work
from live_gateway.sessions.engine import Database, Transactions, parse_database_url
from live_gateway.sessions.heads import Heads
from live_gateway.sessions.records import check_names, is_storable, make_record, new_session_id
from live_gateway.sessions.schema import check_version, prepare_schema, sessions
from live_gateway.sessions.state import check_delta, split_delta

T = TypeVar("T")

_OPEN_DEADLINE = 10.0
_CLOSE_DEADLINE = 15.0


class SqlSessionService:
    """A `SessionService` in a database; use it as an async context manager.

    All writes of the service go through one connection, many in one transaction; an append returns when its transaction is committed. On
    SQLite the service locks the file: it is the only writer, others may open it with `read_only`. On PostgreSQL any number of processes
    interleave; the number of an event is assigned by the statement that inserts it.

    An append that ended in `StorageError` because the database did not answer in time may have been stored all the same; the handle finds
    it on its next append.
    """

    def __init__(self, url: str, *, read_only: bool = False, clock: Clock | None = None, patience: Patience | None = None) -> None:
        """`url`: `sqlite:///file`, a path, or `postgresql://user@host/name?schema=...`. Raises `ConfigurationError` for anything else."""
        self._database: Database = parse_database_url(url)
        self._read_only = read_only
        self._clock = clock or SystemClock()
        self._patience = patience or Patience()
        self._group: asyncio.TaskGroup | None = None
        self._reader: Transactions | None = None
        self._writer: Transactions | None = None
        self._queue: CommitQueue | None = None
        self._heads: Heads | None = None

    async def __aenter__(self) -> Self:
        """Open the database and make its tables if it is empty.

        Raises `StorageError` when it cannot be reached, is written to by another process (SQLite), or has another schema version.
        """
        try:
            async with asyncio.timeout(_OPEN_DEADLINE):
                await self._open()
        except GatewayError:
            await self._close()
            raise
        except Exception as error:  # the edge to foreign drivers: whatever one raises, the store could not be opened
            await self._close()
            raise StorageError(f"cannot open {self._database.where} ({type(error).__name__})") from error
        except BaseException:
            await self._close()
            raise
        if self._queue is not None:
            self._group = asyncio.TaskGroup()
            await self._group.__aenter__()
            self._group.create_task(self._queue.run(), name="session store writer")
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Write what is queued, then close."""
        try:
            if self._group is not None and self._queue is not None:
                self._queue.close()
                async with asyncio.timeout(_CLOSE_DEADLINE):
                    await self._group.__aexit__(None, None, None)
        finally:
            self._group = None
            await self._close()

    async def create(
        self, *, app_name: str, user_id: str, session_id: str | None = None, state: Mapping[str, Any] | None = None
    ) -> Session:
        key = (app_name, user_id, session_id or new_session_id())
        check_names(app_name=key[0], user_id=key[1], session_id=key[2])
        check_delta(state or {})
        session: Session = await self._submit(Create(key, split_delta(state or {}), self._clock.wall()))
        return session

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
        if not all(is_storable(name) for name in key):
            raise SessionNotFound("no session has such a name")
        known = None
        if self._heads is not None and after_seq is not None and recent is None and after is None:
            known = self._heads.get(key, after_seq)
        return known or await self._read_session(key, recent, after, after_seq)

    async def list(self, *, app_name: str, user_id: str | None = None) -> Sequence[Session]:
        query = select_sessions().where(sessions.c.app_name == app_name).order_by(sessions.c.update_time.desc(), sessions.c.key.desc())
        if user_id is not None:
            query = query.where(sessions.c.user_id == user_id)
        if not is_storable(app_name) or not is_storable(user_id or "any"):
            return []

        return await self._read(lambda connection: [handle_of(row) for row in connection.execute(query)])

    async def delete(self, *, app_name: str, user_id: str, session_id: str) -> None:
        key = (app_name, user_id, session_id)
        if all(is_storable(name) for name in key):
            await self._submit(Delete(key))

    async def append_event(self, session: Session, event: Event) -> Event:
        if event.partial:
            return event
        stored: Event = await self._submit(Append(session, make_record(event)))
        return stored

    @property
    def transactions(self) -> int:
        """How many write transactions were committed so far."""
        return 0 if self._queue is None else self._queue.transactions

    async def _read_session(self, key: Key, recent: int | None, after: float | None, after_seq: int | None) -> Session:
        def read(connection: Connection) -> Session:
            return read_session(connection, key, recent=recent, after=after, after_seq=after_seq)

        if self._heads is None:
            return await self._read(read)
        with self._heads.reading(key) as reading:
            session = await self._read(read)
            self._heads.keep(reading, session)
        return session

    async def _submit(self, work: Work) -> Any:
        if self._queue is None:
            raise StorageError(f"{self._database.where} is {'open for reading only' if self._read_only else 'not open'}")
        return await self._queue.submit(work)

    async def _read(self, read: Callable[[Connection], T]) -> T:
        """Read in one snapshot. A connection that turned out to be dead is replaced and the read made again."""
        if self._reader is None:
            raise StorageError(f"{self._database.where} is not open")
        for attempt in range(1, self._patience.attempts + 1):
            try:
                async with asyncio.timeout(self._patience.read):
                    return await self._reader.run(read)
            except GatewayError:
                raise
            except Exception as error:  # the edge to foreign drivers: not all that they raise on a lost connection is SQLAlchemy's
                if attempt == self._patience.attempts:
                    raise StorageError(f"{self._database.where} cannot be read; it can be tried again later") from error
        raise AssertionError("there is at least one attempt")

    async def _open(self) -> None:
        database, where = self._database, self._database.where
        if self._read_only:
            if database.path is not None and not await asyncio.to_thread(database.path.exists):
                raise StorageError(f"there is no file {where}")
            self._reader = database.reader(self._patience.write)
            await self._reader.run(lambda connection: check_version(connection, where))
            return
        await asyncio.to_thread(database.lock_for_writing)
        self._reader = database.reader(self._patience.write)
        self._writer = database.writer(self._patience.write)
        await self._writer.run(lambda connection: prepare_schema(connection, where, database.schema))
        self._heads = Heads() if database.path is not None else None  # of PostgreSQL there may be other writers
        self._queue = CommitQueue(self._writer, where, self._patience, heads=self._heads)

    async def _close(self) -> None:
        reader, writer, self._reader, self._writer, self._queue = self._reader, self._writer, None, None, None
        self._heads = None
        for engine in (reader, writer):  # the writer last: the last connection of an SQLite file empties its log
            if engine is not None:
                await engine.close()
        await asyncio.to_thread(self._database.unlock)
