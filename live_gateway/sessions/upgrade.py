"""Brings a store to the schema of this program: `live-gateway db upgrade`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

from live_gateway.errors import ConfigurationError, GatewayError, StorageError
from live_gateway.sessions import migrations
from live_gateway.sessions.engine import Database, parse_database_url
from live_gateway.sessions.schema import FIRST_VERSION, SCHEMA_VERSION, check_no_strangers, lock_schema, too_new, version_of

DEADLINE = 600.0
"""Seconds that an upgrade may take; it may have to rewrite every event."""


@dataclass(frozen=True, slots=True)
class Upgraded:
    """What an upgrade did. where: the store, without a password. before: its version, None for an empty database. now: what it has."""

    where: str
    before: int | None
    now: int


async def upgrade(url: str) -> Upgraded:
    """Bring the store to the newest version, in one transaction: all of it or nothing. An empty database gets its tables.

    Nobody else may write meanwhile: an SQLite file is locked, and a server that writes to it has to be stopped first; servers on PostgreSQL
    wait. Raises `ConfigurationError` for a URL of no database, `StorageError` when the store is not there or cannot be reached, is in use,
    belongs to another program, or is newer than this program.
    """
    if url == "memory://":
        raise ConfigurationError("sessions in memory have no schema to upgrade")
    database = parse_database_url(url)
    try:
        if database.path is not None and not await asyncio.to_thread(database.path.exists):
            raise StorageError(f"there is no file {database.where}")
        await asyncio.to_thread(database.lock_for_writing)
        writer = database.writer(DEADLINE)
        try:
            async with asyncio.timeout(DEADLINE):
                return await writer.run(lambda connection: _upgrade(connection, database))
        finally:
            await writer.close()
    except GatewayError:
        raise
    except Exception as error:  # the edge to foreign drivers and scripts: whatever one raises, nothing was changed
        raise StorageError(f"{database.where} was not upgraded and is as it was ({type(error).__name__})") from error
    finally:
        await asyncio.to_thread(database.unlock)


def _upgrade(connection: Connection, database: Database) -> Upgraded:
    lock_schema(connection, database.schema)
    before = version_of(connection)
    if before is None:
        check_no_strangers(connection, database.where)
    elif before > SCHEMA_VERSION:
        raise StorageError(too_new(database.where, before))
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(Path(migrations.__file__).parent).replace("%", "%%"))
    if before == FIRST_VERSION:
        command.stamp(config, str(FIRST_VERSION))
    command.upgrade(config, str(SCHEMA_VERSION))
    return Upgraded(database.where, before, SCHEMA_VERSION)
