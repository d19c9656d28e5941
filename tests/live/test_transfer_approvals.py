"""What waits for somebody, and what is recorded, when an agent hands over."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable
from pathlib import Path

import pytest
import soundfile

from live_gateway.agents.config import LiveRunConfig
from live_gateway.agents.llm import LlmAgent
from live_gateway.content import TRANSFER_TO_AGENT, Content, FunctionCall, FunctionResponse, Part
from live_gateway.errors import DeliveryUnknown, GatewayError, NotDelivered, ToolResponseNotExpected
from live_gateway.live.leg import Leg
from live_gateway.live.session import LiveSession
from live_gateway.models.live import Activity, AudioOut, ToolCalls, TurnComplete
from live_gateway.runner import Runner
from live_gateway.sessions.memory import InMemorySessionService
from live_gateway.testing import FaultySessionService
from live_gateway.testing.scripted_model import ScriptedModel
from live_gateway.tools.function import FunctionTool
from tests.support.approvals import no, questions, results, yes
from tests.support.live import go_live, live_runner, stored
from tests.support.puppet_model import PuppetModel

pytestmark = pytest.mark.virtual_time


class Vault:
    """A tool that asks first, two agents that have it, and a store that can be slow."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.model = PuppetModel()
        self.sessions = FaultySessionService(InMemorySessionService())
        tools = [FunctionTool(self.open, require_confirmation=True), FunctionTool(self.order, long_running=True)]
        guard = LlmAgent(name="guard", live_model=self.model, tools=tools, model=ScriptedModel(["Well."] * 9))
        self.runner: Runner = live_runner(
            self.model, tools=tools, sessions=self.sessions, sub_agents=[guard], model=ScriptedModel(["Well."] * 9)
        )

    async def open(self) -> str:
        """Open it."""
        self.opened.append("open")
        return "open"

    async def order(self) -> None:
        """Order a key; the answer comes from outside."""

    async def asked(self) -> FunctionCall:
        """The question about a call that the model makes now."""
        self.model.connection.say(ToolCalls((FunctionCall(id="c1", name="open", args={}),)))
        await asyncio.sleep(0.1)
        (question,) = questions(await stored(self.runner))
        return question

    async def ordered(self) -> Content:
        """The answer from outside to a call that the model makes now."""
        self.model.connection.say(ToolCalls((FunctionCall(id="c1", name="order", args={}),)))
        await asyncio.sleep(0.1)
        return Content(role="user", parts=[Part(function_response=FunctionResponse(id="c1", name="order", response={"key": 7}))])

    def hand_over(self, call_id: str = "t1", to: str = "guard") -> None:
        self.model.connection.say(ToolCalls((FunctionCall(id=call_id, name=TRANSFER_TO_AGENT, args={"agent_name": to}),)))

    async def decide_in_text(self, question: FunctionCall) -> None:
        async for _ in self.runner.run(user_id="u", session_id="s", message=no(question)):
            pass

    async def results(self) -> list[object]:
        """The responses that the call has in the record."""
        return [response for call_id, response in results(await stored(self.runner)) if call_id == "c1"]


def legs() -> int:
    """How many there are."""
    gc.collect()
    return sum(isinstance(each, Leg) for each in gc.get_objects())


async def decide(live: LiveSession, question: FunctionCall) -> str:
    try:
        return (await live.send(yes(question))).state
    except (GatewayError, ToolResponseNotExpected) as error:
        return type(error).__name__


# contract: LIVE-21, HITL-06
async def test_what_waits_when_an_agent_hands_over_is_cancelled_and_a_late_decision_is_refused_everywhere() -> None:
    vault = Vault()
    async with go_live(vault.runner) as live:
        question = await vault.asked()
        vault.hand_over()
        await asyncio.sleep(1)
        assert live.agent.name == "guard"
        assert await decide(live, question) == "ToolResponseNotExpected"
        with pytest.raises(ToolResponseNotExpected):
            await vault.decide_in_text(question)
    assert await vault.results() == [{"error": "cancelled"}]
    assert vault.opened == []
    assert [answer.id for answer in vault.model.answers] == []


