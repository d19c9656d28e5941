"""Calls that wait for a person: how many may, and what there is no room for."""

from __future__ import annotations

import asyncio

import pytest

from live_gateway.content import Content, FunctionCall, FunctionResponse, Part, digest
from live_gateway.errors import NotDelivered, StorageError
from live_gateway.live.approvals import MAX_QUESTIONS
from live_gateway.live.items import Failure, LiveItem, ToolFinished
from live_gateway.live.pipeline import EventPipeline
from live_gateway.live.session import LiveSession
from live_gateway.models.live import ToolCalls, ToolCallsCancelled
from live_gateway.sessions.memory import InMemorySessionService
from live_gateway.sessions.writer import Slot
from live_gateway.testing import FaultySessionService
from tests.support.approvals import Till, about, pays, questions, results, waiting, yes
from tests.support.live import go_live, live_runner, stored, until
from tests.support.puppet_model import PuppetModel

pytestmark = pytest.mark.virtual_time


# contract: LIVE-17
async def test_only_so_many_calls_may_wait() -> None:
    till, model = Till(), PuppetModel()
    runner = live_runner(model, tools=[till.tool()])
    async with go_live(runner) as live:
        for first in range(0, MAX_QUESTIONS + 6, 10):
            model.connection.say(pays(*range(first, first + 10)))
            await asyncio.sleep(0.1)
        refused = [each for each in model.connection.answers if "already wait" in (each.response or {}).get("error", "")]
        assert len(questions(await stored(runner))) == MAX_QUESTIONS
        assert [each.id for each in refused] == [f"c{amount}" for amount in range(MAX_QUESTIONS, 70)]
        await live.confirm("c0", approve=False, shown=digest({"amount": 0}))
        await asyncio.sleep(0.1)
        model.connection.say(pays(100))
        await asyncio.sleep(0.1)
        assert about(questions(await stored(runner))[-1])["id"] == "c100"


# contract: HITL-06
async def test_a_decision_for_which_the_record_has_no_room_can_be_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    till, model = Till(), PuppetModel()
    runner = live_runner(model, tools=[till.tool()])

    async with go_live(runner) as live:
        (question,) = await waiting(live, model, 1)
        with monkeypatch.context() as patch:
            patch.setattr(EventPipeline, "reserve", _full)
            with pytest.raises(NotDelivered):
                await live.send(yes(question))
        await live.send(yes(question))
        await until(live, lambda event: bool(event.function_responses))
    assert till.paid == [1]


# contract: HITL-06, LIVE-17
async def test_a_decision_for_which_there_was_no_room_leaves_one_call_to_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    till, model, items = Till(), PuppetModel(), list[LiveItem]()

    async with asyncio.TaskGroup() as group, go_live(live_runner(model, tools=[till.tool()])) as live:
        group.create_task(_listen(live, items))
        model.connection.say(pays(1))
        await asyncio.sleep(0.1)
        with monkeypatch.context() as patch:
            patch.setattr(EventPipeline, "reserve", _full)
            with pytest.raises(NotDelivered):
                await live.confirm("c1", approve=True, shown=digest({"amount": 1}))
        model.connection.say(ToolCallsCancelled(("c1",)))
        await asyncio.sleep(0.1)
        await live.close()
    assert [item.status for item in items if isinstance(item, ToolFinished)] == ["waiting_confirm", "cancelled"]
    assert [item for item in items if isinstance(item, Failure)] == []


# contract: HITL-06
async def test_an_answer_without_a_name_is_known_by_the_id_of_its_question() -> None:
    till, model = Till(), PuppetModel()
    async with go_live(live_runner(model, tools=[till.tool()])) as live:
        (question,) = await waiting(live, model, 1)
        nameless = Part(function_response=FunctionResponse(id=question.id, response={"confirmed": True}))
        assert (await live.send(Content(role="user", parts=[nameless]))).state == "persisted"
        await until(live, lambda event: bool(event.function_responses))
    assert till.paid == [1]


# contract: LIVE-17
async def test_a_decision_on_its_way_to_the_store_still_takes_room() -> None:
    till, model = Till(), PuppetModel()
    sessions = FaultySessionService(InMemorySessionService())
    async with asyncio.TaskGroup() as group, go_live(live_runner(model, tools=[till.tool()], sessions=sessions)) as live:
        for first in range(0, MAX_QUESTIONS, 8):
            model.connection.say(pays(*range(first, first + 8)))
            await asyncio.sleep(0.1)
        sessions.slow_appends(0.5)
        group.create_task(live.confirm("c0", approve=False, shown=digest({"amount": 0})))
        await asyncio.sleep(0.1)
        model.connection.say(pays(100))
        await asyncio.sleep(3)
    assert [each.id for each in model.connection.answers] == ["c100", "c0"]


# contract: LIVE-17
async def test_a_call_that_was_to_be_asked_about_and_is_cancelled_before_is_not_asked_about() -> None:
    async def slow() -> str:
        """Take two seconds."""
        await asyncio.sleep(2)
        return "slow"

    till, model = Till(), PuppetModel()
    runner = live_runner(model, tools=[till.tool(), slow])
    async with go_live(runner):
        model.connection.say(ToolCalls((*pays(1).calls, FunctionCall(id="s1", name="slow", args={}))))
        await asyncio.sleep(1)
        model.connection.say(ToolCallsCancelled(("c1",)))
        await asyncio.sleep(5)
        kept = await stored(runner)
    assert questions(kept) == []
    assert results(kept) == [("c1", {"error": "cancelled"}), ("s1", {"result": "slow"})]
    assert [answer.id for answer in model.connection.answers] == ["s1"]


async def _listen(live: LiveSession, items: list[LiveItem]) -> None:
    items.extend([item async for item in live.items()])


def _full(pipeline: EventPipeline) -> Slot:
    raise StorageError("full")
