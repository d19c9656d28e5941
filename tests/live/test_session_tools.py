"""Tools, interruption and the end of a live session."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from live_gateway.content import Content, FunctionCall, FunctionResponse, Part, user_content
from live_gateway.errors import LiveSessionClosed, ToolResponseNotExpected, UpstreamLost
from live_gateway.models.live import (
    Interrupted,
    SpeechStarted,
    TextOut,
    ToolCalls,
    ToolCallsCancelled,
    TurnComplete,
)
from live_gateway.testing.scripted_live import ScriptedLiveModel
from live_gateway.testing.steps import (
    Step,
    call,
    emit,
    end,
    expect_content,
    expect_interrupt,
    expect_tool_responses,
    fail,
    on_connect,
    say,
    voice,
    wait,
)
from tests.support.live import all_of, go_live, in_short, live_runner, spoke, stored, until
from tests.support.live_doubles import Recorder

pytestmark = pytest.mark.virtual_time


# contract: LIVE-06
# case: K-LIVE-28, K-LTOOL-14
async def test_the_answer_to_a_pending_call_is_recorded_once_as_the_tools_response() -> None:
    from live_gateway.tools.function import FunctionTool

    def ask_human(question: str) -> None:
        """Ask a person."""

    tool = FunctionTool(ask_human, long_running=True)
    script: list[Step] = [call("ask_human", {"question": "sure?"}, id="c1"), expect_tool_responses("c1"), emit(TurnComplete()), end()]
    with ScriptedLiveModel(script) as model:
        runner = live_runner(model, tools=[tool])
        async with go_live(runner) as live:
            asked = await until(live, lambda event: bool(event.function_calls))
            assert asked[-1].long_running_tool_ids == ["c1"]
            await asyncio.sleep(1)
            assert in_short(list(await stored(runner))) == ["call ask_human"]
            assert [sent for sent in model.connection.sent if sent.kind == "tool_responses"] == []
            with pytest.raises(ToolResponseNotExpected):
                await live.send(Content(parts=[Part(function_response=FunctionResponse(id="nope", response={}))]))
            answer = Part(function_response=FunctionResponse(id="c1", response={"ok": True}))
            assert (await live.send(Content(parts=[answer]))).state == "delivered"
            await all_of(live)
    kept = await stored(runner)
    assert in_short(list(kept)) == ["call ask_human", "resp ask_human", "done"]
    assert kept[1].author == "agent"


# contract: LIVE-17
# case: K-LTOOL-02, K-LTOOL-11
# report: A42
# report: A32
async def test_calls_of_one_message_run_side_by_side_and_answer_in_call_order_while_audio_flows() -> None:
    async def slow(name: str) -> str:
        """Take a while."""
        await asyncio.sleep(0.3 if name == "a" else 0.1)
        return name

    calls = tuple(FunctionCall(id=name, name="slow", args={"name": name}) for name in ("a", "b"))
    script: list[Step] = [emit(ToolCalls(calls), voice(40)), expect_tool_responses("a", "b"), emit(TurnComplete()), end()]
    with ScriptedLiveModel(script) as model:
        runner = live_runner(model, tools=[slow])
        async with go_live(runner) as live:
            began = asyncio.get_running_loop().time()
            got = await until(live, lambda event: bool(event.function_responses))
            took = asyncio.get_running_loop().time() - began
            await all_of(live)
    assert took < 0.5
    assert "audio" in in_short(list(got))[:-1]
    assert [response.id for response in got[-1].function_responses] == ["a", "b"]
    assert got[-1].invocation_id == live.invocation_id, "the merged response keeps the id of the live session"


# contract: LIVE-17
# report: A34
async def test_the_same_call_id_runs_once() -> None:
    runs: list[str] = []

    def once(city: str) -> str:
        """Run once."""
        runs.append(city)
        return city

    script: list[Step] = [call("once", {"city": "Oslo"}), call("once", {"city": "Oslo"}), expect_tool_responses("fc-1"), end()]
    with ScriptedLiveModel(script) as model:
        runner = live_runner(model, tools=[once])
        async with go_live(runner) as live:
            await all_of(live)
    assert runs == ["Oslo"]
    assert in_short(list(await stored(runner))) == ["call once", "resp once"]


# contract: LIVE-17
# case: K-LCON-24
# report: A33
async def test_a_cancelled_call_is_recorded_as_cancelled_and_not_answered() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def forever(city: str) -> str:
        """Never end."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return city

    script: list[Step] = [call("forever", {"city": "x"}), wait(started), emit(ToolCallsCancelled(("fc-1",))), wait(ended), end()]
    with ScriptedLiveModel(script) as model:
        runner = live_runner(model, tools=[forever])
        async with go_live(runner) as live:
            await all_of(live)
    kept = await stored(runner)
    assert in_short(list(kept)) == ["call forever", "resp forever"]
    assert kept[1].function_responses[0].response == {"error": "cancelled"}


