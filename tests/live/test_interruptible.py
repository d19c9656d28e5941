"""Tools that end when the user interrupts, and those that do not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from live_gateway.agents.config import LiveRunConfig
from live_gateway.content import FunctionCall, user_content
from live_gateway.live.items import LiveItem, ToolFinished
from live_gateway.live.session import LiveSession
from live_gateway.models.live import Activity, Interrupted, SpeechStarted, ToolCalls, ToolCallsCancelled, VoiceActivityConfig
from live_gateway.tools.function import FunctionTool, tool
from tests.support.approvals import answer, questions, results
from tests.support.live import go_live, live_runner, stored, until
from tests.support.puppet_model import PuppetModel

pytestmark = pytest.mark.virtual_time


class Searches:
    """Two tools that take five seconds; the first one ends with an interruption."""

    def __init__(self, **options: Any) -> None:
        self.ended: list[str] = []
        self.tools = [FunctionTool(self.look, cancel_on_interrupt=True, **options), FunctionTool(self.order)]

    async def look(self) -> str:
        """Look for something."""
        return await self._take("look")

    async def order(self) -> str:
        """Order something."""
        return await self._take("order")

    async def _take(self, name: str) -> str:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            self.ended.append(f"{name} cancelled")
            raise
        self.ended.append(name)
        return name


BOTH = ToolCalls((FunctionCall(id="c1", name="look", args={}), FunctionCall(id="c2", name="order", args={})))
Interruption = Callable[[LiveSession, PuppetModel], Awaitable[object]]


async def speaks(live: LiveSession, model: PuppetModel) -> None:
    model.connection.say(SpeechStarted())


async def model_says_so(live: LiveSession, model: PuppetModel) -> None:
    model.connection.say(Interrupted())


async def types(live: LiveSession, model: PuppetModel) -> None:
    await live.send(user_content("never mind"))


async def stops(live: LiveSession, model: PuppetModel) -> None:
    await live.interrupt()


async def pushes_to_talk(live: LiveSession, model: PuppetModel) -> None:
    await live.activity(Activity.START)


# contract: LIVE-17
# case: K-LTOOL-18
# report: A35
@pytest.mark.parametrize("interrupts", [speaks, model_says_so, types, stops, pushes_to_talk])
async def test_a_user_who_interrupts_ends_the_tools_that_opted_in_and_each_call_is_answered_once(interrupts: Interruption) -> None:
    searches, model = Searches(), PuppetModel()
    runner = live_runner(model, tools=searches.tools)
    items: list[LiveItem] = []
    async with go_live(runner) as live, asyncio.TaskGroup() as group:
        group.create_task(_listen(live, items))
        model.connection.say(BOTH)
        await asyncio.sleep(1)
        await interrupts(live, model)
        await asyncio.sleep(0.1)
        assert searches.ended == ["look cancelled"]
        model.connection.say(ToolCallsCancelled(("c3",)))
        await asyncio.sleep(5)
        await live.close()
    assert searches.ended == ["look cancelled", "order"]
    expected = [("c1", {"error": "cancelled", "reason": "the user interrupted"}), ("c2", {"result": "order"})]
    assert [(each.id, each.response) for each in model.connection.answers] == expected
    assert results(await stored(runner)) == expected
    ends = [(item.call, item.status) for item in items if isinstance(item, ToolFinished)]
    assert ends == [("c1", "cancelled"), ("c2", "done")]


async def _listen(live: LiveSession, items: list[LiveItem]) -> None:
    items.extend([item async for item in live.items()])


# case: K-LTOOL-18
async def test_where_speech_does_not_interrupt_it_ends_no_tool() -> None:
    searches, model = Searches(), PuppetModel()
    runner = live_runner(model, tools=searches.tools)
    config = LiveRunConfig(voice_activity=VoiceActivityConfig(interrupts=False))
    async with go_live(runner, config=config) as live:
        model.connection.say(BOTH)
        await asyncio.sleep(1)
        model.connection.say(SpeechStarted())
        await until(live, lambda event: bool(event.function_responses))
    assert sorted(searches.ended) == ["look", "order"]


# case: K-LTOOL-18
async def test_a_call_that_the_model_cancels_after_the_interruption_is_not_answered_twice() -> None:
    searches, model = Searches(), PuppetModel()
    runner = live_runner(model, tools=searches.tools)
    async with go_live(runner) as live:
        model.connection.say(BOTH)
        await asyncio.sleep(1)
        model.connection.say(Interrupted(), ToolCallsCancelled(("c1", "c2")))
        await until(live, lambda event: bool(event.function_responses))
    assert model.connection.answers == []
    assert [call for call, _ in results(await stored(runner))] == ["c1", "c2"]


# case: K-LTOOL-18
async def test_a_call_that_waits_for_approval_outlasts_an_interruption() -> None:
    searches, model = Searches(require_confirmation=True), PuppetModel()
    runner = live_runner(model, tools=searches.tools)
    async with go_live(runner) as live:
        model.connection.say(ToolCalls(BOTH.calls[:1]))
        (question,) = questions(await until(live, lambda event: bool(questions([event]))))
        model.connection.say(SpeechStarted())
        await asyncio.sleep(1)
        await live.send(answer((question, True)))
        await until(live, lambda event: bool(event.function_responses))
    assert searches.ended == ["look"]


# case: K-LTOOL-18
async def test_a_tool_that_will_not_stop_is_answered_at_once_and_its_late_result_dropped() -> None:
    @tool(cancel_on_interrupt=True)
    async def stubborn() -> str:
        """Take three seconds to stop."""
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(3)
        return "late"

    model = PuppetModel()
    runner = live_runner(model, tools=[stubborn])
    async with go_live(runner) as live:
        model.connection.say(ToolCalls((FunctionCall(id="c1", name="stubborn", args={}),)))
        await asyncio.sleep(1)
        model.connection.say(SpeechStarted())
        await until(live, lambda event: bool(event.function_responses))
        await asyncio.sleep(5)
    assert len(model.connection.answers) == 1
    assert len(results(await stored(runner))) == 1
