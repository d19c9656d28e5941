"""The tables of the SQL store, and the check that a database has them in the version this program knows.

Conversation data lives in four tables. A state row is one JSON document with bare keys; the history of a key is in the events' deltas.
`alembic_version` holds one number and nothing else. How a store of an older version becomes one of this is in `migrations`.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Integer,
    MetaData,
    String,
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
FIRST_VERSION = 0
"""The version before there were migrations; it is known by a table `schema_version`."""
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

alembic_version = Table("alembic_version", metadata, Column("version_num", String(32), primary_key=True))

_ADVISORY_LOCK = 0x6C697665  # any fixed number: several processes may start on an empty database at once


def prepare_schema(connection: Connection, where: str, schema: str | None) -> None:
    """Make the tables in an empty database, or check those that are there. `schema`: a PostgreSQL schema to make too.

    Raises `StorageError` naming `where` (no password in it).
    """
    lock_schema(connection, schema)
    version = version_of(connection)
    if version is not None:
        _check(version, where)
        return
    check_no_strangers(connection, where)
    metadata.create_all(connection)
    connection.execute(insert(alembic_version).values(version_num=str(SCHEMA_VERSION)))


def check_version(connection: Connection, where: str) -> None:
    """Raise `StorageError` unless the database has exactly the version that this program knows."""
    version = version_of(connection)
    if version is None:
        raise StorageError(f"{where} holds no sessions yet; open it for writing first")
    _check(version, where)


def lock_schema(connection: Connection, schema: str | None) -> None:
    """Keep other processes from changing the schema until the transaction ends. `schema`: a PostgreSQL schema to make if it is missing."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _ADVISORY_LOCK})
        if schema is not None:
            connection.execute(CreateSchema(schema, if_not_exists=True))


def version_of(connection: Connection) -> int | None:
    """The version of the tables in this database; None if it has none of ours."""
    found = inspect(connection).get_table_names()
    if "alembic_version" in found:
        number = connection.execute(select(alembic_version.c.version_num)).scalar_one_or_none() or ""
        return int(number) if number.isdecimal() else None
    return FIRST_VERSION if "schema_version" in found else None


def check_no_strangers(connection: Connection, where: str) -> None:
    """Raise `StorageError` if there are tables of our names that are not ours."""
    if strangers := sorted(set(inspect(connection).get_table_names()).intersection(metadata.tables)):
        raise StorageError(f"{where} has a table {strangers[0]!r} of another program; give the gateway a database or schema of its own")


def too_new(where: str, version: int) -> str:
    """What to say about a store of a later version."""
    return f"{_known(where, version)}; install a newer live-gateway ({UPGRADE_COMMAND!r} only goes forward)"


def _check(version: int, where: str) -> None:
    if version > SCHEMA_VERSION:
        raise StorageError(too_new(where, version))
    if version < SCHEMA_VERSION:
        raise StorageError(f"{_known(where, version)}; stop what writes to it, make a copy, then run {UPGRADE_COMMAND!r}")


def _known(where: str, version: int) -> str:
    return f"{where} has schema version {version}, this program knows version {SCHEMA_VERSION}"
