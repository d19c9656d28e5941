"""The live session when something around it misbehaves: a model, a store, a plugin, a tool, or the caller. On virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from live_gateway.agents.context import ToolContext
from live_gateway.content import FunctionCall, user_content
from live_gateway.errors import (
    DeliveryUnknown,
    ModelError,
    NotDelivered,
    ToolResponseNotExpected,
)
from live_gateway.events import Event
from live_gateway.live.items import Failure, LiveItem, ToolFinished
from live_gateway.live.tools import MAX_RUNNING
from live_gateway.models.live import ContentOut, ToolCalls, ToolCallsCancelled, Transcript
from live_gateway.plugins.base import Plugin
from live_gateway.sessions.memory import InMemorySessionService
from live_gateway.testing import FaultySessionService
from live_gateway.tools.function import tool
from tests.support.live import all_of, go_live, in_short, live_runner, stored
from tests.support.puppet_model import PuppetModel
from tests.support.session_faults import called, collect, nobody_else, now, outside, promised

pytestmark = pytest.mark.virtual_time


async def stubborn(seconds: float) -> str:
    """Clean up for a while when cancelled."""
    try:
        await asyncio.sleep(3600)
    finally:
        await asyncio.sleep(seconds)
    return "never"


async def quick() -> str:
    """Answer at once."""
    return "quick"


# contract: LIVE-17
async def test_one_call_twice_in_one_message_runs_once() -> None:
    model = PuppetModel()
    runner = live_runner(model, tools=[quick])
    async with go_live(runner):
        model.connection.say(called("quick", "c-1", "c-1"), called("quick", "c-2", "c-1"))
        await asyncio.sleep(1)
        assert [answer.id for answer in model.connection.answers] == ["c-1", "c-2"]
    assert in_short(list(await stored(runner))) == ["call quick", "resp quick", "call quick", "resp quick"] or in_short(
        list(await stored(runner))
    ) == ["call quick", "call quick", "resp quick", "resp quick"]


# contract: LIVE-17
async def test_only_so_many_tools_run_at_once_and_every_call_is_answered() -> None:
    gate, ran = asyncio.Event(), list[str]()

    async def waits() -> str:
        """Wait."""
        ran.append("waits")
        await gate.wait()
        return "done"

    model = PuppetModel()
    async with go_live(live_runner(model, tools=[waits])):
        model.connection.say(called("waits", *(f"a{number}" for number in range(MAX_RUNNING))), called("waits", "b1", "b2"))
        await asyncio.sleep(1)
        assert len(ran) == MAX_RUNNING
        refusals = [str((answer.response or {}).get("error")) for answer in model.connection.answers]
        assert refusals == [f"{MAX_RUNNING} tools are already running; try again when one has ended"] * 2
        gate.set()
        await asyncio.sleep(1)
        model.connection.say(called("waits", "c1"))
        await asyncio.sleep(1)
    assert len(ran) == MAX_RUNNING + 1
    assert len({answer.id for answer in model.connection.answers}) == len(model.connection.answers) == MAX_RUNNING + 3


# contract: LIVE-17
async def test_a_call_without_an_id_is_given_one() -> None:
    model = PuppetModel()
    runner = live_runner(model, tools=[quick])
    async with go_live(runner):
        model.connection.say(ToolCalls((FunctionCall(name="quick", args={}), FunctionCall(name="quick", args={}))))
        await asyncio.sleep(1)
        ids = [answer.id for answer in model.connection.answers]
    assert len(set(ids)) == 2
    assert all(ids)
    calls, responses = await stored(runner)
    assert [call.id for call in calls.function_calls] == [response.id for response in responses.function_responses] == ids


# contract: LIVE-17, LIVE-23
@pytest.mark.parametrize("cleans_up_s", [0.0, 0.5, 3.0, 100.0])
async def test_a_call_that_is_cut_by_the_end_is_recorded_as_cancelled_however_long_it_cleans_up(cleans_up_s: float) -> None:
    model = PuppetModel()
    runner = live_runner(model, tools=[stubborn, quick])
    items: list[LiveItem] = []
    async with asyncio.TaskGroup() as group, go_live(runner) as live:
        group.create_task(collect(live, items))
        call = FunctionCall(id="c-1", name="stubborn", args={"seconds": cleans_up_s})
        model.connection.say(ToolCalls((call, FunctionCall(id="c-2", name="quick", args={}))))
        await asyncio.sleep(1)
        began = now()
        await live.close()
        assert now() - began <= 2.1
    _, responses = await stored(runner)
    assert [(response.id, response.response) for response in responses.function_responses] == [
        ("c-1", {"error": "cancelled"}),
        ("c-2", {"result": "quick"}),
    ]
    assert [(item.call, item.status) for item in items if isinstance(item, ToolFinished)] == [("c-2", "done"), ("c-1", "cancelled")]
    assert model.connection.answers == []
    assert nobody_else()


# contract: LIVE-17, LIVE-23
async def test_what_the_model_calls_while_the_session_ends_does_not_start() -> None:
    model = PuppetModel()
    runner = live_runner(model, tools=[stubborn])
    async with go_live(runner) as live:
        model.connection.say(called("stubborn", "c-1", seconds=0.8))
        await asyncio.sleep(1)
        async with asyncio.TaskGroup() as group:
            group.create_task(live.close())
            await asyncio.sleep(0.1)
            model.connection.say(called("stubborn", "c-2", seconds=0))
        assert now() < 4
    assert in_short(list(await stored(runner))) == ["call stubborn", "resp stubborn"]
    assert nobody_else()


# contract: LIVE-23
async def test_a_tool_that_cleans_up_does_not_hold_the_models_connection() -> None:
    model = PuppetModel()
    async with go_live(live_runner(model, tools=[stubborn])) as live:
        model.connection.say(called("stubborn", "c-1", seconds=0.9))
        await asyncio.sleep(1)
        began = now()
        await live.close()
        assert model.connection.left_at is not None
        assert model.connection.left_at - began < 0.1


class Quitter(Plugin):
    """Its hook lets a cancellation out. hook: which."""

    def __init__(self, hook: str) -> None:
        super().__init__("quitter")
        self.hook = hook

    async def on_event(self, invocation: Any, event: Event) -> Event | None:
        if self.hook == "on_event":
            raise asyncio.CancelledError
        return None

    async def on_user_message(self, invocation: Any, content: Any) -> Any:
        if self.hook == "on_user_message":
            raise asyncio.CancelledError


# contract: LIVE-13, LIVE-23
@pytest.mark.parametrize("where", ["receive", "send_audio", "post", "on_event"])
async def test_a_foreign_cancellation_ends_the_session_and_never_leaves_it_dumb(where: str) -> None:
    model = PuppetModel()
    runner = live_runner(model, tools=[quick], plugins=[Quitter(where)])
    items: list[LiveItem] = []
    async with asyncio.timeout(60), asyncio.TaskGroup() as group, go_live(runner) as live:
        consumer = group.create_task(collect(live, items))
        if where == "receive":
            model.connection.say(Transcript("user", "half"))
            model.connection.fail(asyncio.CancelledError())
        elif where == "on_event":
            model.connection.say(Transcript("user", "half"), Transcript("user", "half", finished=True), called("quick", "c-1"))
        else:
            model.connection.sending.before = asyncio.CancelledError()
            if where == "send_audio":
                live.push_audio(bytes(640))
            else:
                model.connection.say(called("quick", "c-1"))
        await asyncio.sleep(30)
        if where == "on_event":  # one event each; the session goes on
            assert not consumer.done()
        else:
            assert consumer.done()
    failures = [item for item in items if isinstance(item, Failure)]
    assert failures
    assert failures[-1].fatal is (where != "on_event")
    assert nobody_else()


# contract: LIVE-15
async def test_a_foreign_cancellation_in_the_store_costs_one_event() -> None:
    sessions = FaultySessionService(InMemorySessionService())
    model = PuppetModel()
    runner = live_runner(model, sessions=sessions)
    async with asyncio.timeout(60), go_live(runner) as live:
        sessions.fail_append(1, asyncio.CancelledError())  # type: ignore[arg-type]
        model.connection.say(*(ContentOut(user_content(text)) for text in ("one", "two")))
        model.connection.end()
        got = await all_of(live)
    assert in_short(got) == ["error StorageError", 'agent "two"']
    assert in_short(list(await stored(runner))) == ['agent "two"']


# contract: LIVE-07
async def test_a_foreign_cancellation_in_a_send_is_no_cancellation_of_the_sender() -> None:
    model = PuppetModel()
    runner = live_runner(model)
    async with asyncio.timeout(60), go_live(runner) as live:
        model.connection.sending.after = asyncio.CancelledError()
        with pytest.raises(DeliveryUnknown):
            await live.send(user_content("hello"))
        assert (await live.send(user_content("again"))).state == "persisted"
    assert in_short(list(await stored(runner))) == ['user "again"']


# contract: LIVE-08
async def test_a_foreign_cancellation_in_a_plugin_of_a_send_means_not_delivered() -> None:
    model = PuppetModel()
    async with asyncio.timeout(60), go_live(live_runner(model, plugins=[Quitter("on_user_message")])) as live:
        with pytest.raises(NotDelivered):
            await live.send(user_content("hello"))
    assert model.connection.contents == []


# contract: LIVE-17
async def test_a_tool_that_answers_in_spite_of_being_cancelled_is_recorded_as_cancelled() -> None:
    async def deaf(ctx: ToolContext) -> str:
        """Answer all the same."""
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        ctx.state["deaf"] = "yes"
        await asyncio.sleep(0.1)
        return "in spite of it"

    model = PuppetModel()
    runner = live_runner(model, tools=[deaf, quick])
    async with go_live(runner) as live:
        model.connection.say(ToolCalls((FunctionCall(id="c-1", name="deaf", args={}), FunctionCall(id="c-2", name="quick", args={}))))
        await asyncio.sleep(1)
        model.connection.say(ToolCallsCancelled(("c-1",)))
        await asyncio.sleep(0.01)
        assert [answer.id for answer in model.connection.answers] == ["c-2"]  # it does not wait for the one that was cancelled
        await asyncio.sleep(1)
        assert "deaf" not in live.session.state
    _, responses = await stored(runner)
    assert responses.function_responses[0].response == {"error": "cancelled"}
    assert responses.actions.state_delta == {}


@tool
async def ticker() -> AsyncIterator[int]:
    """Count."""
    for number in range(3):
        yield number


# contract: LIVE-17
async def test_a_stream_that_is_taken_back_before_its_message_was_answered_never_begins() -> None:
    async def slow() -> str:
        """Answer after a while."""
        await asyncio.sleep(2)
        return "slow"

    model = PuppetModel()
    runner = live_runner(model, tools=[ticker, slow])
    items: list[LiveItem] = []
    async with asyncio.TaskGroup() as group, go_live(runner) as live:
        group.create_task(collect(live, items))
        model.connection.say(ToolCalls((FunctionCall(id="c-1", name="ticker", args={}), FunctionCall(id="c-2", name="slow", args={}))))
        await asyncio.sleep(1)
        model.connection.say(ToolCallsCancelled(("c-1",)))
        await asyncio.sleep(3)
        assert [answer.id for answer in model.connection.answers] == ["c-2"]
    _, responses = await stored(runner)
    assert [response.response for response in responses.function_responses] == [{"error": "cancelled"}, {"result": "slow"}]
    assert [item.status for item in items if isinstance(item, ToolFinished) and item.call == "c-1"] == ["progress", "cancelled"]


# contract: LIVE-06, LIVE-17
async def test_of_two_answers_from_outside_at_once_one_is_refused() -> None:
    model = PuppetModel()
    runner = live_runner(model, tools=[promised])
    async with go_live(runner) as live:
        model.connection.say(called("promised", "c-1"))
        await asyncio.sleep(2)
        model.connection.sending.delay_s = 0.5
        async with asyncio.TaskGroup() as group:
            group.create_task(live.send(outside("c-1", "mine")))
            await asyncio.sleep(0.1)
            with pytest.raises(ToolResponseNotExpected):
                await live.send(outside("c-1", "yours"))
    assert [answer.response for answer in model.connection.answers] == [{"result": "later"}, {"result": "mine"}]


# contract: LIVE-06, LIVE-07
async def test_an_answer_from_outside_that_was_not_delivered_can_be_given_again() -> None:
    model = PuppetModel()
    runner = live_runner(model, tools=[promised])
    async with go_live(runner) as live:
        model.connection.say(called("promised", "c-1"))
        await asyncio.sleep(2)
        model.connection.sending.before = ModelError("not now")
        with pytest.raises(NotDelivered):
            await live.send(outside("c-1", "done"))
        await live.send(outside("c-1", "done"))
    assert [answer.response for answer in model.connection.answers] == [{"result": "later"}, {"result": "done"}]
    assert in_short(list(await stored(runner))) == ["call promised", "resp promised", "resp promised"]


# contract: LIVE-17, STATE-03
async def test_what_a_cancelled_tool_wrote_is_seen_by_nobody() -> None:
    seen: list[Any] = []

    async def pays(ctx: ToolContext) -> str:
        """Pay, and write down that it was paid when cancelled."""
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ctx.state["paid"] = True
        return "paid"

    async def looks(ctx: ToolContext) -> str:
        """Look whether it was paid."""
        seen.append(ctx.state.get("paid"))
        return "looked"

    model = PuppetModel()
    runner = live_runner(model, tools=[pays, looks])
    async with go_live(runner):
        model.connection.say(called("pays", "c-1"))
        await asyncio.sleep(1)
        model.connection.say(ToolCallsCancelled(("c-1",)))
        await asyncio.sleep(1)
        model.connection.say(called("looks", "c-2"))
        await asyncio.sleep(1)
    assert seen == [None]
    assert all("paid" not in event.actions.state_delta for event in await stored(runner))
