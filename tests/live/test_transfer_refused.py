"""Transfers that do not come to pass, and who goes live where tasks are about."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from live_gateway.agents.llm import LlmAgent
from live_gateway.content import FunctionCall, Part, model_content, text_of
from live_gateway.errors import ConfigurationError, UpstreamLost
from live_gateway.events import Event, EventActions, replace
from live_gateway.models.base import ModelResponse
from live_gateway.models.live import ToolCalls
from live_gateway.sessions.memory import InMemorySessionService
from live_gateway.testing import FaultySessionService
from live_gateway.testing.steps import Step, call, emit, end, expect_tool_responses, hang, pause, say
from tests.support.families import completes, family, hand_over, model_of, scripted, transfer, verified
from tests.support.live import all_of, go_live, in_short, stored
from tests.support.puppet_model import Leaving, PuppetModel
from tests.support.runs import Recorder

pytestmark = pytest.mark.virtual_time


class OnResponse(Recorder):
    """Refuses or changes what hands over."""

    def __init__(self, answer: Any) -> None:
        super().__init__([])
        self.answer = answer

    async def on_event(self, invocation: Any, event: Event) -> Event | None:
        if event.actions.transfer_to_agent is None:
            return None
        if isinstance(self.answer, Exception):
            raise self.answer
        return replace(event, actions=EventActions())


# contract: LIVE-21, LIVE-17, PLUG-04
@pytest.mark.parametrize("answer", [ValueError("no"), None])
async def test_a_plugin_that_takes_the_transfer_out_keeps_the_session_where_it_is(answer: Any) -> None:
    bills = scripted("bills")
    script: list[Step] = [hand_over("bills"), expect_tool_responses("t-1"), say("Then I answer."), end()]
    root = scripted("root", script, sub_agents=[bills])
    runner = family(root, plugins=[OnResponse(answer)])
    async with go_live(runner) as live:
        got = await all_of(live)
        assert live.agent is root
    assert ("error PluginError" in in_short(got)) == (answer is not None)
    assert "done" in in_short(got)
    verified(root, bills)


# contract: LIVE-15, LIVE-21
async def test_a_transfer_that_the_store_does_not_take_does_not_happen() -> None:
    sessions = FaultySessionService(InMemorySessionService())

    async def fail() -> str:
        """Let the third event from here on be lost: the response of the transfer."""
        sessions.fail_append(3)
        return "broken"

    bills = scripted("bills")
    script: list[Step] = [
        call("fail"),
        expect_tool_responses("fc-1"),
        hand_over("bills"),
        expect_tool_responses("t-1"),
        say("Still me."),
        end(),
    ]
    root = scripted("root", script, tools=[fail], sub_agents=[bills])
    runner = family(root, sessions=sessions)
    async with go_live(runner) as live:
        got = await all_of(live)
    assert [word for word in in_short(got) if word.startswith("error")] == ["error StorageError"]
    kept = await stored(runner)
    assert [call.name for event in kept for call in event.function_calls] == ["fail", "transfer_to_agent"]
    assert all(event.actions.transfer_to_agent is None for event in kept)
    verified(root, bills)


# contract: LIVE-11, LIVE-21
async def test_calls_made_together_with_a_transfer_are_answered_in_the_record_first() -> None:
    async def slow() -> str:
        """Take a second."""
        await asyncio.sleep(1)
        return "done"

    both = emit(
        ToolCalls(
            (FunctionCall(id="c-1", name="slow", args={}), FunctionCall(id="t-1", name="transfer_to_agent", args={"agent_name": "bills"}))
        )
    )
    bills = scripted("bills", [say("Three."), end()])
    root = scripted("root", [both, hang()], tools=[slow], sub_agents=[bills])
    runner = family(root)
    async with go_live(runner) as live:
        await all_of(live)
    answers = [answer.response for event in await stored(runner) for answer in event.function_responses]
    assert answers == [{"result": "done"}, {"status": "bills goes on with the conversation."}]
    verified(root, bills)


# contract: PLUG-08, LIVE-21
async def test_the_answers_of_one_who_takes_over_pass_its_own_after_model() -> None:
    async def loud(_invocation: object, response: ModelResponse) -> ModelResponse | None:
        return None if response.partial else ModelResponse(content=_upper(response))

    bills = scripted("bills", [say("Three."), end()], after_model=loud)
    root = scripted("root", [say("I ask.", complete=False), *transfer("bills")], sub_agents=[bills])
    runner = family(root)
    async with go_live(runner) as live:
        await all_of(live)
    assert [event.output_transcription.text for event in await stored(runner) if event.output_transcription] == ["I ask.", "THREE."]


def _upper(response: ModelResponse) -> Any:
    return model_content([Part(text=text_of(response.content).upper())])


# contract: PICK-04, PICK-05
async def test_in_live_too_a_root_with_tasks_goes_on_and_a_task_is_no_root() -> None:
    helper = scripted("helper", completes())
    root = scripted("root", transfer("helper"), [end()], sub_agents=[helper, LlmAgent(name="worker", mode="task")])
    runner = family(root)
    for _ in range(2):
        async with go_live(runner) as live:
            assert live.agent is root
            await all_of(live)
    assert len(model_of(helper).connections) == 1
    with pytest.raises(ConfigurationError, match="root agent 'once' must be a chat LlmAgent"):
        async with go_live(family(scripted("once", mode="single_turn"))):
            pass


# contract: LIVE-17, LIVE-21
# report: A58
async def test_an_answer_that_still_waits_for_the_one_who_was_left_is_dropped_and_costs_nothing() -> None:
    async def quick() -> str:
        """Answer at once."""
        return "quick"

    bills = scripted("bills", [pause(1), say("Three."), end()])
    puppet = PuppetModel(leaving=Leaving(error=UpstreamLost("gone")))
    root = LlmAgent(name="root", live_model=puppet, tools=[quick], sub_agents=[bills])
    async with go_live(family(root)) as live:
        puppet.connection.sending.gate = asyncio.Event()  # it takes nothing, so the answer waits behind the audio
        puppet.connection.sending.before = UpstreamLost("closed")
        live.push_audio(bytes(1280))
        puppet.connection.say(ToolCalls((FunctionCall(id="c-1", name="quick", args={}),)))
        puppet.connection.say(ToolCalls((FunctionCall(id="t-1", name="transfer_to_agent", args={"agent_name": "bills"}),)))
        await asyncio.sleep(0.5)
        puppet.connection.sending.gate = None
        got = await all_of(live)
    assert puppet.connection.answers == []
    assert not [word for word in in_short(got) if word.startswith("error")]
    assert 'OUT "Three."' in in_short(got)
    verified(bills)


# contract: LIVE-21, LIVE-23
@pytest.mark.parametrize("steps", range(24))
async def test_closing_at_each_step_of_the_next_agents_opening_leaves_nothing_behind(steps: int) -> None:
    asked, gate = asyncio.Event(), asyncio.Event()

    async def slow(invocation: Any) -> None:
        asked.set()
        await gate.wait()

    bills = scripted("bills", [hang()], before_agent=slow)
    async with go_live(family(scripted("root", transfer("bills"), sub_agents=[bills]))) as live:
        await asked.wait()
        gate.set()
        for _ in range(steps):
            await asyncio.sleep(0)  # the loop goes one step on
        await live.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}
