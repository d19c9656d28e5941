"""The queue of writes: its bounds, its deadlines, and what those who wait hear. In virtual time, on a database that only pretends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection

from live_gateway.errors import StorageError
from live_gateway.sessions.batch import Delete
from live_gateway.sessions.commit import CommitQueue, Patience

pytestmark = pytest.mark.virtual_time
T = TypeVar("T")


class Pretender:
    """A database that takes `takes` seconds for each transaction and does nothing."""

    def __init__(self, takes: float) -> None:
        self.takes = takes
        self.begun = 0

    async def run(self, work: Callable[[Connection], T]) -> T:
        self.begun += 1
        await asyncio.sleep(self.takes)
        return work(Deaf())  # type: ignore[arg-type]

    async def close(self) -> None:
        return None


class Deaf:
    """A connection on which every statement succeeds."""

    def execute(self, *_: Any) -> None:
        return None


def now() -> float:
    return asyncio.get_running_loop().time()


def work(n: int) -> Delete:
    return Delete(("app", "u", str(n)))


async def outcome(queue: CommitQueue, n: int) -> tuple[str, Any]:
    """What the caller heard, and after how many seconds."""
    begin = now()
    try:
        await queue.submit(work(n))
    except StorageError as error:
        return str(error), now() - begin
    return "done", now() - begin


async def test_three_attempts_of_two_seconds() -> None:
    database = Pretender(takes=3600)
    queue = CommitQueue(database, "the store", Patience())
    async with asyncio.TaskGroup() as group:
        runner = group.create_task(queue.run())
        words, waited = await outcome(queue, 1)
        assert words == "the store did not take the change; it can be tried again later"
        assert waited == pytest.approx(3 * 2.0 + 0.1 + 0.2)
        assert database.begun == 3
        database.takes = 0.5
        assert await outcome(queue, 2) == ("done", pytest.approx(0.5))
        queue.close()
        await runner


async def test_work_that_waited_too_long_for_its_turn_is_not_begun() -> None:
    database = Pretender(takes=3600)
    queue = CommitQueue(database, "the store", Patience())
    async with asyncio.TaskGroup() as group:
        runner = group.create_task(queue.run())
        first = group.create_task(outcome(queue, 1))
        await asyncio.sleep(0.1)
        second = group.create_task(outcome(queue, 2))
        await second
        assert first.result()[0] == "the store did not take the change; it can be tried again later"
        assert "too slow; nothing was written" in second.result()[0]
        assert database.begun == 3
        queue.close()
        await runner


async def test_a_full_queue_waits_and_then_refuses() -> None:
    database = Pretender(takes=1.9)
    queue = CommitQueue(database, "the store", Patience(), capacity=2, largest=1)
    async with asyncio.TaskGroup() as group:
        runner = group.create_task(queue.run())
        tasks = [group.create_task(outcome(queue, n)) for n in range(8)]
        results = [await task for task in tasks]
        queue.close()
        await runner
    words = [result[0] for result in results]
    assert words.count("done") >= 3
    assert any("too many writes are waiting" in one for one in words)
    assert max(waited for _, waited in results) <= 2 * Patience().queued + 0.1


async def test_what_is_cancelled_before_its_turn_is_never_done() -> None:
    database = Pretender(takes=1.0)
    queue = CommitQueue(database, "the store", Patience())
    async with asyncio.TaskGroup() as group:
        runner = group.create_task(queue.run())
        first = group.create_task(outcome(queue, 1))
        await asyncio.sleep(0.5)
        second = group.create_task(outcome(queue, 2))
        await asyncio.sleep(0.1)
        second.cancel()
        assert await first == ("done", pytest.approx(1.0))
        queue.close()
        await runner
    assert second.cancelled()
    assert database.begun == 1


async def test_a_writer_that_is_cancelled_leaves_nobody_waiting() -> None:
    database = Pretender(takes=3600)
    queue = CommitQueue(database, "the store", Patience())
    async with asyncio.TaskGroup() as group:
        runner = group.create_task(queue.run())
        tasks = [group.create_task(outcome(queue, n)) for n in range(3)]
        await asyncio.sleep(0.1)
        runner.cancel()
        for task in tasks:
            assert "was closed before" in (await task)[0]
        assert "is closed" in (await outcome(queue, 9))[0]
