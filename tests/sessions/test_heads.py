"""What the only writer of a file knows without reading is what a read would give."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection

from live_gateway.errors import SessionNotFound, StorageError
from live_gateway.events import Event, EventActions
from live_gateway.sessions.base import Session
from live_gateway.sessions.commit import Patience
from live_gateway.sessions.engine import Transactions
from live_gateway.sessions.heads import Heads
from live_gateway.sessions.sql import SqlSessionService
from live_gateway.sessions.state import merge_state
from tests.support.stores import Store

T = TypeVar("T")
WHO: dict[str, Any] = {"app_name": "app", "user_id": "u", "session_id": "s"}
KEY = ("app", "u", "s")


class Counted:
    """Counts the visits to a database; the next ones fail after their work was committed, or before it began."""

    def __init__(self, inner: Transactions) -> None:
        self._inner = inner
        self.visits = 0
        self.lost_answers = 0

    async def run(self, work: Callable[[Connection], T]) -> T:
        self.visits += 1
        result = await self._inner.run(work)
        if self.lost_answers:
            self.lost_answers -= 1
            raise ConnectionResetError
        return result

    async def close(self) -> None:
        await self._inner.close()


def count_reads(service: SqlSessionService) -> Counted:
    assert service._reader is not None
    service._reader = counted = Counted(service._reader)
    return counted


def said(**delta: Any) -> Event:
    return Event(author="u", actions=EventActions(state_delta=delta))


async def newest(service: SqlSessionService, session: Session) -> Session:
    return await service.get(app_name=session.app_name, user_id=session.user_id, session_id=session.id, after_seq=session.head_seq - 1)


# contract: SES-02
async def test_what_is_new_is_known_without_a_read_once_the_session_was_read(sqlite_store: Store) -> None:
    async with sqlite_store.sql() as service:
        await service.append_event(await service.create(**WHO), said(a=1))
        session = await service.get(**WHO)
        counted = count_reads(service)
        for number in range(3):
            stored = await service.append_event(session, said(b=number))
            assert (await newest(service, session)).events == [stored]
        assert await newest(service, session) == await service.get(**WHO, after_seq=session.head_seq - 1, after=0.0)
        assert counted.visits == 1, "only the last one, which asks for a time too"


async def test_what_is_known_is_what_a_read_gives_whatever_was_written(sqlite_store: Store) -> None:
    chance = random.Random(7)
    names = ["one", "two", "three"]
    async with sqlite_store.sql() as service, sqlite_store.sql(read_only=True) as other:
        handles: list[Session] = []
        for _ in range(300):
            name, user = chance.choice(names), chance.choice("uv")
            who: dict[str, Any] = {"app_name": "app", "user_id": user, "session_id": name}
            try:
                handle = await service.get(**who)
            except SessionNotFound:
                handle = await service.create(**who, state={"app:made": name} if chance.random() < 0.3 else None)
            handles = [*handles[-5:], handle]
            for used in chance.sample(handles, min(3, len(handles))):
                key = chance.choice(["k", "user:k", "app:k", "temp:k", "l"])
                try:
                    await service.append_event(used, said(**{key: chance.random()}) if chance.random() < 0.7 else said())
                except SessionNotFound:
                    continue
            if chance.random() < 0.1:
                await service.delete(**who)
            for seen in handles:
                await same(service, other, seen)


async def same(service: SqlSessionService, other: SqlSessionService, session: Session) -> None:
    try:
        read: Session | None = await newest(other, session)
    except SessionNotFound:
        read = None
    if read is None:
        with pytest.raises(SessionNotFound):
            await newest(service, session)
    else:
        assert await newest(service, session) == read


async def test_after_a_lost_answer_nothing_is_known_until_a_write_succeeds(sqlite_store: Store) -> None:
    async with sqlite_store.sql(patience=Patience(attempts=1)) as service:
        await service.append_event(await service.create(**WHO), said())
        session = await service.get(**WHO)
        assert service._queue is not None
        service._queue._database = writer = Counted(service._queue._database)
        reader = count_reads(service)
        writer.lost_answers = 1
        with pytest.raises(StorageError):
            await service.append_event(session, said(a=1))
        assert (await newest(service, session)).head_seq == 2, "it was committed all the same"
        await newest(service, session)
        assert reader.visits == 2
        await service.append_event(session, said(a=2))
        await newest(service, session)
        await newest(service, session)
        assert reader.visits == 3


def handle(seq: int) -> Session:
    events = [Event(author="u", seq=seq)]
    return Session(app_name="app", user_id="u", id="s", state=merge_state({}, {}, {}), events=events, head_seq=seq)


def test_what_was_read_while_it_changed_is_not_kept() -> None:
    heads = Heads()
    with heads.reading(KEY) as reading:
        heads.deleted(KEY)
        heads.keep(reading, handle(1))
    assert heads.get(KEY, 0) is None
    with heads.reading(KEY) as reading:
        heads.deleted(("app", "u", "another"))
        heads.keep(reading, handle(1))
    assert heads.get(KEY, 0) is not None


def test_only_so_many_sessions_are_kept_and_the_unused_go_first() -> None:
    heads = Heads(limit=2)
    for name in ("one", "two"):
        with heads.reading(("app", "u", name)) as reading:
            heads.keep(reading, handle(1))
    heads.get(("app", "u", "one"), 0)
    with heads.reading(KEY) as reading:
        heads.keep(reading, handle(1))
    assert [heads.get(("app", "u", name), 0) is None for name in ("one", "two", "s")] == [False, True, False]
