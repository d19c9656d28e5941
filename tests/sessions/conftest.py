"""The three stores that every session test runs on. PostgreSQL: a schema of its own for each test, dropped afterwards."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from live_gateway.sessions import InMemorySessionService, SessionService, open_session_service
from live_gateway.sessions.sql import SqlSessionService
from tests.support.stores import POSTGRES, Store, on_postgres


@pytest.fixture(scope="session")
def postgres_problem() -> str | None:
    """Why PostgreSQL cannot be used here; None when it can."""
    try:
        asyncio.run(on_postgres("SELECT 1"))
    except Exception as error:
        return f"PostgreSQL is not reachable ({type(error).__name__}); set LIVE_GATEWAY_TEST_POSTGRES"
    return None


@pytest.fixture
def postgres_store(postgres_problem: str | None) -> Iterator[Store]:
    if postgres_problem is not None:
        pytest.skip(postgres_problem)
    schema = f"lg_test_{uuid.uuid4().hex[:12]}"
    yield Store("postgresql", f"{POSTGRES}?schema={schema}")
    asyncio.run(on_postgres(f"DROP SCHEMA IF EXISTS {schema} CASCADE"))


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Store:
    return Store("sqlite", f"sqlite:///{tmp_path / 'sessions.sqlite3'}")


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store(request: pytest.FixtureRequest) -> Store:
    if request.param == "memory":
        return Store("memory", "memory://")
    found: Store = request.getfixturevalue("sqlite_store" if request.param == "sqlite" else "postgres_store")
    return found


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Store:
    found: Store = request.getfixturevalue("sqlite_store" if request.param == "sqlite" else "postgres_store")
    return found


@pytest.fixture
async def service(store: Store) -> AsyncIterator[SessionService]:
    async with open_session_service(store.url) as opened:
        assert isinstance(opened, InMemorySessionService if store.kind == "memory" else SqlSessionService)
        yield opened
