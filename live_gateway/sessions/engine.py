"""Opening databases: which URL means what, how connections are set up, and the lock that keeps a second writer off an SQLite file."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from filelock import FileLock, Timeout
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, Engine, create_engine, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import QueuePool

from live_gateway.errors import ConfigurationError, StorageError

T = TypeVar("T")

_READERS = 4


@dataclass(slots=True)
class Database:
    """A database to open: `writer` (one connection) and `reader` (a few) make the engines; `where` names it without a password."""

    url: URL
    where: str
    path: Path | None = None
    schema: str | None = None
    _lock: FileLock | None = field(default=None, init=False)

    def lock_for_writing(self) -> None:
        """Make an SQLite file if it is not there (readable by its owner only) and take the lock beside it. Blocks shortly; use a thread.

        The lock belongs to the operating system: a process that dies, however, gives it back. Raises `StorageError`.
        """
        if self.path is None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch(mode=0o600, exist_ok=True)
            lock = FileLock(f"{self.path}.lock", timeout=0, thread_local=False)
            lock.acquire()
        except Timeout:
            raise StorageError(
                f"another process or service writes to {self.path}; an SQLite file has one writer: stop the other one, or use PostgreSQL"
            ) from None
        except OSError as error:
            raise StorageError(f"cannot write to {self.path}: {error.strerror}") from error
        self._lock = lock

    def unlock(self) -> None:
        """Give the lock back, if it was taken."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def writer(self, deadline: float) -> Transactions:
        """What writes, with one connection. `deadline`: seconds one attempt may take; SQLite gives up on a lock before that."""
        if self.path is None:
            return _PostgresTransactions(self._postgres_engine(deadline, connections=1))
        pragmas = ["journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", _patience(deadline)]
        return _SqliteTransactions(_sqlite_engine(self.url, "BEGIN IMMEDIATE", pragmas, connections=1), threads=1)

    def reader(self, deadline: float) -> Transactions:
        """What reads, each time in one snapshot. SQLite connections made here can neither write nor checkpoint: only the writer's does."""
        if self.path is None:
            engine = self._postgres_engine(deadline, connections=_READERS)
            return _PostgresTransactions(engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True))
        pragmas = ["query_only=ON", "wal_autocheckpoint=0", _patience(deadline)]
        return _SqliteTransactions(_sqlite_engine(self.url, "BEGIN", pragmas, connections=_READERS), threads=_READERS)

    def _postgres_engine(self, deadline: float, connections: int) -> AsyncEngine:
        settings = {"application_name": "live-gateway", "idle_in_transaction_session_timeout": "10000"}
        if self.schema is not None:
            settings["search_path"] = self.schema
        arguments = {"server_settings": settings, "timeout": deadline}
        try:
            return create_async_engine(
                self.url, pool_size=connections, max_overflow=0, pool_timeout=deadline, hide_parameters=True, connect_args=arguments
            )
        except ModuleNotFoundError as error:
            raise ConfigurationError("PostgreSQL needs the driver asyncpg: pip install 'live-gateway[postgres]'") from error


class Transactions(Protocol):
    """Runs plain code on a connection, each time in one transaction: committed when the code returns, rolled back when it raises."""

    async def run(self, work: Callable[[Connection], T]) -> T: ...

    async def close(self) -> None: ...


class _PostgresTransactions:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def run(self, work: Callable[[Connection], T]) -> T:
        async with self._engine.begin() as connection:
            return await connection.run_sync(work)

    async def close(self) -> None:
        await self._engine.dispose()


class _SqliteTransactions:
    """A whole transaction is one visit to a thread: a third of the time and of the CPU of one visit for each statement.

    A transaction that is cancelled while it runs still runs to its end; the next one of a writer waits for it.
    """

    def __init__(self, engine: Engine, threads: int) -> None:
        self._engine = engine
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="session-store")

    async def run(self, work: Callable[[Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._transaction, work)

    def _transaction(self, work: Callable[[Connection], T]) -> T:
        with self._engine.begin() as connection:
            return work(connection)

    async def close(self) -> None:
        self._threads.shutdown(wait=False)  # takes no more work; what runs is waited for by the pool of the engine
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._threads.shutdown(wait=True)
        self._engine.dispose()


def parse_database_url(url: str) -> Database:
    """`sqlite:///file`, a bare path, or `postgresql://user@host/name`, the last with an optional `?schema=name`.

    Raises `ConfigurationError` for anything else.
    """
    if "://" not in url:
        return _sqlite(URL.create("sqlite+pysqlite", database=url))
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise ConfigurationError(
            "the address of the session store cannot be parsed; use sqlite:///file or postgresql://user@host/name"
        ) from None
    kind = parsed.drivername.partition("+")[0]
    if kind == "sqlite":
        return _sqlite(parsed.set(drivername="sqlite+pysqlite"))
    if kind in ("postgresql", "postgres"):
        return _postgresql(parsed.set(drivername="postgresql+asyncpg"))
    raise ConfigurationError(f"session stores are memory://, sqlite:///file and postgresql://..., not {kind}://")


def _sqlite(url: URL) -> Database:
    if not url.database or url.database == ":memory:":
        raise ConfigurationError("an SQLite store needs a file; use memory:// for sessions that are not kept")
    path = Path(url.database).expanduser().resolve()
    return Database(url.set(database=str(path)), where=str(path), path=path)


def _postgresql(url: URL) -> Database:
    schema = url.query.get("schema")
    if schema is not None and not (isinstance(schema, str) and re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", schema)):
        raise ConfigurationError("a PostgreSQL schema is named with lower case letters, digits and underscores")
    return Database(url.difference_update_query(["schema"]), where=url.set(query={}).render_as_string(hide_password=True), schema=schema)


def _patience(deadline: float) -> str:
    return f"busy_timeout={int(deadline * 900)}"  # ms; below the deadline, so that the thread is free again when it passes


def _sqlite_engine(url: URL, begin: str, pragmas: list[str], connections: int) -> Engine:
    engine = create_engine(
        url, poolclass=QueuePool, pool_size=connections, max_overflow=0, hide_parameters=True, connect_args={"check_same_thread": False}
    )

    def connect(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # the driver begins no transactions by itself: `begin` below does
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}").close()

    event.listen(engine, "connect", connect)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine
