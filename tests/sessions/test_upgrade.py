"""A store of an older schema is refused with the command to run, and after that command it is what it was, in the new schema."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect, text

from live_gateway.cli.main import main
from live_gateway.errors import ConfigurationError, StorageError
from live_gateway.events import Event, EventActions, encode_event
from live_gateway.sessions.engine import Transactions, parse_database_url
from live_gateway.sessions.schema import SCHEMA_VERSION, lock_schema, metadata
from live_gateway.sessions.upgrade import Upgraded, upgrade
from tests.support.stores import Store

WHO: dict[str, Any] = {"app_name": "app", "user_id": "u", "session_id": "s"}
VERSION_0 = """
CREATE TABLE sessions (key {key}, app_name TEXT NOT NULL, user_id TEXT NOT NULL, id TEXT NOT NULL, head_seq BIGINT NOT NULL,
    state TEXT NOT NULL, create_time {double} NOT NULL, update_time {double} NOT NULL, UNIQUE (app_name, user_id, id));
CREATE TABLE events (session_key {ref} NOT NULL REFERENCES sessions (key) ON DELETE CASCADE, seq BIGINT NOT NULL, id TEXT NOT NULL,
    invocation_id TEXT NOT NULL, author TEXT NOT NULL, timestamp {double} NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (session_key, seq), UNIQUE (session_key, id));