# contract: LIVE-21, HITL-06
async def test_a_decision_on_its_way_to_the_store_when_an_agent_hands_over_is_kept_and_its_call_cancelled() -> None:
    vault = Vault()
    async with asyncio.TaskGroup() as group, go_live(vault.runner) as live:
        question = await vault.asked()
        vault.sessions.slow_appends(0.3)
        vault.hand_over()
        await asyncio.sleep(0.1)
        decided = group.create_task(decide(live, question))
        await asyncio.sleep(5)
        assert live.agent.name == "guard"
        assert decided.result() == "persisted"
        assert await vault.results() == [{"error": "cancelled"}]
    assert vault.opened == []
    assert len(await vault.results()) == 1


# contract: LIVE-21, HITL-06
async def test_a_decision_that_comes_second_while_an_agent_hands_over_leaves_the_result_to_the_first() -> None:
    vault = Vault()
    async with asyncio.TaskGroup() as group, go_live(vault.runner) as live:
        question = await vault.asked()
        vault.sessions.slow_appends(0.3)
        vault.hand_over()
        await asyncio.sleep(0.1)
        first = group.create_task(vault.decide_in_text(question))
        second = group.create_task(decide(live, question))
        await asyncio.sleep(10)
        assert live.agent.name == "guard"
        assert (first.done(), second.result()) == (True, "ToolResponseNotExpected")
    (result,) = await vault.results()
    assert "rejected by the user" in str(result)
    assert vault.opened == []


# contract: LIVE-21
@pytest.mark.parametrize("handed_over", [True, False])
async def test_a_call_that_is_answered_from_outside_is_cancelled_by_a_hand_over_and_outlives_the_session(handed_over: bool) -> None:
    vault = Vault()
    async with go_live(vault.runner) as live:
        answer = await vault.ordered()
        if handed_over:
            vault.hand_over()
            await asyncio.sleep(1)
            with pytest.raises(ToolResponseNotExpected):
                await live.send(answer)
    assert await vault.results() == ([{"error": "cancelled"}] if handed_over else [])


# contract: LIVE-21, LIVE-07
async def test_an_answer_from_outside_that_waits_to_be_sent_when_an_agent_hands_over_reaches_nobody_and_the_call_is_cancelled() -> None:
    vault = Vault()
    async with asyncio.TaskGroup() as group, go_live(vault.runner) as live:
        answer = await vault.ordered()
        vault.model.connection.sending.gate = asyncio.Event()
        stuck = group.create_task(_quietly(live.activity(Activity.START)))
        await asyncio.sleep(0.1)
        waiting = group.create_task(_quietly(live.send(answer)))
        await asyncio.sleep(0.1)
        vault.hand_over()
        await asyncio.sleep(2)
        assert live.agent.name == "guard"
        assert isinstance(stuck.result(), DeliveryUnknown)
        assert isinstance(waiting.result(), NotDelivered)
        with pytest.raises(ToolResponseNotExpected):
            await live.send(answer)
    assert [answer.id for answer in vault.model.answers] == []
    assert await vault.results() == [{"error": "cancelled"}]


async def _quietly(sending: Awaitable[object]) -> object:
    try:
        return await sending
    except (GatewayError, NotDelivered, DeliveryUnknown) as error:
        return error


# contract: LIVE-21, LIVE-23
async def test_two_hundred_transfers_of_a_recorded_call_leave_nothing_behind(tmp_path: Path) -> None:
    vault = Vault()
    before = legs()
    async with go_live(vault.runner, config=LiveRunConfig(record_to=tmp_path)) as live:
        await asyncio.sleep(0.1)
        tasks = sorted(task.get_name() for task in asyncio.all_tasks())
        for number in range(200):
            vault.model.connection.say(AudioOut(bytes(4_800)), TurnComplete())
            live.push_audio(bytes(3_200))
            await asyncio.sleep(0.1)
            to = "guard" if live.agent.name == "agent" else "agent"
            vault.hand_over(f"t{number}", to)
            await asyncio.sleep(0.1)
            assert live.agent.name == to
        assert sorted(task.get_name() for task in asyncio.all_tasks()) == tasks
        assert sum(connection.left_at is None for connection in vault.model.connections) == 1
        del vault.model.connections[:-1]  # whose setup knows its agent
        assert legs() - before <= 2
    (recording,) = tmp_path.glob("*.wav")
    info = soundfile.info(recording)
    assert (info.channels, info.samplerate) == (2, 24_000)
    assert info.duration == pytest.approx(40, abs=0.5)
