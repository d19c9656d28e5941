"""Several processes on one database, and processes that are killed while they write."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from live_gateway.errors import StorageError
from live_gateway.events import Event
from live_gateway.sessions import Session
from tests.support.stores import Store

ROOT = Path(__file__).parents[2]
WORKER = ROOT / "tests" / "support" / "append_worker.py"
ROUNDS = 4


def start(store: Store, name: str, count: int, sessions: Sequence[Session]) -> subprocess.Popen[str]:
    arguments = [sys.executable, str(WORKER), store.url, name, str(count), *(session.id for session in sessions)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={"PYTHONPATH": str(ROOT)})


def acknowledged(output: str) -> list[tuple[str, str, int]]:
    """What the worker said was stored; a line cut by the kill is left out."""
    lines = [line.split() for line in output.split("\n")[:-1]]
    return [(line[0], line[1], int(line[2])) for line in lines if len(line) == 3]


async def check_log(store: Store, session: Session, acks: list[tuple[str, str, int]]) -> Session:
    async with store.sql(read_only=True) as reader:
        found = await reader.get(app_name="app", user_id="u", session_id=session.id)
    assert [event.seq for event in found.events] == list(range(1, found.head_seq + 1))
    stored = {event.id: event.seq for event in found.events}
    assert len(stored) == len(found.events)
    for session_id, event_id, seq in acks:
        assert session_id != session.id or stored[event_id] == seq
    merged: dict[str, object] = {}
    for event in found.events:
        merged.update(event.actions.state_delta)
    own = {key: value for key, value in merged.items() if ":" not in key}
    assert {key: value for key, value in found.state.items() if ":" not in key} == own
    return found


# contract: STATE-07, EVT-04
# case: K-DB-02
async def test_processes_interleave_on_postgresql(postgres_store: Store) -> None:
    async with postgres_store.sql() as service:
        sessions = [await service.create(app_name="app", user_id="u") for _ in range(3)]
        handles = [await service.get(app_name="app", user_id="u", session_id=session.id) for session in sessions]
        names = ["p1", "p2", "p3"]
        workers = [start(postgres_store, name, 40, sessions) for name in names]
        acks = []
        for worker in workers:
            output, errors = worker.communicate(timeout=60)
            assert worker.returncode == 0, errors
            acks += acknowledged(output)
        assert len(acks) == 3 * 3 * 40
        for handle in handles:
            await service.append_event(handle, Event(author="user"))
            found = await check_log(postgres_store, handle, acks)
            assert handle.events == found.events
            assert found.head_seq == 3 * 40 + 1
            for name in names:
                own = [event.id for event in found.events if event.id.startswith(f"{name}-")]
                assert own == [f"{name}-{n}" for n in range(40)]
                assert found.state[f"user:{name}"] == found.state[f"app:{name}"] == 39
                assert [found.state[f"{name}-{k}"] for k in range(7)] == [35, 36, 37, 38, 39, 33, 34]


async def test_a_second_writing_process_on_an_sqlite_file_is_refused(sqlite_store: Store) -> None:
    path = sqlite_store.url.removeprefix("sqlite:///")
    async with sqlite_store.sql() as service:
        session = await service.create(app_name="app", user_id="u")
        _, errors = start(sqlite_store, "p", 1, [session]).communicate(timeout=60)
        assert "StorageError" in errors
        assert path in errors
        with pytest.raises(StorageError, match=f"writes to {path}"):
            async with sqlite_store.sql():
                raise AssertionError("a second writer was let in")
        assert (await service.append_event(session, Event(author="user"))).seq == 1
    output, errors = start(sqlite_store, "p", 1, [session]).communicate(timeout=60)
    assert acknowledged(output) == [(session.id, "p-0", 2)], errors


# contract: STATE-07
async def test_what_was_acknowledged_survives_kill_9(database: Store) -> None:
    async with database.sql() as service:
        sessions = [await service.create(app_name="app", user_id="u") for _ in range(4)]
    acks: list[tuple[str, str, int]] = []
    for n in range(ROUNDS):
        worker = start(database, f"w{n}", 0, sessions)
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        time.sleep(0.02 + 0.05 * n)  # noqa: ASYNC251 - the instant of the kill is the point; nothing waits for it
        worker.kill()
        round_acks = acknowledged(worker.communicate(timeout=30)[0])
        assert round_acks or n == 0
        acks += round_acks
    heads = [(await check_log(database, session, acks)).head_seq for session in sessions]
    assert sum(heads) >= len(acks)
    assert sum(heads) <= len(acks) + ROUNDS * len(sessions)
    async with database.sql() as service:
        handle = await service.get(app_name="app", user_id="u", session_id=sessions[0].id)
        assert (await service.append_event(handle, Event(author="user"))).seq == heads[0] + 1
