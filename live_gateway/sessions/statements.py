"""Statements that are carried out once for every event, by the shortest way."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Executable
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.expression import ClauseElement


def execute(
    connection: Connection, statement: Executable, parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]]
) -> Iterable[Sequence[Any]]:
    """The rows of a statement, as tuples.

    On SQLite it goes straight to the driver, since SQLAlchemy takes longer over such a statement than SQLite itself: a third of the CPU of
    an append is what is left. Only for statements that live as long as the program, with values that need no conversion. Errors are
    SQLAlchemy's on either way.
    """
    if connection.dialect.name != "sqlite":
        return connection.execute(statement, parameters)
    driver = connection.connection.driver_connection
    if not isinstance(driver, sqlite3.Connection):
        raise TypeError(f"SQLite is driven by sqlite3, not by {type(driver).__name__}")
    text = _sqlite_text(statement)
    try:
        return driver.execute(text, parameters) if isinstance(parameters, Mapping) else driver.executemany(text, parameters)
    except sqlite3.Error as error:
        raise DBAPIError.instance(text, None, error, sqlite3.Error, hide_parameters=True) from error


@cache
def _sqlite_text(statement: Executable) -> str:
    if not isinstance(statement, ClauseElement):
        raise TypeError(f"{type(statement).__name__} is no statement")
    return str(statement.compile(dialect=sqlite.dialect(paramstyle="named")))
