"""The tables of the SQL store, and the check that a database has them in the version this program knows.

Conversation data lives in four tables. A state row is one JSON document with bare keys; the history of a key is in the events' deltas.
`schema_version` holds one number and nothing else.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    insert,
    inspect,
    select,
    text,
)
from sqlalchemy.engine import Connection
from sqlalchemy.schema import CreateSchema

from live_gateway.errors import StorageError

SCHEMA_VERSION = 1
UPGRADE_COMMAND = "live-gateway db upgrade"

metadata = MetaData()
_BigKey = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows by itself only in a column of type INTEGER

sessions = Table(
    "sessions",
    metadata,
    Column("key", _BigKey, primary_key=True, autoincrement=True),
    Column("app_name", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("head_seq", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("create_time", Double, nullable=False),
    Column("update_time", Double, nullable=False),
    UniqueConstraint("app_name", "user_id", "id"),
)

events = Table(
    "events",
    metadata,
    Column("session_key", _BigKey, ForeignKey("sessions.key", ondelete="CASCADE"), primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False),
    Column("invocation_id", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("timestamp", Double, nullable=False),
    Column("body", Text, nullable=False),
    UniqueConstraint("session_key", "id"),
)

app_states = Table(
    "app_states",
    metadata,
    Column("app_name", Text, primary_key=True),
    Column("state", Text, nullable=False),
)

user_states = Table(
    "user_states",
    metadata,
    Column("app_name", Text, primary_key=True),
    Column("user_id", Text, primary_key=True),
    Column("state", Text, nullable=False),
)

schema_version = Table("schema_version", metadata, Column("version", Integer, primary_key=True, autoincrement=False))

_ADVISORY_LOCK = 0x6C697665  # any fixed number: several processes may start on an empty database at once


def prepare_schema(connection: Connection, where: str, schema: str | None) -> None:
    """Make the tables in an empty database, or check those that are there. `schema`: a PostgreSQL schema to make too.

    Raises `StorageError` naming `where` (no password in it).
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _ADVISORY_LOCK})
        if schema is not None:
            connection.execute(CreateSchema(schema, if_not_exists=True))
    found = set(inspect(connection).get_table_names())
    if "schema_version" in found:
        check_version(connection, where)
        return
    if strangers := sorted(found.intersection(metadata.tables)):
        raise StorageError(f"{where} has a table {strangers[0]!r} of another program; give the gateway a database or schema of its own")
    metadata.create_all(connection)
    connection.execute(insert(schema_version).values(version=SCHEMA_VERSION))


def check_version(connection: Connection, where: str) -> None:
    """Raise `StorageError` unless the database has exactly the version that this program knows."""
    if "schema_version" not in inspect(connection).get_table_names():
        raise StorageError(f"{where} holds no sessions yet; open it for writing first")
    version = connection.execute(select(schema_version.c.version)).scalar_one_or_none()
    if version == SCHEMA_VERSION:
        return
    known = f"{where} has schema version {version}, this program knows version {SCHEMA_VERSION}"
    if version is not None and version > SCHEMA_VERSION:
        raise StorageError(f"{known}; install a newer live-gateway ({UPGRADE_COMMAND!r} only goes forward)")
    raise StorageError(f"{known}; make a copy of it, then run {UPGRADE_COMMAND!r}")
