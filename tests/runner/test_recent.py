"""Sessions that ran lately are read from the store only where they went on, and are never taken for another."""

from __future__ import annotations

from typing import Any

import pytest

from live_gateway.content import user_content
from live_gateway.errors import SessionNotFound
from live_gateway.events import Event
from live_gateway.runner.recent import RecentSessions
from live_gateway.sessions.base import Session
from live_gateway.sessions.memory import InMemorySessionService
from tests.support.runs import WHO, told

HERE: dict[str, Any] = {"app_name": "app", **WHO}


class Counting(InMemorySessionService):
    """Counts the events that were read."""

    read = 0

    async def get(self, **where: Any) -> Session:
        session = await super().get(**where)
        self.read += len(session.events)
        return session


async def opened(count: int) -> tuple[Counting, RecentSessions, Session]:
    service = Counting()
    session = await service.create(**HERE)
    for index in range(count):
        await service.append_event(session, told("bot", str(index)))
    return service, RecentSessions(service, "app"), session


async def texts(recent: RecentSessions) -> list[str]:
    session = await recent.get("u", "s")
    recent.keep(session)
    assert [event.seq for event in session.events] == list(range(1, session.head_seq + 1))
    return [event.text for event in session.events]


# contract: RUN-05, FLOW-02
async def test_only_what_is_new_is_read_again() -> None:
    service, recent, session = await opened(100)
    assert len(await texts(recent)) == 100
    service.read = 0
    await service.append_event(session, told("bot", "from elsewhere"))
    assert (await texts(recent))[-1] == "from elsewhere"
    assert service.read == 2


async def test_a_session_that_was_made_anew_is_read_anew() -> None:
    service, recent, _ = await opened(3)
    await texts(recent)
    await service.delete(**HERE)
    with pytest.raises(SessionNotFound):
        await recent.get("u", "s")
    for count in (2, 5):
        await service.delete(**HERE)
        session = await service.create(**HERE)
        for index in range(count):
            await service.append_event(session, told("bot", f"new {index}"))
        assert await texts(recent) == [f"new {index}" for index in range(count)]


async def test_what_was_given_out_is_not_shared() -> None:
    _, recent, _ = await opened(2)
    await texts(recent)
    first, second = await recent.get("u", "s"), await recent.get("u", "s")
    first.events.append(Event(author="user", content=user_content("mine alone")))
    assert len(second.events) == len(await texts(recent)) == 2


async def test_the_longest_unused_sessions_are_forgotten_beyond_the_bound() -> None:
    service = Counting()
    recent = RecentSessions(service, "app", max_events=5)
    for name in ("a", "b", "c"):
        session = await service.create(app_name="app", user_id="u", session_id=name)
        for _ in range(2):
            await service.append_event(session, told("bot", "x"))
        recent.keep(await recent.get("u", name))
    service.read = 0
    assert len((await recent.get("u", "c")).events) == 2
    assert service.read == 1
    assert len((await recent.get("u", "a")).events) == 2
    assert service.read == 3
