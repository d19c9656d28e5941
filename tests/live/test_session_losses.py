"""What a live session loses in the worst case, and how it says so."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from live_gateway.content import user_content
from live_gateway.errors import (
    DeliveredNotPersisted,
    DeliveryUnknown,
    LiveSessionClosed,
    ModelError,
    NotDelivered,
    SetupTimeout,
    StorageError,
    ToolResponseNotExpected,
    UpstreamLost,
)
from live_gateway.events import Event
from live_gateway.live import leg, uplink
from live_gateway.live.items import Failure, LiveItem, Stored
from live_gateway.live.session import LiveSession
from live_gateway.models.live import ContentOut, ToolCallsCancelled, Transcript, TurnComplete
from live_gateway.plugins.base import Plugin
from live_gateway.sessions.memory import InMemorySessionService
from live_gateway.testing import FaultySessionService
from tests.support.live import all_of, go_live, in_short, live_runner, spoke, stored
from tests.support.puppet_model import Leaving, PuppetModel
from tests.support.session_faults import called, collect, nobody_else, now, outside, promised, refused, slow

pytestmark = pytest.mark.virtual_time


# contract: LIVE-06, LIVE-17
async def test_an_answer_from_outside_before_the_tool_said_that_it_would_come() -> None:
    model = PuppetModel()
    runner = live_runner(model, tools=[promised])
    async with go_live(runner) as live:
        model.connection.say(called("promised", "c-1"))
        await asyncio.sleep(0.5)
        await live.send(outside("c-1", "done"))
        await asyncio.sleep(2)
    assert [answer.response for answer in model.connection.answers] == [{"result": "done"}]
    assert in_short(list(await stored(runner))) == ["call promised", "resp promised"]


# contract: LIVE-06, LIVE-17
async def test_a_call_that_the_model_takes_back_takes_no_answer_from_outside() -> None:
    model = PuppetModel()
    runner = live_runner(model, tools=[promised])
    async with go_live(runner) as live:
        model.connection.say(called("promised", "c-1"))
        await asyncio.sleep(2)
        model.connection.say(ToolCallsCancelled(("c-1",)))
        await asyncio.sleep(0.1)
        with pytest.raises(ToolResponseNotExpected):
            await live.send(outside("c-1", "done"))
    assert [answer.response for answer in model.connection.answers] == [{"result": "later"}]
    assert (await stored(runner))[-1].function_responses[0].response == {"error": "cancelled"}


# contract: LIVE-15, LIVE-17
async def test_a_tool_that_ends_while_the_store_is_full_harms_nobody() -> None:
    sessions = FaultySessionService(InMemorySessionService())
    model = PuppetModel()
    runner = live_runner(model, sessions=sessions, tools=[slow])
    gate = asyncio.Event()
    outcomes: list[str] = []

    async def send(live: LiveSession, text: str) -> None:
        try:
            outcomes.append((await live.send(user_content(text))).state)
        except (StorageError, NotDelivered, DeliveredNotPersisted, LiveSessionClosed) as error:
            outcomes.append(type(error).__name__)

    async with asyncio.timeout(60), asyncio.TaskGroup() as group, go_live(runner) as live:
        items: list[LiveItem] = []
        group.create_task(collect(live, items))
        sessions.block_appends(gate)
        model.connection.say(called("slow", "c-1"))
        await asyncio.sleep(1)
        for number in range(1200):
            group.create_task(send(live, f"{number}"))
            if number % 200 == 199:
                await asyncio.sleep(0.01)
        await asyncio.sleep(2)
        gate.set()
        await asyncio.sleep(2)
    assert len(outcomes) == 1200
    texts = [event.text for event in await stored(runner) if event.author == "user" and event.text]
    assert len(texts) == outcomes.count("persisted") == len(set(texts))
    assert set(texts) <= set(model.connection.contents)
    assert len(model.connection.contents) == outcomes.count("persisted") + outcomes.count("DeliveredNotPersisted")
    assert nobody_else()


# contract: LIVE-17, LIVE-19
@pytest.mark.parametrize("reserved", [True, False])
async def test_what_clients_send_cannot_keep_a_tools_answer_out(reserved: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not reserved:
        monkeypatch.setattr(uplink, "RESERVED", -1)
    model = PuppetModel()
    runner = live_runner(model, tools=[slow])
    gate = asyncio.Event()

    async def show(live: LiveSession) -> None:
        with contextlib.suppress(NotDelivered, LiveSessionClosed, DeliveryUnknown):
            await live.send_image(b"x", "image/png")

    async with asyncio.timeout(60), asyncio.TaskGroup() as group, go_live(runner) as live:
        items: list[LiveItem] = []
        consumer = group.create_task(collect(live, items))
        model.connection.say(called("slow", "c-1"))
        await asyncio.sleep(1)
        model.connection.sending.gate = gate
        for _ in range(300):
            group.create_task(show(live))
        await asyncio.sleep(3)
        gate.set()
        await asyncio.sleep(1)
        assert consumer.done() is not reserved
    assert [answer.id for answer in model.connection.answers] == (["c-1"] if reserved else [])
    assert [type(item.exception) for item in items if isinstance(item, Failure) and item.fatal] == ([] if reserved else [UpstreamLost])
    assert in_short(list(await stored(runner)))[:2] == ["call slow", "resp slow"]
    assert nobody_else()


# contract: LIVE-05, LIVE-24
async def test_a_sender_who_gives_up_after_the_model_began_to_take_it_does_not_lose_the_record() -> None:
    model = PuppetModel()
    runner = live_runner(model)
    async with go_live(runner) as live:
        model.connection.sending.delay_s = 1.0
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await live.send(user_content("hello"))
        await asyncio.sleep(0.2)
        model.connection.say(ContentOut(user_content("answer")))
        await asyncio.sleep(1)
    assert model.connection.contents == ["hello"]
    assert in_short(list(await stored(runner))) == ['user "hello"', 'agent "answer"']


# contract: LIVE-05
async def test_a_sender_who_gives_up_before_that_leaves_nothing() -> None:
    model = PuppetModel()
    runner = live_runner(model)
    async with go_live(runner) as live:
        model.connection.sending.delay_s = 1.0
        async with asyncio.TaskGroup() as group:
            group.create_task(live.send_image(b"x", "image/png"))
            await asyncio.sleep(0.1)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await live.send(user_content("hello"))
        await asyncio.sleep(2)
    assert model.connection.contents == []
    assert await stored(runner) == []


# contract: LIVE-07
@pytest.mark.parametrize(
    ("error", "expected"),
    [(ModelError("refused"), NotDelivered), (OSError("broken pipe"), DeliveryUnknown), (ValueError(), DeliveryUnknown)],
)
async def test_only_a_refusal_by_the_model_is_safe_to_send_again(error: Exception, expected: type[Exception]) -> None:
    model = PuppetModel()
    runner = live_runner(model)
    async with go_live(runner) as live:
        model.connection.sending.before = error
        with pytest.raises(expected):
            await live.send(user_content("hello"))
    assert await stored(runner) == []


# contract: LIVE-01, PLUG-06
async def test_a_connection_that_fails_while_it_is_given_up_does_not_hide_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leg, "OPEN_S", 2.0)
    model = PuppetModel(opens_in_s=100, leaving=Leaving(error=OSError("already closed")))
    with pytest.raises(SetupTimeout):
        async with go_live(live_runner(model)):
            pass
    assert nobody_else()


# contract: LIVE-01
async def test_a_foreign_cancellation_while_connecting_is_a_lost_connection() -> None:
    model = PuppetModel(connecting=asyncio.CancelledError())
    began = now()
    with pytest.raises(ModelError):
        async with go_live(live_runner(model)):
            pass
    assert now() - began < 1
    assert nobody_else()


class Hung(Plugin):
    """Its on_event never comes back."""

    async def on_event(self, invocation: Any, event: Event) -> Event | None:
        await asyncio.Event().wait()
        return None


# contract: LIVE-15, LIVE-13
async def test_what_a_hung_store_has_not_taken_by_the_end_is_told() -> None:
    sessions = FaultySessionService(InMemorySessionService())
    model = PuppetModel()
    runner = live_runner(model, sessions=sessions)
    items: list[LiveItem] = []
    async with asyncio.timeout(60), asyncio.TaskGroup() as group, go_live(runner) as live:
        group.create_task(collect(live, items))
        sessions.block_appends(asyncio.Event())
        model.connection.say(*(ContentOut(user_content(text)) for text in ("one", "two", "three")))
        await asyncio.sleep(1)
        sending = group.create_task(refused(live, "four", DeliveredNotPersisted))
        await asyncio.sleep(1)
        await live.close()
        assert sending.done()
    assert [type(item.exception) for item in items if isinstance(item, Failure)] == [StorageError] * 3
    assert nobody_else()


# contract: PLUG-04, LIVE-13
async def test_what_a_hung_plugin_has_not_seen_by_the_end_is_told() -> None:
    model = PuppetModel()
    runner = live_runner(model, plugins=[Hung("hung")])
    items: list[LiveItem] = []
    async with asyncio.timeout(60), asyncio.TaskGroup() as group, go_live(runner) as live:
        group.create_task(collect(live, items))
        model.connection.say(*(ContentOut(user_content(text)) for text in ("one", "two", "three")))
        await asyncio.sleep(1)
    assert len([item for item in items if isinstance(item, Failure)]) == 3
    assert await stored(runner) == []
    assert nobody_else()


class SlowGoodbye(Plugin):
    """Its after_run takes a second."""

    finished = 0

    async def after_run(self, invocation: Any) -> None:
        await asyncio.sleep(1)
        self.finished += 1


# contract: LIVE-23, PLUG-06
async def test_whoever_closes_finds_after_run_done() -> None:
    plugin = SlowGoodbye("slow goodbye")
    async with go_live(live_runner(PuppetModel(), plugins=[plugin])) as live, asyncio.TaskGroup() as group:
        group.create_task(live.close())
        await asyncio.sleep(0.5)
        await live.close()
        assert plugin.finished == 1
    assert plugin.finished == 1


# contract: LIVE-23
@pytest.mark.parametrize("leaving", [Leaving(takes_s=100), Leaving(error=OSError("gone")), Leaving(takes_s=100, error=ValueError())])
async def test_a_connection_that_does_not_close_well_does_not_hold_the_end(leaving: Leaving) -> None:
    model = PuppetModel(leaving=leaving)
    runner = live_runner(model)
    async with go_live(runner):
        model.connection.say(Transcript("user", "hello"))
        await asyncio.sleep(1)
        began = now()
    assert now() - began < 1.5
    assert in_short(list(await stored(runner))) == ['IN "hello"']
    assert nobody_else()


# contract: LIVE-25
async def test_events_that_were_not_kept_are_not_lost_when_reading_them_back_fails_at_first() -> None:
    sessions = FaultySessionService(InMemorySessionService())
    model = PuppetModel()
    runner = live_runner(model, sessions=sessions)
    async with go_live(runner) as live:
        for number in range(1100):
            model.connection.say(ContentOut(user_content(str(number))))
        await live.send(user_content("mine"))
        await asyncio.sleep(1)
        model.connection.end()
        await asyncio.sleep(1)
        sessions.break_down()
        got = []
        for _ in range(1025):
            try:
                got.append(await anext(live))
            except StorageError:
                sessions.repair()
        got += await all_of(live)  # type: ignore[arg-type]
    assert [event.text for event in got] == [str(number) for number in range(1100)]


# contract: LIVE-27, LIVE-25
@pytest.mark.parametrize("yield_user_message", [True, False])
async def test_reading_back_gives_what_would_have_been_given(yield_user_message: bool) -> None:
    model = PuppetModel()
    runner = live_runner(model)
    other = live_runner(PuppetModel(), sessions=runner.session_service)
    items: list[LiveItem] = []
    async with go_live(runner, yield_user_message=yield_user_message) as live:
        for number in range(1100):
            model.connection.say(ContentOut(user_content(str(number))))
        model.connection.say(spoke("Hi"), TurnComplete())
        await asyncio.sleep(1)
        await live.send(user_content("mine"))
        session = await other.session_service.get(app_name="app", user_id="u", session_id="s")
        await other.session_service.append_event(session, Event(author="user", content=user_content("somebody else")))
        await live.send(user_content("mine too"))
        model.connection.end()
        await asyncio.sleep(1)
        await collect(live, items)
    texts = [item.event.text for item in items if isinstance(item, Stored) and item.event.text]
    assert texts[:1100] == [str(number) for number in range(1100)]
    assert texts[1100:] == (["mine", "mine too"] if yield_user_message else [])
