"""The one writer of a live session: order, reserved places, failures, ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from live_gateway.errors import LiveSessionClosed, StorageError
from live_gateway.events import Event
from live_gateway.sessions import InMemorySessionService, Session, SessionWriter, Slot
from live_gateway.testing.virtual_time import VirtualTimeLoop

pytestmark = pytest.mark.virtual_time


class Moody(InMemorySessionService):
    """A store that can be blocked and that refuses events whose id begins with `bad`."""

    def __init__(self) -> None:
        super().__init__()
        self.open = asyncio.Event()
        self.open.set()
        self.begun: list[str] = []

    async def append_event(self, session: Session, event: Event) -> Event:
        self.begun.append(event.id)
        await self.open.wait()
        if event.id.startswith("bad"):
            raise OSError("disk full")
        return await super().append_event(session, event)


@dataclass
class Desk:
    """A running writer and what it told."""

    service: Moody
    writer: SessionWriter
    told: list[str] = field(default_factory=list)

    async def stored(self) -> list[str]:
        session = self.writer.session
        found = await self.service.get(app_name=session.app_name, user_id=session.user_id, session_id=session.id)
        return [event.id for event in found.events]


def event(name: str) -> Event:
    return Event(author="a", id=name)


@asynccontextmanager
async def desk(capacity: int = 1024) -> AsyncIterator[Desk]:
    service = Moody()
    session = await service.create(app_name="app", user_id="u")
    told: list[str] = []
    writer = SessionWriter(
        service,
        session,
        on_stored=lambda stored: told.append(f"{stored.seq}:{stored.id}"),
        on_failed=lambda failed, error: told.append(f"{failed.id}:{error}"),
        capacity=capacity,
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(writer.run())
        yield Desk(service, writer, told)
        writer.close()
        service.open.set()


async def test_one_after_the_other() -> None:
    async with desk() as it:
        storing = [it.writer.put(event(name)) for name in "abc"]
        assert [(await one).seq for one in storing] == [1, 2, 3]
        assert it.told == ["1:a", "2:b", "3:c"]
        assert it.writer.session.head_seq == 3


# contract: LIVE-24, LIVE-05
async def test_a_reserved_place_keeps_what_came_later_behind_it() -> None:
    async with desk() as it:
        before = it.writer.put(event("before"))
        slot = it.writer.reserve()
        after = it.writer.put(event("answer"))
        await before
        await asyncio.sleep(4.9)
        assert not after.done()
        assert it.service.begun == ["before"]
        stored = await slot.fill(event("question"))
        assert stored.seq == 2
        assert (await after).seq == 3
        assert it.told == ["1:before", "2:question", "3:answer"]


# contract: LIVE-24
async def test_a_released_place_lets_the_others_pass_at_once() -> None:
    async with desk() as it:
        slots = [it.writer.reserve() for _ in range(3)]
        after = it.writer.put(event("after"))
        await asyncio.sleep(1)  # the writer waits at the first of them now
        begin = asyncio.get_running_loop().time()
        for slot in slots:
            slot.release()
            slot.release()
        assert (await after).seq == 1
        assert asyncio.get_running_loop().time() == begin
        with pytest.raises(StorageError, match="released"):
            slots[0].fill(event("late"))
    assert await it.stored() == ["after"]


# contract: LIVE-24
async def test_a_place_that_nobody_resolves_is_given_up_in_time() -> None:
    async with desk() as it:
        slot, quick = it.writer.reserve(), it.writer.reserve(patience=1.0)
        after = it.writer.put(event("after"))
        begin = asyncio.get_running_loop().time()
        await after
        assert asyncio.get_running_loop().time() - begin == pytest.approx(5.0)
        for late in (slot, quick):
            with pytest.raises(StorageError, match="expired"):
                late.fill(event("late"))
        assert await it.stored() == ["after"]


async def test_a_place_can_be_filled_once() -> None:
    async with desk() as it:
        slot = it.writer.reserve()
        await slot.fill(event("once"))
        with pytest.raises(StorageError, match="taken"):
            slot.fill(event("twice"))
        slot.release()
        await it.writer.drain()
        assert await it.stored() == ["once"]


# contract: LIVE-15
# case: K-LIVE-24
async def test_a_failure_concerns_its_event_only() -> None:
    async with desk() as it:
        slot = it.writer.reserve()
        storing = [it.writer.put(event(name)) for name in ("bad1", "ok", "bad2", "last")]
        filled = slot.fill(event("bad0"))
        for one in (filled, storing[0], storing[2]):
            with pytest.raises(OSError, match="disk full"):
                await one
        assert (await storing[3]).seq == 2
        assert it.told == ["bad0:disk full", "bad1:disk full", "1:ok", "bad2:disk full", "2:last"]


async def test_listeners_are_told_before_those_who_await() -> None:
    async with desk() as it:
        assert (await it.writer.put(event("a"))).id == "a"
        assert it.told == ["1:a"]


async def test_who_awaits_may_be_cancelled_or_come_back() -> None:
    async with desk() as it:
        it.service.open.clear()
        storing = it.writer.put(event("a"))

        async def wait() -> None:
            await storing

        async with asyncio.TaskGroup() as group:
            waiter = group.create_task(wait())
            await asyncio.sleep(0.1)
            waiter.cancel()
        it.service.open.set()
        assert (await storing).seq == 1
        assert (await storing).seq == 1


async def test_it_is_bounded() -> None:
    async with desk(capacity=3) as it:
        it.service.open.clear()
        it.writer.put(event("being stored"))
        await asyncio.sleep(0.1)
        it.writer.put(event("a"))
        slot = it.writer.reserve()
        it.writer.put(event("b"))
        for refused in (lambda: it.writer.put(event("c")), it.writer.reserve):
            with pytest.raises(StorageError, match="wait to be stored"):
                refused()
        assert len(it.writer) == 4
        slot.release()
        it.service.open.set()
        await it.writer.drain()
        assert len(it.writer) == 0
        assert await it.stored() == ["being stored", "a", "b"]


async def test_drain_waits_for_what_was_there() -> None:
    async with desk() as it:
        await it.writer.drain()
        it.service.open.clear()
        for name in "abc":
            it.writer.put(event(name))
        with pytest.raises(StorageError, match="within 10 s"):
            await it.writer.drain()
        slot = it.writer.reserve()
        it.service.open.set()
        async with asyncio.TaskGroup() as group:
            draining = group.create_task(it.writer.drain())
            await asyncio.sleep(1)
            assert await it.stored() == ["a", "b", "c"]
            assert not draining.done()
            it.writer.put(event("later"))
            slot.release()
        assert it.told[:3] == ["1:a", "2:b", "3:c"]


async def test_closed_it_takes_no_more_and_runs_dry() -> None:
    service = Moody()
    session = await service.create(app_name="app", user_id="u")
    writer = SessionWriter(service, session)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(writer.run())
        storing = writer.put(event("a"))
        slot = writer.reserve()
        last = writer.put(event("z"))
        writer.close()
        for refused in (lambda: writer.put(event("b")), writer.reserve):
            with pytest.raises(LiveSessionClosed):
                refused()
        await storing
        assert not running.done()
        assert (await slot.fill(event("m"))).seq == 2
        assert (await last).seq == 3
    assert running.done()


async def test_closing_while_idle_ends_it() -> None:
    service = Moody()
    writer = SessionWriter(service, await service.create(app_name="app", user_id="u"))
    async with asyncio.TaskGroup() as group:
        group.create_task(writer.run())
        await asyncio.sleep(1)
        writer.close()


async def test_cancelled_it_fails_what_is_left() -> None:
    service = Moody()
    writer = SessionWriter(service, await service.create(app_name="app", user_id="u"))
    service.open.clear()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(writer.run())
        storing = [writer.put(event("a")), writer.put(event("b"))]
        slot = writer.reserve()
        await asyncio.sleep(1)
        running.cancel()
    for one in storing:
        with pytest.raises(StorageError, match="ended before"):
            await one
    with pytest.raises(StorageError, match="expired"):
        slot.fill(event("c"))
    with pytest.raises(LiveSessionClosed):
        writer.put(event("d"))
    assert len(writer) == 0


steps = st.lists(st.sampled_from(["put", "bad", "reserve", "fill", "release", "tick", "block", "open"]), max_size=40)


# contract: LIVE-05, LIVE-15, LIVE-24
@settings(max_examples=60, deadline=None)
@given(steps=steps, picks=st.randoms(use_true_random=False))
def test_whatever_happens_the_order_is_that_of_the_places(steps: list[str], picks: object) -> None:
    async def scenario() -> None:
        order: list[str] = []
        names: dict[int, str] = {}
        slots: list[tuple[int, Slot]] = []
        async with desk() as it:
            for n, step in enumerate(steps):
                if step in ("put", "bad"):
                    name = f"{step}{n}"
                    it.writer.put(event(name))
                    order.append(name)
                elif step == "reserve":
                    slots.append((len(order), it.writer.reserve()))
                    order.append("")
                elif step in ("fill", "release") and slots:
                    place, slot = slots.pop(picks.randrange(len(slots)))  # type: ignore[attr-defined]
                    if step == "release":
                        slot.release()
                    else:
                        with suppress(StorageError):  # it may have expired
                            slot.fill(event(f"slot{n}"))
                            names[place] = f"slot{n}"
                elif step == "tick":
                    await asyncio.sleep(2)
                elif step == "block":
                    it.service.open.clear()
                elif step == "open":
                    it.service.open.set()
        expected = [names.get(place, name) for place, name in enumerate(order)]
        expected = [name for name in expected if name]
        assert it.service.begun == expected
        assert [line.split(":")[1 if line[0].isdigit() else 0] for line in it.told] == expected
        assert await it.stored() == [name for name in expected if not name.startswith("bad")]

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(scenario())
