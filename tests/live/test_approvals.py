"""Tools that ask a person first, in a live session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from live_gateway.agents.context import ToolContext
from live_gateway.confirmation import CONFIRM, INTERRUPTED, INTERRUPTED_S, decision_id
from live_gateway.content import Content, FunctionCall, FunctionResponse, Part, digest
from live_gateway.errors import InvalidInput, NotDelivered, StorageError, ToolResponseNotExpected
from live_gateway.events import Event
from live_gateway.live.items import Failure, LiveItem, ToolFinished, ToolRunning, ToolStarted
from live_gateway.live.session import LiveSession
from live_gateway.models.live import AudioOut, ToolCalls, ToolCallsCancelled, TurnComplete
from live_gateway.plugins.base import Plugin
from live_gateway.runner import Runner
from live_gateway.sessions.memory import InMemorySessionService
from live_gateway.testing import FaultySessionService
from live_gateway.testing.scripted_model import ScriptedModel
from live_gateway.tools.function import tool
from tests.support.approvals import Till, about, answer, asks, no, pays, questions, results, waiting, yes
from tests.support.live import go_live, in_short, live_runner, spoke, stored, until
from tests.support.puppet_model import PuppetModel

pytestmark = pytest.mark.virtual_time


async def recorded(runner: Runner, done: Callable[[list[Event]], bool]) -> list[Event]:
    """What is stored once that holds, within ten seconds."""
    for _ in range(100):
        if done(events := await stored(runner)):
            return events
        await asyncio.sleep(0.1)
    raise AssertionError("it did not come to that")


# contract: LIVE-17, HITL-06
# case: K-LTOOL-13
async def test_an_approved_call_runs_once_and_is_answered_once() -> None:
    till, model = Till(), PuppetModel()
    runner = live_runner(model, tools=[till.tool()])
    async with go_live(runner) as live:
        (question,) = await waiting(live, model, 1)
        assert question.id != "c1"
        assert about(question) == {"id": "c1", "name": "pay", "args": {"amount": 1}}
        await asyncio.sleep(60)
        assert (till.paid, model.connection.answers) == ([], [])
        assert (await live.send(yes(question))).state == "persisted"
        await until(live, lambda event: bool(event.function_responses))
        with pytest.raises(ToolResponseNotExpected):
            await live.send(yes(question))
    assert till.paid == [1]
    assert [(each.id, each.response) for each in model.connection.answers] == [("c1", {"paid": 1})]
    kept = await stored(runner)
    assert in_short(list(kept)) == ["call pay", f"call {CONFIRM}", f"resp {CONFIRM}", "resp pay"]
    assert [event.author for event in kept] == ["agent", "agent", "user", "agent"]
    assert kept[1].long_running_tool_ids == [question.id]
    assert kept[0].long_running_tool_ids == []


# contract: LIVE-17, HITL-06
# case: K-LTOOL-13, K-CONF-04
async def test_a_denied_call_is_answered_with_an_error_that_names_the_tool() -> None:
    till, model = Till(), PuppetModel()
    runner = live_runner(model, tools=[till.tool()])
    async with go_live(runner) as live:
        (question,) = await waiting(live, model, 1)
        await live.send(no(question))
        await until(live, lambda event: bool(event.function_responses))
    assert till.paid == []
    ((call_id, response),) = [(each.id, each.response or {}) for each in model.connection.answers]
    assert call_id == "c1"
    assert "'pay'" in response["error"]
    assert results(await stored(runner)) == [("c1", response)]


# report: A72
# contract: LIVE-17
async def test_results_come_before_questions_in_call_order_and_the_other_calls_are_answered_at_once() -> None:
    def look() -> str:
        """Look."""
        return "seen"

    till, model = Till(), PuppetModel()
    runner = live_runner(model, tools=[till.tool(), look])
    async with go_live(runner) as live:
        model.connection.say(ToolCalls((*pays(1).calls, FunctionCall(id="look", name="look", args={}), *pays(2, 3).calls)))
        got = await until(live, asks)
        assert in_short(list(got)) == ["call pay look pay pay", "resp look", f"call {CONFIRM} {CONFIRM} {CONFIRM}"]
        one, two, three = questions(got)
        await asyncio.sleep(1)
        assert [each.id for each in model.connection.answers] == ["look"]
        await live.send(yes(three))
        await live.send(answer((two, True), (one, False)))
        await recorded(runner, lambda events: len(results(events)) == 4)
    assert sorted(till.paid) == [2, 3]
    assert sorted(each.id or "" for each in model.connection.answers) == ["c1", "c2", "c3", "look"]


# contract: LIVE-12, LIVE-17
async def test_audio_flows_and_the_user_talks_on_while_a_call_waits() -> None:
    till, model = Till(), PuppetModel()
    runner = live_runner(model, tools=[till.tool()])
    async with go_live(runner) as live:
        await waiting(live, model, 1)
        began = asyncio.get_running_loop().time()
        live.push_audio(bytes(1280))
        model.connection.say(AudioOut(bytes(1920)), spoke("Please confirm."), TurnComplete())
        got = await until(live, lambda event: event.turn_complete)
        assert asyncio.get_running_loop().time() == began
    assert in_short(list(got))[-1] == "done"
    assert model.connection.audio_bytes == 1280


# contract: LIVE-11, HITL-06
async def test_a_decision_does_not_wait_for_words_that_are_still_coming_in() -> None:
    till, model = Till(), PuppetModel()
    runner = live_runner(model, tools=[till.tool()])
    async with go_live(runner) as live:
        model.connection.say(spoke("I will pay as soon as"), pays(1))
        await asyncio.sleep(1)
        assert await stored(runner) == []
        await live.confirm("c1", approve=True, shown=digest({"amount": 1}))
        await asyncio.sleep(0)
        assert till.paid == [1]
    assert in_short(list(await stored(runner)))[:3] == ["call pay", f"call {CONFIRM}", f"resp {CONFIRM}"]


# contract: HITL-06
async def test_a_decision_names_the_arguments_that_were_shown() -> None:
    till, model = Till(), PuppetModel()
    runner = live_runner(model, tools=[till.tool()])
    async with go_live(runner) as live:
        await waiting(live, model, 10)
        for call_id, shown in (("c10", digest({"amount": 1})), ("c11", digest({"amount": 10}))):
            with pytest.raises(ToolResponseNotExpected):
                await live.confirm(call_id, approve=True, shown=shown)
        await live.confirm("c10", approve=True, shown=digest({"amount": 10}))
        await until(live, lambda event: bool(event.function_responses))
    assert till.paid == [10]


# contract: HITL-04, LIVE-06
@pytest.mark.parametrize("body", [{"response": {"confirmed": "true"}}, {"confirmed": 1}])
async def test_an_answer_that_says_neither_yes_nor_no_leaves_the_call_waiting(body: Any) -> None:
    till, model = Till(), PuppetModel()
    runner = live_runner(model, tools=[till.tool()])
    async with go_live(runner) as live:
        (question,) = await waiting(live, model, 1)
        with pytest.raises(InvalidInput):
            await live.send(answer((question, body)))
        mixed = Content(parts=[*(yes(question).parts or ()), Part(text="and hello")])
        for refused in (mixed, answer(("nobody-asked", True)), answer((question, True), (question, True))):
            with pytest.raises(ToolResponseNotExpected):
                await live.send(refused)
        direct = Content(parts=[Part(function_response=FunctionResponse(id="c1", name="pay", response={"paid": 1}))])
        with pytest.raises(ToolResponseNotExpected):
            await live.send(direct)
        assert in_short(list(await stored(runner))) == ["call pay", f"call {CONFIRM}"]
        await live.send(yes(question))
        await until(live, lambda event: bool(event.function_responses))
    assert till.paid == [1]


# contract: LIVE-17
# case: K-LTOOL-13
async def test_a_call_that_the_model_cancels_while_it_waits_is_recorded_and_a_late_approval_refused() -> None:
    till, model = Till(), PuppetModel()
    runner = live_runner(model, tools=[till.tool()])
    async with go_live(runner) as live:
        (question,) = await waiting(live, model, 1)
        model.connection.say(ToolCallsCancelled(("c1",)))
        await until(live, lambda event: bool(event.function_responses))
        with pytest.raises(ToolResponseNotExpected):
            await live.send(yes(question))
    assert (till.paid, model.connection.answers) == ([], [])
    assert results(await stored(runner)) == [("c1", {"error": "cancelled"})]


# contract: LIVE-23, HITL-06
async def test_the_end_of_the_session_cancels_what_waits_and_a_late_approval_is_refused_everywhere() -> None:
    till, model = Till(), PuppetModel()
    runner = live_runner(model, tools=[till.tool()], model=ScriptedModel([]))
    async with go_live(runner) as live:
        (question,) = await waiting(live, model, 1)
    assert results(await stored(runner)) == [("c1", {"error": "cancelled"})]
    async with go_live(runner) as live:
        with pytest.raises(ToolResponseNotExpected):
            await live.send(yes(question))
    with pytest.raises(ToolResponseNotExpected):
        async for _ in runner.run(user_id="u", session_id="s", message=yes(question)):
            pass
    assert till.paid == []


# contract: HITL-06, STATE-07
async def test_a_text_run_may_decide_about_a_call_that_waits_in_live_and_one_of_two_decisions_counts() -> None:
    till, model = Till(), PuppetModel()
    runner = live_runner(model, tools=[till.tool()], model=ScriptedModel(["Paid."]))
    async with go_live(runner) as live:
        (question,) = await waiting(live, model, 1)
        async for _ in runner.run(user_id="u", session_id="s", message=yes(question)):
            pass
        with pytest.raises(ToolResponseNotExpected):
            await live.send(yes(question))
        await asyncio.sleep(1)
        assert [each.id for each in model.connection.answers] == ["c1"]
    assert till.paid == [1]
    assert results(await stored(runner)) == [("c1", {"paid": 1})]


# contract: HITL-06, HITL-05
async def test_a_call_whose_live_session_died_is_decided_about_by_a_text_run() -> None:
    till, model = Till(), PuppetModel()
    sessions = FaultySessionService(InMemorySessionService())
    runner = live_runner(model, tools=[till.tool()], sessions=sessions)
    async with go_live(runner) as live:
        (question,) = await waiting(live, model, 1)
        sessions.break_down()  # the process is gone: nothing more is recorded
    sessions.repair()
    other = PuppetModel()
    fresh = live_runner(other, tools=[till.tool()], model=ScriptedModel(["Paid."]), sessions=sessions)
    async with go_live(fresh) as live:
        with pytest.raises(ToolResponseNotExpected):
            await live.send(yes(question))
    async for _ in fresh.run(user_id="u", session_id="s", message=yes(question)):
        pass
    assert till.paid == [1]
    assert results(await stored(fresh)) == [("c1", {"paid": 1})]


# contract: HITL-06
async def test_a_decision_that_the_store_does_not_take_counts_for_nothing_and_can_be_made_again() -> None:
    till, model = Till(), PuppetModel()
    sessions = FaultySessionService(InMemorySessionService())
    runner = live_runner(model, tools=[till.tool()], sessions=sessions)
    async with go_live(runner) as live:
        (question,) = await waiting(live, model, 1)
        sessions.fail_append(1, StorageError("full"))
        with pytest.raises(NotDelivered):
            await live.send(yes(question))
        assert till.paid == []
        await live.send(yes(question))
        await until(live, lambda event: bool(event.function_responses))
    assert till.paid == [1]


# contract: HITL-06
async def test_a_decision_is_carried_out_though_nobody_waits_for_it_any_more() -> None:
    till, model = Till(), PuppetModel()
    sessions = FaultySessionService(InMemorySessionService())
    runner = live_runner(model, tools=[till.tool()], sessions=sessions)
    async with go_live(runner) as live:
        (question,) = await waiting(live, model, 1)
        sessions.slow_appends(2)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await live.send(yes(question))
        assert till.paid == []
        await until(live, lambda event: bool(event.function_responses))
    assert till.paid == [1]


# contract: LIVE-17
async def test_a_call_cancelled_while_its_approval_is_being_stored_does_not_run() -> None:
    till, model = Till(), PuppetModel()
    sessions = FaultySessionService(InMemorySessionService())
    runner = live_runner(model, tools=[till.tool()], sessions=sessions)
    async with go_live(runner) as live, asyncio.TaskGroup() as group:
        (question,) = await waiting(live, model, 1)
        sessions.slow_appends(2)
        group.create_task(_send(live, yes(question)))
        await asyncio.sleep(1)
        model.connection.say(ToolCallsCancelled(("c1",)))
        await recorded(runner, lambda events: len(results(events)) == 1)
    assert (till.paid, model.connection.answers) == ([], [])


async def _send(live: LiveSession, content: Content) -> None:
    await live.send(content)


# contract: LIVE-17
async def test_a_long_running_call_that_was_approved_waits_for_its_answer_from_outside() -> None:
    started: list[str] = []

    @tool(long_running=True, require_confirmation=True)
    async def bake(dish: str) -> None:
        """Bake."""
        started.append(dish)

    model = PuppetModel()
    runner = live_runner(model, tools=[bake])
    final = Content(parts=[Part(function_response=FunctionResponse(id="c1", name="bake", response={"done": True}))])
    async with go_live(runner) as live:
        model.connection.say(ToolCalls((FunctionCall(id="c1", name="bake", args={"dish": "bread"}),)))
        (question,) = questions(await until(live, asks))
        with pytest.raises(ToolResponseNotExpected):
            await live.send(final)
        await live.send(yes(question))
        await asyncio.sleep(0.1)
        assert (started, model.connection.answers) == (["bread"], [])
        assert (await live.send(final)).state == "delivered"
    assert [(each.id, each.response) for each in model.connection.answers] == [("c1", {"done": True})]


# contract: LIVE-17
async def test_a_tool_asks_by_itself_and_sees_the_answer() -> None:
    @tool(effect="write")
    async def order(item: str, ctx: ToolContext) -> Any:
        """Order."""
        if ctx.confirmation is None:
            ctx.request_confirmation(hint=f"Order {item}?")
            return None
        return {"count": ctx.confirmation.payload}

    model = PuppetModel()
    runner = live_runner(model, tools=[order])
    async with go_live(runner) as live:
        model.connection.say(ToolCalls((FunctionCall(id="c1", name="order", args={"item": "tea"}),)))
        (question,) = questions(await until(live, asks))
        assert (question.args or {})["toolConfirmation"]["hint"] == "Order tea?"
        await live.send(answer((question, {"confirmed": True, "payload": 3})))
        await until(live, lambda event: bool(event.function_responses))
    assert [each.response for each in model.connection.answers] == [{"count": 3}]


# contract: GW-02
async def test_every_stage_is_shown_at_once() -> None:
    till, model = Till(), PuppetModel()
    runner = live_runner(model, tools=[till.tool()])
    items: list[LiveItem] = []
    async with go_live(runner) as live, asyncio.TaskGroup() as group:
        group.create_task(_listen(live, items))
        model.connection.say(pays(1, 2))
        await asyncio.sleep(1)
        await live.confirm("c1", approve=True, shown=digest({"amount": 1}))
        await live.confirm("c2", approve=False, shown=digest({"amount": 2}))
        await asyncio.sleep(1)
        await live.close()
    stages = [item for item in items if isinstance(item, ToolStarted | ToolRunning | ToolFinished)]
    assert [_stage(item) for item in stages if item.call == "c1"] == ["called", "asked", "waiting_confirm", "running", "done"]
    assert [_stage(item) for item in stages if item.call == "c2"] == ["called", "asked", "waiting_confirm", "denied"]
    assert not [item for item in items if isinstance(item, Failure)]


def _stage(item: ToolStarted | ToolRunning | ToolFinished) -> str:
    match item:
        case ToolRunning():
            return "running"
        case ToolFinished(status=status):
            return status
        case ToolStarted(needs_confirm=asked):
            return "asked" if asked else "called"


async def _listen(live: LiveSession, items: list[LiveItem]) -> None:
    items.extend([item async for item in live.items()])


# contract: HITL-06
async def test_a_decision_waits_until_plugins_have_seen_the_question() -> None:
    class Slow(Plugin):
        async def on_event(self, invocation: Any, event: Event) -> None:
            await asyncio.sleep(1)

    till, model = Till(), PuppetModel()
    runner = live_runner(model, tools=[till.tool()], plugins=[Slow("slow")])
    async with go_live(runner) as live:
        model.connection.say(pays(1))
        await asyncio.sleep(0.1)
        await live.confirm("c1", approve=True, shown=digest({"amount": 1}))
        await recorded(runner, lambda events: len(results(events)) == 1)
    assert in_short(list(await stored(runner))) == ["call pay", f"call {CONFIRM}", f"resp {CONFIRM}", "resp pay"]
    assert till.paid == [1]


# contract: LIVE-27
async def test_the_decision_is_yielded_to_whoever_wants_what_was_sent() -> None:
    till, model = Till(), PuppetModel()
    runner = live_runner(model, tools=[till.tool()])
    async with go_live(runner, yield_user_message=True) as live:
        (question,) = await waiting(live, model, 1)
        await live.send(yes(question))
        got = await until(live, lambda event: event.author == "agent" and bool(event.function_responses))
    assert [event.author for event in got] == ["user", "agent"]
    assert got[0].id == decision_id(question.id or "")


# contract: HITL-06, HITL-05
async def test_a_call_that_was_approved_in_a_session_that_died_is_on_record_when_the_next_one_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    till, model = Till(), PuppetModel()
    till.gate = asyncio.Event()
    sessions = FaultySessionService(InMemorySessionService())
    runner = live_runner(model, tools=[till.tool()], sessions=sessions)
    async with go_live(runner) as live:
        (question,) = await waiting(live, model, 1)
        await live.send(yes(question))
        sessions.break_down()  # the process is gone: nothing more is recorded
    sessions.repair()
    assert (till.paid, results(await stored(runner))) == ([1], [])
    then = (await stored(runner))[-1].timestamp + INTERRUPTED_S
    monkeypatch.setattr("live_gateway.agents.interrupted.time.time", lambda: then)
    for _ in range(2):
        async with go_live(live_runner(PuppetModel(), tools=[till.tool()], sessions=sessions)):
            pass
    assert results(await stored(runner)) == [("c1", {"error": INTERRUPTED})]
    assert till.paid == [1]
