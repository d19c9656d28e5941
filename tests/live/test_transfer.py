"""A live session moves from one agent to another."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from typing import Any

import pytest

from live_gateway.agents.config import LiveRunConfig
from live_gateway.agents.context import ToolContext
from live_gateway.agents.llm import LlmAgent
from live_gateway.content import TRANSFER_TO_AGENT, Content, FunctionResponse, GenerateContentConfig, Part, text_of, user_content
from live_gateway.errors import LiveSessionClosed, ModelUnavailable, NotDelivered, ToolResponseNotExpected
from live_gateway.events import Event
from live_gateway.live.items import AudioChunk, Notice, ResponseStarted, Stored
from live_gateway.live.session import LiveSession
from live_gateway.models.live import Activity, SessionResumption
from live_gateway.testing.steps import (
    call,
    end,
    expect_activity,
    expect_audio,
    expect_content,
    expect_tool_responses,
    fail,
    hang,
    hear,
    on_connect,
    pause,
    say,
    wait,
)
from live_gateway.tools.function import FunctionTool
from tests.support.families import family, hand_over, model_of, scripted, transfer, verified
from tests.support.live import all_of, go_live, in_short, stored, until
from tests.support.runs import Recorder, saying, snapshot

pytestmark = pytest.mark.virtual_time

PCM = b"\x01\x00" * 320


def finished(events: Sequence[Event | Exception]) -> list[str]:
    """What was stored, with its authors, in short, but for what was heard of it."""
    kept = [event for event in events if isinstance(event, Event) and event.seq and "heard" not in event.custom_metadata]
    return [f"{event.author} {word}" for event, word in zip(kept, in_short(kept), strict=True)]


# contract: LIVE-21, NEW-08, LIVE-26, LIVE-18
# report: A16
# report: A54
async def test_the_other_agent_goes_on_in_the_same_session_and_knows_what_was_said() -> None:
    bills = scripted("bills", [say("You owe three."), end()], instruction="Count.", config=GenerateContentConfig(temperature=0.5))
    root = scripted("root", [hear("my bill please"), *transfer("bills")], instruction="Greet.", sub_agents=[bills])
    runner = family(root)
    before = copy.copy(snapshot(root)), copy.copy(snapshot(bills))
    config = LiveRunConfig(session_resumption=SessionResumption(handle="of-the-parent"))
    async with go_live(runner, config=config) as live:
        assert live.agent is root
        got = await all_of(live)
        assert live.agent is bills
        assert live.model_name == "model of bills"
    assert finished(got) == [
        'user IN "my bill please"',
        "root call transfer_to_agent",
        "root resp transfer_to_agent",
        'bills OUT "You owe three."',
        "bills done",
    ]
    kept = await stored(runner)
    assert [event.id for event in kept] == [event.id for event in got if isinstance(event, Event) and event.seq]
    assert {event.invocation_id for event in kept} == {live.invocation_id}
    (first,), (second,) = model_of(root).setups, model_of(bills).setups
    assert first.session_resumption.handle == "of-the-parent"
    assert second.session_resumption.handle is second.conversation is second.continues is None
    assert second.instruction.startswith("Count.")
    assert second.config is bills.config
    assert [tool.name for tool in second.tools] == [TRANSFER_TO_AGENT]
    assert second.history is not None
    assert (snapshot(root), snapshot(bills)) == before
    verified(root, bills)


# contract: LIVE-18, LIVE-21
# report: A16
# report: A54
async def test_the_one_who_takes_over_is_told_what_was_said_and_speaks_first() -> None:
    histories: list[tuple[list[str], bool]] = []
    gate = asyncio.Event()
    bills = scripted("bills", [wait(gate), say("You owe three."), hang()])
    root = scripted("root", [hear("my bill"), say("One moment.", complete=False), *transfer("bills")], sub_agents=[bills])
    async with go_live(family(root)) as live:
        await until(live, lambda event: bool(event.function_responses))
        await asyncio.sleep(0.1)
        assert live.agent is bills
        tell = model_of(bills).setups[0].history
        assert tell is not None

        async def ask() -> None:
            history = await tell()
            histories.append(([text_of(content) for content in history.contents], history.unanswered))

        await ask()
        gate.set()
        await until(live, lambda event: event.turn_complete)
        await ask()
    (told, speaks_first), (_, speaks_again) = histories
    assert told[0] == "my bill"
    assert "[root] said: One moment." in told[1]
    assert speaks_first
    assert not speaks_again


# contract: LIVE-21
async def test_audio_of_each_is_its_own_and_response_numbers_go_on_growing() -> None:
    bills = scripted("bills", [say("Three."), end()])
    root = scripted("root", [say("I ask.", complete=False), *transfer("bills")], sub_agents=[bills])
    async with go_live(family(root)) as live:
        items = [item async for item in live.items()]
    assert [item.response for item in items if isinstance(item, ResponseStarted)] == [1, 2]
    assert {(item.response, item.author) for item in items if isinstance(item, AudioChunk)} == {(1, "root"), (2, "bills")}
    notice = Notice("info", "agent_changed", {"from": "root", "to": "bills"})
    place = items.index(notice)
    assert all(item.author == "root" for item in items[:place] if isinstance(item, AudioChunk))
    assert all(item.author == "bills" for item in items[place:] if isinstance(item, AudioChunk))
    numbers = [item.event.seq for item in items if isinstance(item, Stored)]
    assert numbers == sorted(numbers)


# contract: LIVE-21
async def test_an_event_with_audio_names_who_spoke_also_when_it_is_read_late() -> None:
    bills = scripted("bills", [say("Three"), end()])
    root = scripted("root", [say("Ask", complete=False), *transfer("bills")], sub_agents=[bills])
    async with go_live(family(root)) as live:
        await asyncio.sleep(1)
        assert live.agent is bills
        assert [event.author async for event in live if "audio" in in_short([event])] == ["root", "bills"]


# contract: LIVE-21, LIVE-11
async def test_an_open_transcription_does_not_hold_up_the_transfer() -> None:
    bills = scripted("bills", [say("Three."), end()])
    root = scripted("root", [hear("hm"), say("I ask.", complete=False), *transfer("bills")], sub_agents=[bills])
    async with go_live(family(root)) as live:
        got = await all_of(live)
    assert finished(got)[1:4] == ['root OUT "I ask."', "root call transfer_to_agent", "root resp transfer_to_agent"]


# contract: LIVE-17, LIVE-21
# report: A58
async def test_what_ran_for_the_one_before_is_recorded_as_cancelled_and_reaches_no_other_model() -> None:
    ended: list[str] = []

    async def slow() -> str:
        """Take long."""
        try:
            await asyncio.sleep(0.5)
        finally:
            ended.append("slow")
        return "late"

    async def ticks() -> Any:
        """Count."""
        try:
            for number in range(1_000):
                yield number
                await asyncio.sleep(0.2)
        finally:
            ended.append("ticks")

    def ask_human() -> None:
        """Ask a person."""

    human = FunctionTool(ask_human, long_running=True)
    bills = scripted("bills", [pause(5), say("Three."), hang()])
    script = [
        call("ticks", id="c-1"),
        expect_tool_responses("c-1"),
        call("ask_human", id="c-2"),
        call("slow", id="c-3"),
        *transfer("bills"),
    ]
    root = scripted("root", script, allow=["tool_responses", "content"], tools=[slow, ticks, human], sub_agents=[bills])
    runner = family(root)
    async with go_live(runner) as live:
        await until(live, lambda event: event.author == "bills")
        with pytest.raises(ToolResponseNotExpected):
            await live.send(Content(parts=[Part(function_response=FunctionResponse(id="c-2", response={"ok": True}))]))
    assert sorted(ended) == ["slow", "ticks"]
    assert model_of(bills).connection.sent == []
    last = {answer.id: answer.response for event in await stored(runner) for answer in event.function_responses}
    assert {key: (value or {}).get("error") for key, value in last.items() if key != "t-1"} == dict.fromkeys(
        ["c-1", "c-2", "c-3"], "cancelled"
    )
    kept = await stored(runner)
    assert all(event.author == "root" for event in kept if event.function_responses)
    verified(bills)


# contract: LIVE-21, LIVE-19
async def test_audio_and_messages_of_the_gap_go_to_the_next_one_in_order() -> None:
    gate = asyncio.Event()
    bills = scripted(
        "bills", [on_connect(wait(gate)), expect_audio(PCM), expect_audio(PCM), expect_content("and mine?"), say("Three."), end()]
    )
    root = scripted("root", [*transfer("bills")], sub_agents=[bills])
    runner = family(root)
    async with go_live(runner) as live, asyncio.TaskGroup() as group:
        await until(live, lambda event: bool(event.function_responses))
        await asyncio.sleep(0.1)
        live.push_audio(PCM)
        live.push_audio(PCM)
        sending = group.create_task(live.send(user_content("and mine?")))
        await live.interrupt()
        await asyncio.sleep(2)
        gate.set()
        assert (await sending).state == "persisted"
        await all_of(live)
    assert in_short(list(await stored(runner)))[2:5] == ['user "and mine?"', 'OUT "Three."', "done"]
    verified(root, bills)


# contract: LIVE-07, LIVE-21
async def test_a_message_that_nobody_takes_for_five_seconds_was_not_delivered() -> None:
    gate = asyncio.Event()
    bills = scripted("bills", [on_connect(wait(gate)), say("Three."), end()])
    root = scripted("root", [*transfer("bills")], sub_agents=[bills])
    runner = family(root)
    async with go_live(runner) as live:
        await until(live, lambda event: bool(event.function_responses))
        with pytest.raises(NotDelivered):
            await live.send(user_content("and mine?"))
        with pytest.raises(NotDelivered):
            await live.end_audio()
        gate.set()
        await all_of(live)
    assert all(event.author != "user" for event in await stored(runner))
    verified(root, bills)


# contract: LIVE-21
async def test_a_button_that_is_held_is_held_for_the_next_one_too() -> None:
    bills = scripted("bills", [expect_activity(Activity.START), expect_activity(Activity.END), say("Three."), end()])
    root = scripted("root", [expect_activity(Activity.START), *transfer("bills")], sub_agents=[bills])
    async with go_live(family(root)) as live:
        await live.activity(Activity.START)
        await until(live, lambda event: bool(event.function_responses))
        await live.activity(Activity.END)
        await all_of(live)
    verified(root, bills)


# contract: LIVE-21, PLUG-06, PLUG-08
async def test_hooks_are_called_for_each_agent() -> None:
    bills = scripted("bills", [say("Three."), end()])
    root = scripted("root", [*transfer("bills")], sub_agents=[bills])
    seen: list[str] = []
    async with go_live(family(root, plugins=[Recorder(seen)])) as live:
        await all_of(live)
    hooks = [hook for hook in seen if not hook.startswith(("on_event", "before_tool", "after_tool"))]
    assert [hook for hook in hooks if hook != "after_model"] == [
        "before_run", "before_agent root", "before_model", "after_agent root",
        "before_agent bills", "before_model", "after_agent bills", "after_run",
    ]  # fmt: skip


# contract: LIVE-21, PLUG-08
async def test_a_hook_may_answer_instead_of_the_one_who_was_to_take_over() -> None:
    async def closed(_invocation: object) -> Content:
        return Content(role="model", parts=[Part(text="We are closed.")])

    bills = scripted("bills", before_agent=closed)
    root = scripted("root", [*transfer("bills")], sub_agents=[bills])
    runner = family(root)
    async with go_live(runner) as live:
        got = await all_of(live)
    assert finished(got)[-1] == 'bills bills "We are closed."'
    verified(root, bills)


# contract: LIVE-29, LIVE-21
async def test_each_agent_fills_its_own_output_key() -> None:
    bills = scripted("bills", [say("Three."), end()], output_key="sum")
    root = scripted(
        "root",
        [say("Hello."), hear("bill"), say("I ask.", complete=False), *transfer("bills")],
        output_key="greeting",
        sub_agents=[bills],
    )
    runner = family(root)
    async with go_live(runner) as live:
        await all_of(live)
    session = await runner.session_service.get(app_name="app", user_id="u", session_id="s")
    assert dict(session.state) == {"greeting": "Hello.", "sum": "Three."}


# contract: LIVE-20, LIVE-21
async def test_kept_audio_is_that_of_who_spoke() -> None:
    bills = scripted("bills", [say("Three."), end()])
    root = scripted("root", [say("I ask.", complete=False), *transfer("bills")], sub_agents=[bills])
    runner = family(root)
    async with go_live(runner, config=LiveRunConfig(save_live_blob=True)) as live:
        await all_of(live)
    kept = [event for event in await stored(runner) if event.actions.artifact_delta]
    assert [event.author for event in kept] == ["root", "bills"]


# contract: LIVE-21
async def test_the_conversation_goes_back_and_to_a_peer() -> None:
    a = scripted("a", [say("A."), *transfer("b", "t-2")])
    b = scripted("b", [say("B."), *transfer("root", "t-3")])
    root = scripted("root", [*transfer("a")], [say("Bye."), end()], sub_agents=[a, b])
    runner = family(root)
    async with go_live(runner) as live:
        await all_of(live)
    words = [event.output_transcription.text for event in await stored(runner) if event.output_transcription]
    assert words == ["A.", "B.", "Bye."]
    verified(root, a, b)


# contract: LIVE-21, PLUG-06
async def test_one_who_cannot_connect_ends_the_session_in_order() -> None:
    bills = scripted("bills", [on_connect(fail(ModelUnavailable("no key")))])
    root = scripted("root", [*transfer("bills")], sub_agents=[bills])
    seen: list[str] = []
    runner = family(root, plugins=[Recorder(seen)])
    async with go_live(runner) as live:
        got = await all_of(live)
    assert in_short(got)[-3:] == ["call transfer_to_agent", "resp transfer_to_agent", "error ModelUnavailable"]
    assert seen.count("after_run") == 1
    assert seen.count("on_model_error ModelUnavailable") == 1


# contract: LIVE-21
# case: K-FLOW-12
async def test_one_who_cannot_go_live_is_refused_and_the_session_lives() -> None:
    root = scripted(
        "root",
        [
            hand_over("custom"),
            expect_tool_responses("t-1"),
            hand_over("nobody", "t-2"),
            expect_tool_responses("t-2"),
            say("Then not."),
            end(),
        ],
        sub_agents=[saying("x"), scripted("bills")],
    )
    runner = family(root)
    async with go_live(runner) as live:
        got = await all_of(live)
    answers = [answer.response for event in await stored(runner) for answer in event.function_responses]
    assert answers[0] == {"error": "failed to find agent: custom. agent 'custom' does not support Live Run: it is no LlmAgent"}
    assert answers[1] == {"error": "failed to find agent: nobody"}
    assert finished(got)[-1] == "root done"
    assert model_of(root).setups[0].tools[0].parameters_json_schema["properties"]["agent_name"]["enum"] == ["bills"]  # type: ignore[index]


# case: K-FLOW-12
async def test_a_tool_that_names_a_stranger_costs_an_error_and_not_the_session() -> None:
    def leave(ctx: ToolContext) -> str:
        """Leave."""
        ctx.transfer_to_agent = "stranger"
        return "gone"

    root = scripted("root", [call("leave"), expect_tool_responses("fc-1"), say("Still here."), end()], tools=[leave])
    async with go_live(family(root)) as live:
        got = await all_of(live)
    assert "error AgentError" in in_short(got)
    assert finished(got)[-1] == "root done"


# case: K-LTOOL-15
async def test_a_task_that_is_given_to_an_agent_is_answered_with_an_error_that_names_it() -> None:
    workers = [LlmAgent(name="worker", mode="task"), LlmAgent(name="once", mode="single_turn")]
    root = scripted(
        "root",
        [call("worker", id="c-1"), expect_tool_responses("c-1"), call("once", id="c-2"), expect_tool_responses("c-2"), say("No."), end()],
        sub_agents=workers,
    )
    runner = family(root)
    async with go_live(runner) as live:
        await all_of(live)
    answers = [answer.response for event in await stored(runner) for answer in event.function_responses]
    words = "works on tasks; tasks cannot be given to it in a live session"
    assert answers == [{"error": f"agent 'worker' {words}"}, {"error": f"agent 'once' {words}"}]
    verified(root)


# contract: LIVE-23, LIVE-21
@pytest.mark.parametrize("after_s", [0.0, 0.05, 1.0])
async def test_closing_while_the_next_one_is_opened(after_s: float) -> None:
    bills = scripted("bills", [on_connect(pause(30)), hang()])
    root = scripted("root", [*transfer("bills")], sub_agents=[bills])
    seen: list[str] = []
    loop = asyncio.get_running_loop()
    async with go_live(family(root, plugins=[Recorder(seen)])) as live, asyncio.TaskGroup() as group:
        await until(live, lambda event: bool(event.function_responses))
        await asyncio.sleep(after_s)
        sending = group.create_task(_refused(live))
        await asyncio.sleep(0)
        began = loop.time()
        await live.close()
        await sending
        assert loop.time() - began < 3
        assert await all_of(live) == []
    assert seen.count("after_run") == 1
    assert seen.count("after_agent root") == 1


async def _refused(live: LiveSession) -> None:
    with pytest.raises(LiveSessionClosed):
        await live.send(user_content("hello?"))


# contract: PICK-01, PICK-03
# case: K-LIVE-33
async def test_the_newest_agent_that_may_hand_back_goes_live() -> None:
    closed = scripted("closed", [say("C."), end()], disallow_transfer_to_parent=True)
    opened = scripted("opened", [say("A."), end()], [say("A again."), *transfer("closed")], [say("Still A."), end()])
    root = scripted("root", transfer("opened"), sub_agents=[opened, closed])
    runner = family(root)
    agents = []
    for _ in range(3):
        async with go_live(runner) as live:
            agents.append(live.agent.name)
            await all_of(live)
    assert agents == ["root", "opened", "opened"]  # `closed`, who spoke last in the second, may not hand back: passed over
    verified(root, opened, closed)


# case: K-LIVE-36
async def test_what_callbacks_and_tools_see_of_the_run() -> None:
    seen: list[tuple[Any, str, Any, str]] = []

    async def note(invocation: Any) -> None:
        seen.append((invocation.user_content, invocation.invocation_id, invocation.branch, invocation.agent.name))

    async def look(ctx: ToolContext) -> str:
        """Look."""
        await note(ctx.invocation)
        return "seen"

    bills = scripted("bills", [say("Three."), end()], before_agent=note)
    root = scripted(
        "root",
        [call("look"), expect_tool_responses("fc-1"), *transfer("bills")],
        tools=[look],
        before_agent=note,
        sub_agents=[bills],
    )
    async with go_live(family(root)) as live:
        await all_of(live)
    assert seen == [(None, live.invocation_id, None, name) for name in ("root", "root", "bills")]
