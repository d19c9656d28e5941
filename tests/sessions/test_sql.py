"""The SQL store: group commit, faults, what it refuses, and how it sets its databases up."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import platformdirs
import pytest
from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import OperationalError

from live_gateway.errors import ConfigurationError, DuplicateEvent, SessionExists, StorageError
from live_gateway.events import Event, EventActions
from live_gateway.sessions import InMemorySessionService, Session, default_path, open_session_service
from live_gateway.sessions.commit import Patience
from live_gateway.sessions.engine import Transactions
from live_gateway.sessions.sql import SqlSessionService
from live_gateway.voice.moonshine import unpack_directory
from tests.support.stores import POSTGRES, Store

T = TypeVar("T")
WHO: dict[str, Any] = {"app_name": "app", "user_id": "u"}
SHORT = Patience(write=0.2, read=2.0, pause=0.01)


def internals(service: SqlSessionService) -> tuple[Transactions, Transactions]:
    assert service._writer is not None
    assert service._reader is not None
    return service._writer, service._reader


def path_of(store: Store) -> str:
    return store.url.removeprefix("sqlite:///")


@contextmanager
def locked(store: Store) -> Iterator[Callable[[], None]]:
    """Somebody else holds the write lock of the file until told to let go."""
    other = sqlite3.connect(path_of(store), isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield lambda: other.rollback()
    finally:
        other.close()


class Unsure:
    """A database whose first transactions are committed, but the answer gets lost."""

    def __init__(self, inner: Transactions, losses: int) -> None:
        self._inner = inner
        self._losses = losses

    async def run(self, work: Callable[[Connection], T]) -> T:
        result = await self._inner.run(work)
        if self._losses:
            self._losses -= 1
            raise ConnectionResetError
        return result

    async def close(self) -> None:
        await self._inner.close()


def lose_answers(service: SqlSessionService, losses: int) -> None:
    assert service._queue is not None
    service._queue._database = Unsure(service._queue._database, losses)


async def read(service: SqlSessionService, session: Session) -> Session:
    return await service.get(app_name=session.app_name, user_id=session.user_id, session_id=session.id)


async def test_appends_that_wait_together_are_committed_together(database: Store) -> None:
    async with database.sql() as service:
        sessions = [await service.create(**WHO) for _ in range(20)]
        before = service.transactions
        async with asyncio.TaskGroup() as group:
            for n in range(10):
                for session in sessions:
                    group.create_task(service.append_event(session, Event(author="u", actions=EventActions(state_delta={"n": n}))))
        assert service.transactions - before <= 4
        assert all([(await read(service, session)) == session for session in sessions])
        assert all(session.head_seq == 10 for session in sessions)


# contract: STATE-06
async def test_the_tables(database: Store) -> None:
    async with database.sql() as service:
        _, reader = internals(service)
        tables = await reader.run(lambda connection: inspect(connection).get_table_names())
    assert sorted(tables) == ["alembic_version", "app_states", "events", "sessions", "user_states"]


# contract: STATE-06
async def test_a_state_row_is_one_document_with_bare_keys(database: Store) -> None:
    async with database.sql() as service:
        session = await service.create(**WHO, state={"app:a": 1})
        await service.append_event(session, Event(author="u", actions=EventActions(state_delta={"user:b": [1], "c": None, "temp:d": 1})))
        _, reader = internals(service)
        query = "SELECT (SELECT state FROM app_states), (SELECT state FROM user_states), (SELECT state FROM sessions)"
        row = await reader.run(lambda connection: tuple(connection.execute(text(query)).one()))
    assert row == ('{"a":1}', '{"b":[1]}', '{"c":null}')


async def test_how_sqlite_is_set_up(sqlite_store: Store) -> None:
    async with sqlite_store.sql() as service:
        writer, reader = internals(service)

        def pragma(name: str) -> Callable[[Connection], Any]:
            return lambda connection: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()

        found = {name: await writer.run(pragma(name)) for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")}
        assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 1800}
        assert await reader.run(pragma("query_only")) == 1
        assert await reader.run(pragma("wal_autocheckpoint")) == 0
        with pytest.raises(OperationalError, match="readonly"):
            await reader.run(lambda connection: connection.exec_driver_sql("DELETE FROM sessions"))
    mode = stat.S_IMODE(Path(path_of(sqlite_store)).stat().st_mode)
    assert mode == 0o600


async def test_the_same_data_after_opening_again(database: Store) -> None:
    async with database.sql() as service:
        session = await service.create(**WHO, state={"k": 1})
        await service.append_event(session, Event(author="u"))
    async with database.sql() as service:
        assert await read(service, session) == session
        assert (await service.append_event(session, Event(author="u"))).seq == 2


async def test_a_reading_service_sees_what_is_stored_and_writes_nothing(database: Store) -> None:
    async with database.sql() as service, database.sql(read_only=True) as reader:
        session = await service.create(**WHO)
        for n in range(3):
            await service.append_event(session, Event(author="u"))
            assert (await read(reader, session)).head_seq == n + 1
        with pytest.raises(StorageError, match="reading only"):
            await reader.append_event(session, Event(author="u"))
        with pytest.raises(StorageError, match="reading only"):
            await reader.delete(**WHO, session_id=session.id)


async def test_a_closed_store_says_so(database: Store) -> None:
    service = database.sql()
    with pytest.raises(StorageError, match="not open"):
        await service.create(**WHO)
    async with service:
        session = await service.create(**WHO)
    for attempt in (service.append_event(session, Event(author="u")), read(service, session)):
        with pytest.raises(StorageError, match="not open"):
            await attempt


async def test_closing_writes_what_is_queued(database: Store) -> None:
    async with asyncio.TaskGroup() as group, database.sql() as service:
        session = await service.create(**WHO)
        tasks = [group.create_task(service.append_event(session, Event(author="u"))) for _ in range(40)]
        await service.list(app_name="app")
    assert [task.result().seq for task in tasks] == list(range(1, 41))


async def test_a_lock_that_goes_away_in_time_costs_nothing_but_time(sqlite_store: Store) -> None:
    async with sqlite_store.sql(patience=Patience(write=0.1, attempts=100, pause=0.001)) as service:
        session = await service.create(**WHO)
        with locked(sqlite_store) as let_go:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(service.append_event(session, Event(author="u", id=str(n)))) for n in range(5)]
                await asyncio.sleep(0.3)  # longer than one attempt may take
                let_go()
        assert [task.result().seq for task in tasks] == [1, 2, 3, 4, 5]
        assert [one.id for one in (await read(service, session)).events] == ["0", "1", "2", "3", "4"]


async def test_a_lock_that_stays_is_a_storage_error_and_the_store_recovers(sqlite_store: Store) -> None:
    async with sqlite_store.sql(patience=SHORT) as service:
        session = await service.create(**WHO)
        with locked(sqlite_store):
            with pytest.raises(StorageError, match=path_of(sqlite_store)):
                await service.append_event(session, Event(author="u", id="refused", actions=EventActions(state_delta={"k": 1})))
            assert (session.head_seq, dict(session.state)) == (0, {})
            assert (await read(service, session)).events == []
        assert (await service.append_event(session, Event(author="u", id="taken"))).seq == 1
        assert [one.id for one in (await read(service, session)).events] == ["taken"]


async def _outcome(awaitable: Any) -> Any:
    try:
        return await awaitable
    except StorageError as error:
        return error


async def test_a_cancelled_append_that_had_not_begun_is_taken_back(sqlite_store: Store) -> None:
    async with sqlite_store.sql() as service:
        session = await service.create(**WHO)
        with locked(sqlite_store) as let_go:
            async with asyncio.TaskGroup() as group:
                begun = group.create_task(service.append_event(session, Event(author="u", id="begun")))
                await service.list(app_name="app")
                waiting = group.create_task(service.append_event(session, Event(author="u", id="waiting")))
                await service.list(app_name="app")
                begun.cancel()
                waiting.cancel()
                let_go()
        await service.append_event(session, Event(author="u", id="after"))
        assert [one.id for one in (await read(service, session)).events] == ["begun", "after"]
        assert [one.id for one in session.events] == ["begun", "after"]


# contract: EVT-04
async def test_a_commit_whose_answer_was_lost_is_not_repeated(database: Store) -> None:
    async with database.sql(patience=Patience(pause=0.001)) as service:
        lose_answers(service, 2)
        session = await service.create(**WHO, session_id="s", state={"app:n": 1})
        lose_answers(service, 1)
        one = Event(author="u", id="one", actions=EventActions(state_delta={"k": 1}))
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(service.append_event(session, one)),
                group.create_task(service.append_event(session, Event(author="u"))),
            ]
        assert [task.result().seq for task in tasks] == [1, 2]
        assert session == await read(service, session)
        with pytest.raises(DuplicateEvent):
            await service.append_event(session, one)
        with pytest.raises(SessionExists):
            await service.create(**WHO, session_id="s")


async def test_lost_answers_without_end_are_a_storage_error_and_the_handle_agrees_afterwards(database: Store) -> None:
    async with database.sql(patience=Patience(pause=0.001)) as service:
        session = await service.create(**WHO)
        lose_answers(service, 3)
        with pytest.raises(StorageError):
            await service.append_event(session, Event(author="u", id="unsure"))
        await service.append_event(session, Event(author="u", id="after"))
        assert [one.id for one in session.events] == ["unsure", "after"]
        assert session == await read(service, session)


async def test_one_that_cannot_be_stored_does_not_fail_its_batch(database: Store) -> None:
    async with database.sql() as service:
        broken, good = await service.create(**WHO), await service.create(**WHO)
        behind = await read(service, broken)
        await service.append_event(broken, Event(author="u"))
        writer, _ = internals(service)
        await writer.run(lambda connection: connection.execute(text("UPDATE events SET body = '{\"author\": 1}'")))
        async with asyncio.TaskGroup() as group:
            bad = group.create_task(_outcome(service.append_event(behind, Event(author="u"))))
            fine = group.create_task(service.append_event(good, Event(author="u")))
        assert isinstance(bad.result(), StorageError)
        assert "event 1 " in str(bad.result())
        assert fine.result().seq == 1
        assert (behind.head_seq, behind.events) == (0, [])
        with pytest.raises(StorageError, match="event 1 "):
            await read(service, broken)


@pytest.mark.parametrize(("version", "words"), [(0, "live-gateway db upgrade"), (2, "newer live-gateway")])
async def test_another_schema_version_is_refused(database: Store, version: int, words: str) -> None:
    async with database.sql() as service:
        writer, _ = internals(service)
        await writer.run(lambda connection: connection.execute(text(f"UPDATE alembic_version SET version_num = '{version}'")))
    for read_only in (False, True):
        with pytest.raises(StorageError, match=f"schema version {version}, this program knows version 1.*{words}"):
            async with database.sql(read_only=read_only):
                raise AssertionError("opened")


async def test_the_tables_of_another_program_are_left_alone(sqlite_store: Store) -> None:
    other = sqlite3.connect(path_of(sqlite_store))
    other.execute("CREATE TABLE sessions (x)")
    other.close()
    with pytest.raises(StorageError, match="another program"):
        async with sqlite_store.sql():
            raise AssertionError("opened")


async def test_reading_what_is_not_there(sqlite_store: Store) -> None:
    with pytest.raises(StorageError, match="there is no file"):
        async with sqlite_store.sql(read_only=True):
            raise AssertionError("opened")
    sqlite3.connect(path_of(sqlite_store)).close()
    with pytest.raises(StorageError, match="no sessions yet"):
        async with sqlite_store.sql(read_only=True):
            raise AssertionError("opened")


async def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite3"
    path.write_bytes(b"this is no database" * 100)
    with pytest.raises(StorageError, match="cannot open"):
        async with SqlSessionService(str(path)):
            raise AssertionError("opened")
    with pytest.raises(StorageError, match="cannot write"):
        async with SqlSessionService(str(path / "below" / "y.sqlite3")):
            raise AssertionError("opened")


async def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    with pytest.raises(StorageError, match=r"cannot open postgresql\+asyncpg://me:\*\*\*@127\.0\.0\.1:9/none") as raised:
        async with SqlSessionService("postgresql://me:hush@127.0.0.1:9/none"):
            raise AssertionError("opened")
    assert "hush" not in str(raised.value)


async def test_a_missing_driver_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(ConfigurationError, match=r"live-gateway\[postgres\]"):
        async with SqlSessionService(POSTGRES):
            raise AssertionError("opened")


async def test_a_connection_that_died_is_replaced(postgres_store: Store) -> None:
    async with postgres_store.sql(patience=Patience(pause=0.01)) as service:
        session = await service.create(**WHO)
        await read(service, session)
        writer, reader = internals(service)
        pids = [
            await side.run(lambda connection: connection.execute(text("SELECT pg_backend_pid()")).scalar_one()) for side in (writer, reader)
        ]
        async with postgres_store.sql() as killer:
            kill = text("SELECT pg_terminate_backend(pid) FROM unnest(CAST(:pids AS int[])) AS pid")
            await internals(killer)[0].run(lambda connection: connection.execute(kill, {"pids": pids}).all())
        assert (await service.append_event(session, Event(author="u"))).seq == 1
        assert (await read(service, session)).head_seq == 1


# contract: STATE-07
async def test_keys_of_one_shared_row_written_from_several_services_are_all_kept(postgres_store: Store) -> None:
    """Different sessions, so that nothing but the lock on the app's and the user's row keeps the writers apart."""
    count = 40

    async def write(name: str) -> None:
        async with postgres_store.sql() as service:
            session = await service.create(**WHO)
            for n in range(count):
                keys = {f"app:{name}-{n}": n, f"user:{name}-{n}": n, "app:last": name}
                await service.append_event(session, Event(author="u", actions=EventActions(state_delta=keys)))

    async with asyncio.TaskGroup() as group:
        for name in ("a", "b", "c"):
            group.create_task(write(name))
    async with postgres_store.sql() as service:
        state = (await service.create(**WHO)).state
    assert {key for key in state if key != "app:last"} == {
        f"{prefix}{name}-{n}" for prefix in ("app:", "user:") for name in ("a", "b", "c") for n in range(count)
    }


async def test_processes_may_make_the_tables_at_once(postgres_store: Store) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(_open_and_close(postgres_store))


async def _open_and_close(store: Store) -> None:
    async with store.sql() as service:
        await service.list(app_name="app")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite://", "needs a file"),
        (":memory:", "needs a file"),
        ("", "needs a file"),
        ("mysql://host/name", "mysql://"),
        ("postgresql://host/name?schema=Bad-Name", "schema"),
        ("://", "cannot be parsed"),
    ],
)
def test_urls_that_name_no_store(url: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        open_session_service(url)


def test_urls_that_name_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(open_session_service("memory://"), InMemorySessionService)
    monkeypatch.chdir(tmp_path)
    for url in ("a/b.sqlite3", "sqlite:///a/b.sqlite3", f"sqlite:///{tmp_path}/a/b.sqlite3", "sqlite+aiosqlite:///a/b.sqlite3"):
        service = open_session_service(url)
        assert isinstance(service, SqlSessionService)
        assert service._database.path == tmp_path / "a" / "b.sqlite3"
    for url in ("postgresql://me@host/name", "postgres://me@host/name", "postgresql+asyncpg://me@host/name?schema=one"):
        service = open_session_service(url)
        assert isinstance(service, SqlSessionService)
        assert service._database.url.drivername == "postgresql+asyncpg"
        assert service._database.schema == ("one" if "schema" in url else None)
    assert not list(tmp_path.iterdir())
    default = open_session_service()
    assert isinstance(default, SqlSessionService)
    assert str(default._database.path) == default_path()


# Without this, Windows gets a folder of the author's name, which is the application's again, around it.
def test_all_that_is_kept_for_the_user_is_in_one_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    def on_windows(name: str, *, appauthor: str | bool | None = None) -> Path:
        return Path("AppData") / (name if appauthor is None else str(appauthor or "")) / name

    monkeypatch.setattr(platformdirs, "user_data_path", on_windows)
    assert Path(default_path()).parent == unpack_directory().parent == Path("AppData") / "live-gateway"
