"""Several processes on one database, and processes that are killed while they write."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from live_gateway.errors import StorageError
from live_gateway.events import Event
from live_gateway.sessions import Session
from tests.support.append_worker import Ack, Worker
from tests.support.stores import Store

KILLS = 10


def own_keys(state: object) -> dict[str, object]:
    assert hasattr(state, "items")
    return {key: value for key, value in state.items() if ":" not in key}


async def check_log(store: Store, session: Session, acks: Sequence[Ack]) -> Session:
    """What is acknowledged is there, once and where it was said to be; no holes; the state is what the deltas make it."""
    async with store.sql(read_only=True) as reader:
        found = await reader.get(app_name="app", user_id="u", session_id=session.id)
    assert [event.seq for event in found.events] == list(range(1, found.head_seq + 1))
    stored = {event.id: event.seq for event in found.events}
    assert len(stored) == len(found.events)
    own = {event_id: seq for session_id, event_id, seq in acks if session_id == session.id}
    assert {event_id: stored.get(event_id) for event_id in own} == own
    merged: dict[str, object] = {}
    for event in found.events:
        merged.update(event.actions.state_delta)
    assert own_keys(found.state) == own_keys(merged)
    return found


# contract: STATE-07, EVT-04
# case: K-DB-02
async def test_processes_interleave_on_postgresql(postgres_store: Store) -> None:
    names = ["p1", "p2", "p3"]
    async with postgres_store.sql() as service:
        sessions = [await service.create(app_name="app", user_id="u") for _ in range(3)]
        handles = [await service.get(app_name="app", user_id="u", session_id=session.id) for session in sessions]
        workers = [Worker(postgres_store.url, name, 40, sessions) for name in names]
        assert [worker.wait_until_open() for worker in workers] == ["ready"] * 3
        for worker in workers:
            worker.go()
        acks = [ack for worker in workers for ack in worker.acks()]
        assert len(acks) == 3 * 3 * 40
        for handle in handles:
            await service.append_event(handle, Event(author="user"))
            found = await check_log(postgres_store, handle, acks)
            assert handle.events == found.events
            assert found.head_seq == 3 * 40 + 1
            for name in names:
                assert [event.id for event in found.events if event.id.startswith(f"{name}-")] == [f"{name}-{n}" for n in range(40)]
                assert found.state[f"user:{name}"] == found.state[f"app:{name}"] == 39
                assert [found.state[f"{name}-{k}"] for k in range(7)] == [35, 36, 37, 38, 39, 33, 34]
        orders = [event.id.split("-")[0] for event in handles[0].events]
        assert orders != sorted(orders), "the processes ran one after the other; this proves nothing"


async def test_a_second_writing_process_on_an_sqlite_file_is_refused(sqlite_store: Store) -> None:
    path = sqlite_store.url.removeprefix("sqlite:///")
    async with sqlite_store.sql() as service:
        session = await service.create(app_name="app", user_id="u")
        second = Worker(sqlite_store.url, "p", 1, [session])
        answer = second.wait_until_open()
        assert answer.startswith("StorageError")
        assert path in answer
        assert second.acks() == []
        with pytest.raises(StorageError, match=f"writes to {path}"):
            async with sqlite_store.sql():
                raise AssertionError("a second writer was let in")
        assert (await service.append_event(session, Event(author="user"))).seq == 1
    third = Worker(sqlite_store.url, "p", 1, [session])
    assert third.wait_until_open() == "ready"
    third.go()
    assert third.acks() == [(session.id, "p-0", 2)]


# contract: STATE-07
async def test_what_was_acknowledged_survives_kill_9(database: Store) -> None:
    async with database.sql() as service:
        sessions = [await service.create(app_name="app", user_id="u") for _ in range(4)]
    acks: list[Ack] = []
    for n in range(KILLS):
        worker = Worker(database.url, f"w{n}", None, sessions)
        assert worker.wait_until_open() == "ready"
        worker.go()
        time.sleep(0.005 + 0.017 * n)  # noqa: ASYNC251 - the instant of the kill is the point; nothing waits for it
        worker.kill()
        acks += worker.acks()
    assert len(acks) > KILLS
    heads = [(await check_log(database, session, acks)).head_seq for session in sessions]
    assert len(acks) <= sum(heads) <= len(acks) + KILLS * len(sessions)
    async with database.sql() as service:
        handle = await service.get(app_name="app", user_id="u", session_id=sessions[0].id)
        assert (await service.append_event(handle, Event(author="user"))).seq == heads[0] + 1
