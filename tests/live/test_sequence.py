"""Agents that hold a live session one after the other."""

from __future__ import annotations

import asyncio

import pytest

from live_gateway.agents.llm import LlmAgent
from live_gateway.agents.sequential import SequentialAgent
from live_gateway.content import TASK_COMPLETED, TRANSFER_TO_AGENT, user_content
from live_gateway.errors import ConfigurationError, ModelUnavailable, UpstreamLost
from live_gateway.testing.steps import end, expect_content, hang, on_connect, pause, say
from tests.support.families import completes, family, model_of, scripted, transfer, verified
from tests.support.live import all_of, go_live, stored, until
from tests.support.runs import Recorder, saying, snapshot

pytestmark = pytest.mark.virtual_time


# contract: LIVE-21
# case: K-LSEQ-01
async def test_one_after_the_other_each_with_its_own_messages() -> None:
    first = scripted("first", [say("Who?"), expect_content("to agent 1"), *completes()])
    second = scripted("second", [on_connect(pause(1)), say("What?"), expect_content("to agent 2"), end()])
    runner = family(SequentialAgent(name="steps", sub_agents=[first, second]))
    async with go_live(runner) as live:
        asked = await until(live, lambda event: event.turn_complete)
        assert {event.author for event in asked} == {"first"}
        await live.send(user_content("to agent 1"))
        asked = await until(live, lambda event: event.turn_complete)
        assert {event.author for event in asked if event.partial} == {"second"}
        with pytest.raises(UpstreamLost):  # closed by now
            await model_of(first).connection.send_content(user_content("too late"))
        await live.send(user_content("to agent 2"))
        await all_of(live)
    verified(first, second)
    assert [event.text for event in await stored(runner) if event.author == "user"] == ["to agent 1", "to agent 2"]


# case: K-LSEQ-01
async def test_what_is_sent_in_between_goes_to_the_next_one() -> None:
    first = scripted("first", completes())
    second = scripted("second", [on_connect(pause(1)), expect_content("hello"), end()])
    async with go_live(family(SequentialAgent(name="steps", sub_agents=[first, second]))) as live:
        await until(live, lambda event: bool(event.function_responses))
        await live.send(user_content("hello"))
        await all_of(live)
    verified(first, second)


# contract: NEW-08
# case: K-LSEQ-02
# case: K-LSEQ-06
async def test_each_has_the_tool_and_the_words_for_it_once_and_is_as_it_was() -> None:
    def look() -> str:
        """Look."""
        return "seen"

    first = scripted("first", completes(), completes(), instruction="Ask.", tools=[look])
    second = scripted("second", completes(), completes(), instruction="Note.")
    runner = family(SequentialAgent(name="steps", sub_agents=[first, second]))
    before = [snapshot(agent) for agent in (first, second)]
    for _ in range(2):
        async with go_live(runner) as live:
            await all_of(live)
    setups = model_of(first).setups
    assert [[tool.name for tool in setup.tools] for setup in setups] == [["look", TASK_COMPLETED]] * 2
    assert [setup.instruction.count(TASK_COMPLETED) for setup in setups + model_of(second).setups] == [1] * 4
    assert all(setup.instruction.startswith("Ask.\n\n") for setup in setups)
    assert [snapshot(agent) for agent in (first, second)] == before
    assert list(first.toolbox) == ["look"]
    verified(first, second)


# contract: LIVE-23, PLUG-06
async def test_a_stream_that_ends_ends_a_part_and_the_last_part_the_session() -> None:
    first, second = scripted("first", [say("A."), end()]), scripted("second", [say("B."), *completes()])
    seen: list[str] = []
    runner = family(SequentialAgent(name="steps", sub_agents=[first, second]), plugins=[Recorder(seen)])
    async with go_live(runner) as live:
        await all_of(live)
    words = [event.output_transcription.text for event in await stored(runner) if event.output_transcription]
    assert words == ["A.", "B."]
    assert [hook for hook in seen if hook.startswith(("before_agent", "after_agent", "after_run"))] == [
        "before_agent first", "after_agent first", "before_agent second", "after_agent second", "after_run",
    ]  # fmt: skip


async def test_the_next_one_is_to_speak_also_when_the_one_before_only_stopped() -> None:
    first, second = scripted("first", [say("A."), end()]), scripted("second", [hang()])
    async with go_live(family(SequentialAgent(name="steps", sub_agents=[first, second]))) as live:
        await until(live, lambda event: event.turn_complete)
        await asyncio.sleep(0.1)
        history = model_of(second).setups[0].history
        assert history is not None
        assert (await history()).unanswered


async def test_an_agent_may_hand_over_to_a_sequence_and_a_sequence_stands_in_a_sequence() -> None:
    a, b, c = scripted("a", completes()), scripted("b", completes()), scripted("c", [say("Done."), *completes()])
    inner = SequentialAgent(name="inner", sub_agents=[b, c])
    root = scripted("root", transfer("steps"), sub_agents=[SequentialAgent(name="steps", sub_agents=[a, inner])])
    runner = family(root)
    async with go_live(runner) as live:
        await all_of(live)
    assert [event.author for event in await stored(runner) if event.function_calls] == ["root", "a", "b", "c"]
    verified(root, a, b, c)


async def test_an_agent_of_a_sequence_hands_over_and_gets_it_back() -> None:
    helper = scripted("helper", transfer("first", "t-2"))
    first = scripted("first", transfer("helper"), completes(), sub_agents=[helper])
    second = scripted("second", completes())
    runner = family(SequentialAgent(name="steps", sub_agents=[first, second]))
    async with go_live(runner) as live:
        await all_of(live)
    calls = [(event.author, call.name) for event in await stored(runner) for call in event.function_calls]
    assert calls == [("first", TRANSFER_TO_AGENT), ("helper", TRANSFER_TO_AGENT), ("first", TASK_COMPLETED), ("second", TASK_COMPLETED)]


# contract: LIVE-01
# case: K-LIVE-34
async def test_who_cannot_go_live_is_refused_before_before_run() -> None:
    seen: list[str] = []
    plugin = Recorder(seen)
    with pytest.raises(ConfigurationError, match="agent 'custom' does not support Live Run"):
        async with go_live(family(saying("x"), plugins=[plugin])):
            pass
    steps = SequentialAgent(name="steps", sub_agents=[scripted("first", [hang()]), saying("x")])
    with pytest.raises(ConfigurationError, match="agent 'custom' does not support Live Run"):
        async with go_live(family(steps, plugins=[plugin])):
            pass
    mute = SequentialAgent(name="steps", sub_agents=[scripted("first", [hang()]), LlmAgent(name="mute")])
    with pytest.raises(ModelUnavailable, match="agent 'mute' has no live_model"):
        async with go_live(family(mute, plugins=[plugin])):
            pass
    assert seen == []
