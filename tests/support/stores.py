"""The stores that session tests run on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from live_gateway.sessions.sql import SqlSessionService

POSTGRES = os.environ.get("LIVE_GATEWAY_TEST_POSTGRES", "postgresql+asyncpg://root@127.0.0.1:5432/test")


@dataclass(frozen=True)
class Store:
    """A store under test: where it is, and more services on the same data."""

    kind: Literal["memory", "sqlite", "postgresql"]
    url: str

    def sql(self, **options: Any) -> SqlSessionService:
        return SqlSessionService(self.url, **options)


async def on_postgres(statement: str) -> None:
    """Run one statement on the test server."""
    engine = create_async_engine(POSTGRES, connect_args={"timeout": 3})
    try:
        async with engine.begin() as connection:
            await connection.execute(text(statement))
    finally:
        await engine.dispose()
