"""Processes that append to sessions until they are done or killed. They come from a fork server, so that starting one is cheap."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from live_gateway.events import Event, EventActions
from live_gateway.sessions import Session
from live_gateway.sessions.sql import SqlSessionService

Ack = tuple[str, str, int]
"""Session id, event id, number."""


class Worker:
    """A process that appends to each session at once. `count`: appends per session, None for no end. It says what was acknowledged."""

    def __init__(self, url: str, name: str, count: int | None, sessions: Sequence[Session]) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        self._acks, theirs = context.Pipe()
        self._process = context.Process(target=_run, args=(url, name, count, [session.id for session in sessions], theirs), daemon=True)
        self._process.start()
        theirs.close()

    def wait_until_open(self) -> Any:
        """The worker's first word: `ready`, or why it could not open the store."""
        assert self._acks.poll(30), "the worker did not come up"
        return self._acks.recv()

    def go(self) -> None:
        """Let it append."""
        self._acks.send("go")

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()

    def acks(self) -> list[Ack]:
        """What was acknowledged until the process ended."""
        found: list[Ack] = []
        try:
            while self._acks.poll(30):
                found.append(self._acks.recv())
        except (EOFError, OSError):  # the end, or a message cut by the kill
            pass
        self._process.join(30)
        self._acks.close()
        self._process.close()
        return found


def _run(url: str, name: str, count: int | None, session_ids: list[str], out: Connection) -> None:
    try:
        asyncio.run(_append(url, name, count, session_ids, out))
    finally:
        out.close()


async def _append(url: str, name: str, count: int | None, session_ids: list[str], out: Connection) -> None:
    service = SqlSessionService(url)
    try:
        await service.__aenter__()
    except Exception as error:
        out.send(f"{type(error).__name__}: {error}")
        return

    async def append(session: Session) -> None:
        for n in itertools.count() if count is None else range(count):
            keys = {f"{name}-{n % 7}": n, f"user:{name}": n, f"app:{name}": n}
            event = Event(author="user", id=f"{name}-{n}", actions=EventActions(state_delta=keys))
            stored = await service.append_event(session, event)
            out.send((session.id, stored.id, stored.seq))

    handles = [await service.get(app_name="app", user_id="u", session_id=session_id) for session_id in session_ids]
    out.send("ready")
    await asyncio.to_thread(out.recv)
    async with asyncio.TaskGroup() as group:
        for handle in handles:
            group.create_task(append(handle))
    await service.__aexit__(None, None, None)