CREATE TABLE app_states (app_name TEXT PRIMARY KEY, state TEXT NOT NULL);
CREATE TABLE user_states (app_name TEXT NOT NULL, user_id TEXT NOT NULL, state TEXT NOT NULL, PRIMARY KEY (app_name, user_id));
CREATE TABLE schema_version (version INTEGER PRIMARY KEY);
INSERT INTO schema_version VALUES (1);
INSERT INTO sessions (app_name, user_id, id, head_seq, state, create_time, update_time) VALUES ('app', 'u', 's', 1, '{{"k":1}}', 1, 2);
INSERT INTO user_states VALUES ('app', 'u', '{{"name":"Foo"}}')
"""
"""The schema as the builds before migrations made it, written down by hand, with a session of one event."""
TYPES = {
    "sqlite": {"key": "INTEGER PRIMARY KEY", "double": "DOUBLE", "ref": "INTEGER"},
    "postgresql": {"key": "BIGSERIAL PRIMARY KEY", "double": "DOUBLE PRECISION", "ref": "BIGINT"},
}
EVENT = Event(author="u", id="one", timestamp=2.0, actions=EventActions(state_delta={"k": 1}))


@asynccontextmanager
async def raw(store: Store) -> AsyncIterator[Transactions]:
    database = parse_database_url(store.url)
    transactions = database.writer(5.0)
    await transactions.run(lambda connection: lock_schema(connection, database.schema))
    yield transactions
    await transactions.close()


async def make_version_0(store: Store) -> None:
    def make(connection: Connection) -> None:
        for statement in VERSION_0.format(**TYPES[store.kind]).split(";"):
            connection.exec_driver_sql(statement)
        insert = "INSERT INTO events SELECT key, 1, 'one', '', 'u', 2, :body FROM sessions"
        connection.execute(text(insert), {"body": encode_event(EVENT).decode()})

    async with raw(store) as transactions:
        await transactions.run(make)


async def tables(store: Store) -> list[str]:
    async with raw(store) as transactions:
        return await transactions.run(lambda connection: inspect(connection).get_table_names())


# contract: SES-01
async def test_an_older_store_is_refused_with_the_command_and_keeps_its_data(database: Store) -> None:
    await make_version_0(database)
    for read_only in (False, True):
        with pytest.raises(StorageError, match=r"schema version 0, this program knows version 1.*'live-gateway db upgrade'"):
            async with database.sql(read_only=read_only):
                raise AssertionError("opened")
    done = await upgrade(database.url)
    assert (done.before, done.now) == (0, SCHEMA_VERSION)
    async with database.sql() as service:
        session = await service.get(**WHO)
        assert [(event.id, event.seq, event.actions.state_delta) for event in session.events] == [("one", 1, {"k": 1})]
        assert dict(session.state) == {"k": 1, "user:name": "Foo"}
        stored = await service.append_event(session, Event(author="u", actions=EventActions(state_delta={"user:name": "Bar"})))
        assert (stored.seq, (await service.get(**WHO)).state["user:name"]) == (2, "Bar")
    assert await upgrade(database.url) == Upgraded(done.where, SCHEMA_VERSION, SCHEMA_VERSION)


async def test_the_scripts_make_the_tables_that_the_program_uses(database: Store) -> None:
    if database.kind == "sqlite":
        Path(database.url.removeprefix("sqlite:///")).touch()
    assert (await upgrade(database.url)).before is None
    async with raw(database) as transactions:
        differences = await transactions.run(lambda connection: compare_metadata(MigrationContext.configure(connection), metadata))
        constraints = await transactions.run(unique)
    assert differences == []
    async with database.sql() as service:
        await service.create(**WHO)
    assert constraints == [["app_name", "user_id", "id"], ["session_key", "id"]]


def unique(connection: Connection) -> list[list[str]]:
    found = inspect(connection)
    return [found.get_unique_constraints(table)[0]["column_names"] for table in ("sessions", "events")]


async def test_an_upgrade_that_fails_changes_nothing(database: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await make_version_0(database)
    before = await tables(database)
    original = command.upgrade

    def failing(*arguments: Any) -> None:
        original(*arguments)
        raise OSError("no space left")

    monkeypatch.setattr(command, "upgrade", failing)
    with pytest.raises(StorageError, match="is as it was"):
        await upgrade(database.url)
    monkeypatch.undo()
    assert await tables(database) == before
    assert (await upgrade(database.url)).before == 0


async def test_what_cannot_be_upgraded(sqlite_store: Store) -> None:
    with pytest.raises(ConfigurationError, match="memory"):
        await upgrade("memory://")
    with pytest.raises(StorageError, match="there is no file"):
        await upgrade(sqlite_store.url)
    async with sqlite_store.sql():
        with pytest.raises(StorageError, match="has one writer"):
            await upgrade(sqlite_store.url)
    async with raw(sqlite_store) as transactions:
        await transactions.run(lambda connection: connection.exec_driver_sql("UPDATE alembic_version SET version_num = '7'"))
    with pytest.raises(StorageError, match=r"schema version 7.*newer live-gateway"):
        await upgrade(sqlite_store.url)


async def test_the_tables_of_another_program_are_not_upgraded(sqlite_store: Store) -> None:
    async with raw(sqlite_store) as transactions:
        await transactions.run(lambda connection: connection.exec_driver_sql("CREATE TABLE events (x)"))
    with pytest.raises(StorageError, match="another program"):
        await upgrade(sqlite_store.url)
    assert await tables(sqlite_store) == ["events"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kept.sqlite3"
    assert main(["db", "upgrade", "--store", f"sqlite:///{path}"]) == 2
    assert "there is no file" in capsys.readouterr().err
    path.touch()
    assert main(["db", "upgrade", "--store", str(path)]) == 0
    assert capsys.readouterr().out == f"{path} was empty and now has schema version {SCHEMA_VERSION}.\n"
    monkeypatch.setenv("LIVE_GATEWAY_STORE", str(path))
    assert main(["db", "upgrade"]) == 0
    assert "Nothing was changed" in capsys.readouterr().out


async def test_the_command_on_an_older_store(sqlite_store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    await make_version_0(sqlite_store)
    assert await asyncio.to_thread(main, ["db", "upgrade", "--store", sqlite_store.url]) == 0
    assert f"was upgraded from schema version 0 to {SCHEMA_VERSION}" in capsys.readouterr().out