# contract: LIVE-17
# case: K-LTOOL-03, K-LTOOL-04
# report: A37
async def test_unknown_and_raising_tools_are_answered_with_an_error_and_the_session_lives() -> None:
    def broken(city: str) -> str:
        """Fail."""
        raise RuntimeError("internal detail")

    script: list[Step] = [
        call("nope", {}, id="c1"),
        expect_tool_responses("c1", check=lambda sent: "error" in (sent[0].response or {})),
        call("broken", {"city": "x"}, id="c2"),
        expect_tool_responses("c2", check=lambda sent: "internal detail" not in str(sent[0].response)),
        emit(TextOut("Sorry"), TurnComplete()),
        end(),
    ]
    with ScriptedLiveModel(script) as model:
        runner = live_runner(model, tools=[broken])
        async with go_live(runner) as live:
            got = await all_of(live)
    assert in_short(got)[-1] == "done"


# report: A35
# contract: LIVE-17
async def test_an_interruption_does_not_lose_a_tools_answer() -> None:
    gate = asyncio.Event()

    async def slow(city: str) -> str:
        """Take a while."""
        await gate.wait()
        return city

    script: list[Step] = [voice_and_call(), emit(Interrupted()), expect_tool_responses("fc-1"), end()]
    with ScriptedLiveModel(script) as model:
        runner = live_runner(model, tools=[slow])
        async with go_live(runner) as live:
            await until(live, lambda event: event.interrupted)
            gate.set()
            await all_of(live)
    assert "resp slow" in in_short(list(await stored(runner)))


def voice_and_call() -> Any:
    return emit(voice(200), ToolCalls((FunctionCall(id="fc-1", name="slow", args={"city": "x"}),)))


# contract: LIVE-22
async def test_a_state_delta_is_stored_by_the_user_before_the_connection_opens() -> None:
    model = ScriptedLiveModel([on_connect(fail(UpstreamLost("no")))])
    runner = live_runner(model)
    with pytest.raises(UpstreamLost):
        async with go_live(runner, state_delta={"k": 1, "temp:t": 2}):
            pass
    kept = await stored(runner)
    assert [(event.author, event.actions.state_delta) for event in kept] == [("user", {"k": 1})]


# contract: LIVE-22, INST-01
async def test_the_instruction_is_filled_with_the_state_that_the_run_began_with() -> None:
    with ScriptedLiveModel([end()]) as model:
        runner = live_runner(model, instruction="Answer in {lang}.")
        async with go_live(runner, state_delta={"lang": "French"}) as live:
            await all_of(live)
    assert model.setups[0].instruction == "Answer in French."


# contract: LIVE-23
# case: K-LIVE-40
async def test_closing_twice_is_fine_ends_the_stream_without_an_error_and_runs_after_run_once() -> None:
    plugin = Recorder()
    model = ScriptedLiveModel([emit(spoke("Half a"))])
    runner = live_runner(model, plugins=[plugin])
    async with go_live(runner) as live:
        await until(live, lambda event: event.partial)
        await live.close()
        await live.close()
        assert in_short(await all_of(live)) == ['OUT "Half a"']
        with pytest.raises(LiveSessionClosed):
            await live.send(user_content("late"))
    assert plugin.calls == ["before_run", "after_run"]


# contract: LIVE-23
# report: A05
async def test_closing_from_another_task_wakes_whoever_iterates() -> None:
    runner = live_runner(ScriptedLiveModel([]))
    async with go_live(runner) as live, asyncio.TaskGroup() as group:
        reading = group.create_task(all_of(live))
        await asyncio.sleep(0.1)
        await live.close()
        assert await reading == []


# contract: LIVE-05
# report: A51
async def test_typed_text_interrupts_what_plays() -> None:
    gate = asyncio.Event()
    script: list[Step] = [emit(spoke("A long story"), voice(5000)), expect_interrupt(), expect_content("stop"), wait(gate), end()]
    with ScriptedLiveModel(script) as model:
        runner = live_runner(model)
        async with go_live(runner) as live:
            await until(live, lambda event: in_short([event]) == ["audio"])
            await asyncio.sleep(1)
            await live.send(user_content("stop"))
            gate.set()
            await all_of(live)
    kept = in_short(list(await stored(runner)))
    assert kept.index("interrupted") < kept.index('user "stop"')


# contract: LIVE-16
async def test_what_was_heard_of_an_interrupted_answer_is_recorded_after_it() -> None:
    gate = asyncio.Event()
    script: list[Step] = [say("one two three four", ms=4000), wait(gate), emit(SpeechStarted()), end()]
    with ScriptedLiveModel(script) as model:
        runner = live_runner(model)
        async with go_live(runner) as live:
            await until(live, lambda event: event.turn_complete)
            await asyncio.sleep(2.0)
            gate.set()
            await all_of(live)
    kept = await stored(runner)
    assert in_short(list(kept)) == ['OUT "one two three four"', "done", "interrupted", "heard"]
    assert kept[3].custom_metadata["heard"] == {"item": kept[0].id, "chars": len("one two "), "ms": 2000}


async def test_a_caller_that_is_cancelled_leaves_nothing_behind() -> None:
    plugin = Recorder()
    model = ScriptedLiveModel([emit(spoke("Half a"))])
    runner = live_runner(model, plugins=[plugin])

    async def talk() -> None:
        async with go_live(runner) as live:
            async for _ in live:
                pass

    before = asyncio.all_tasks()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(talk())
        await asyncio.sleep(0.1)
        task.cancel()
    assert asyncio.all_tasks() == before
    assert plugin.calls == ["before_run", "after_run"]
    assert in_short(list(await stored(runner))) == ['OUT "Half a"']
