"""The store that fails when the test wants it to."""

from __future__ import annotations

import asyncio

import pytest

from live_gateway.errors import SessionNotFound, StorageError
from live_gateway.events import Event
from live_gateway.sessions.base import Session, SessionService
from live_gateway.sessions.memory import InMemorySessionService
from live_gateway.testing import FaultySessionService

pytestmark = pytest.mark.virtual_time


async def _open() -> tuple[FaultySessionService, Session]:
    service = FaultySessionService(InMemorySessionService())
    return service, await service.create(app_name="app", user_id="u", session_id="s")


async def _stored(service: SessionService) -> list[str]:
    return [event.author for event in (await service.get(app_name="app", user_id="u", session_id="s")).events]


async def test_without_orders_it_is_the_store_that_it_wraps() -> None:
    service, session = await _open()
    stored = await service.append_event(session, Event(author="a"))
    assert stored.seq == 1
    assert service.stored == [stored]
    assert await _stored(service) == ["a"]
    assert [found.id for found in await service.list(app_name="app")] == ["s"]
    await service.append_event(session, Event(author="a", partial=True))
    assert len(service.appends) == 1
    await service.delete(app_name="app", user_id="u", session_id="s")
    with pytest.raises(SessionNotFound):
        await service.get(app_name="app", user_id="u", session_id="s")


async def test_the_nth_append_from_now_fails_once() -> None:
    service, session = await _open()
    await service.append_event(session, Event(author="a"))
    service.fail_append(2)
    service.fail_append(3, ValueError("own"))
    await service.append_event(session, Event(author="b"))
    with pytest.raises(StorageError):
        await service.append_event(session, Event(author="c"))
    with pytest.raises(ValueError, match="own"):
        await service.append_event(session, Event(author="d"))
    await service.append_event(session, Event(author="e"))
    assert await _stored(service) == ["a", "b", "e"]
    assert [event.author for event in service.appends] == ["a", "b", "c", "d", "e"]
    with pytest.raises(ValueError, match="number 1"):
        service.fail_append(0)


async def test_an_append_may_fail_although_it_was_stored() -> None:
    service, session = await _open()
    service.fail_append(after_storing=True)
    with pytest.raises(StorageError):
        await service.append_event(session, Event(author="a"))
    assert await _stored(service) == ["a"]


async def test_appends_wait_for_the_gate_and_can_be_slow() -> None:
    service, session = await _open()
    gate = asyncio.Event()
    loop = asyncio.get_running_loop()
    service.block_appends(gate)
    loop.call_later(5, gate.set)
    start = loop.time()
    await service.append_event(session, Event(author="a"))
    assert loop.time() - start == pytest.approx(5)
    service.slow_appends(2)
    await service.append_event(session, Event(author="b"))
    assert loop.time() - start == pytest.approx(7)


async def test_a_broken_store_fails_everywhere_until_repaired() -> None:
    service, session = await _open()
    service.break_down()
    with pytest.raises(StorageError):
        await service.append_event(session, Event(author="a"))
    with pytest.raises(StorageError):
        await service.get(app_name="app", user_id="u", session_id="s")
    with pytest.raises(StorageError):
        await service.create(app_name="app", user_id="u")
    with pytest.raises(StorageError):
        await service.list(app_name="app")
    with pytest.raises(StorageError):
        await service.delete(app_name="app", user_id="u", session_id="s")
    service.repair()
    await service.append_event(session, Event(author="a"))
    assert await _stored(service) == ["a"]
