"""What storing costs: appends a second with one writer and with twenty, against one commit per event; opening a session by its length."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.table import show, spread
from live_gateway.content import user_content
from live_gateway.events import Event
from live_gateway.sessions.base import SessionService
from live_gateway.sessions.memory import InMemorySessionService
from live_gateway.sessions.sql import SqlSessionService

EVENTS = 1_000
ROUNDS = 3
LENGTHS = (10, 100, 1_000, 5_000)


def main() -> None:
    """Print both tables."""
    asyncio.run(_appends())
    asyncio.run(_openings())


@asynccontextmanager
async def _memory() -> AsyncIterator[SessionService]:
    yield InMemorySessionService()


@asynccontextmanager
async def _sqlite() -> AsyncIterator[SessionService]:
    with tempfile.TemporaryDirectory() as directory:
        async with SqlSessionService(f"sqlite:///{Path(directory) / 'bench.sqlite3'}") as service:
            yield service


STORES = {"memory": _memory, "sqlite": _sqlite}


async def _appends() -> None:
    rows = []
    for name, opened in STORES.items():
        single: list[float] = []
        many: list[float] = []
        for _ in range(ROUNDS):
            async with opened() as service:
                single.append(await _rate(service, writers=1))
                many.append(await _rate(service, writers=20))
        ratio = statistics.median(many) / statistics.median(single)
        rows.append([name, spread(single, 0), spread(many, 0), f"{ratio:.1f}"])
    show(["appends a second", "one session, one commit each", "20 sessions at once", "ratio"], rows)


async def _rate(service: SessionService, writers: int) -> float:
    sessions = [await service.create(app_name="bench", user_id="u") for _ in range(writers)]
    count = EVENTS // writers

    async def write(number: int) -> None:
        for index in range(count):
            await service.append_event(sessions[number], Event(author="user", content=user_content(f"message {index}")))

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(writers):
            group.create_task(write(number))
    return count * writers / (time.perf_counter() - began)


async def _openings() -> None:
    rows = []
    for name, opened in STORES.items():
        cells = [name]
        async with opened() as service:
            session = await service.create(app_name="bench", user_id="u", session_id="long")
            for length in LENGTHS:
                while session.head_seq < length:
                    await service.append_event(session, Event(author="user", content=user_content("a message of some words")))
                cells.append(spread([await _opening(service) for _ in range(5)], 2))
        rows.append(cells)
    show(["opening a session, ms", *(f"{length} events" for length in LENGTHS)], rows)


async def _opening(service: SessionService) -> float:
    began = time.perf_counter()
    await service.get(app_name="bench", user_id="u", session_id="long")
    return (time.perf_counter() - began) * 1000
