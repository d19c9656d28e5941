"""The stream of a run: lazy, suspended, stopped in four ways with a tool in flight."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from live_gateway.agents.config import RunConfig
from live_gateway.agents.context import InvocationContext
from live_gateway.agents.custom import CustomAgent
from live_gateway.agents.llm import LlmAgent
from live_gateway.errors import AgentError
from live_gateway.events import Event
from live_gateway.plugins.base import Plugin
from live_gateway.runner import Runner
from live_gateway.testing.scripted_model import pieces
from tests.support.runs import Recorder, bot, call, run, saying, short, start, stored, told


class SlowTool:
    """A tool that runs until it is cancelled, and says so."""

    def __init__(self) -> None:
        self.running = asyncio.Event()
        self.seen: list[str] = []

    def runner(self) -> Runner:
        async def slow() -> str:
            self.running.set()
            try:
                await asyncio.sleep(3600)
            finally:
                await asyncio.sleep(0)
                self.seen.append("tool ended")
            return "never"

        plugin = Recorder([])
        plugin.seen = self.seen
        return Runner.in_memory("app", bot(call("slow"), "never", tools=[slow]), plugins=[plugin])

    def ended_well(self) -> bool:
        last = [each for each in self.seen if each in ("tool ended", "after_run")]
        return last == ["tool ended", "after_run"]


# contract: RUN-01
async def test_calling_run_does_nothing() -> None:
    seen: list[str] = []
    runner = Runner.in_memory("app", bot(), plugins=[Recorder(seen)])
    stream = start(runner)
    await asyncio.sleep(0.01)
    assert await runner.session_service.list(app_name="app") == []
    await stream.aclose()
    assert [event async for event in stream] == []
    assert seen == []
    async with start(runner):
        pass
    assert seen == []


# contract: RUN-01
# case: K-RUN-25
async def test_a_second_iteration_raises() -> None:
    runner = Runner.in_memory("app", saying("a"))
    stream = start(runner)
    assert short([event async for event in stream]) == ["custom: a"]
    with pytest.raises(RuntimeError, match="once"):
        aiter(stream)
    with pytest.raises(RuntimeError, match="once"):
        stream.pairs()
    assert len(await stored(runner)) == 2


# contract: RUN-02
async def test_the_producer_stands_still_until_the_next_event_is_asked_for() -> None:
    seen: list[str] = []

    async def agent(_context: Any) -> Any:
        for text in ("a", "b"):
            yield told("custom", text)
            seen.append(f"after {text}")

    async with start(Runner.in_memory("app", CustomAgent(name="custom", run=agent))) as stream:
        await anext(stream)
        await asyncio.sleep(0.01)
        assert seen == []
        await anext(stream)
        assert seen == ["after a"]
    assert seen == ["after a"]


# contract: RUN-03
async def test_reading_to_the_end_has_run_after_run_before_it_returns() -> None:
    seen: list[str] = []
    async for _ in start(Runner.in_memory("app", saying("a"), plugins=[Recorder(seen)])):
        assert "after_run" not in seen
    assert seen[-1] == "after_run"


# contract: RUN-03, PLUG-06
# case: K-RUN-20
async def test_leaving_the_block_stops_the_agent_and_runs_after_run() -> None:
    seen: list[str] = []
    runner = Runner.in_memory("app", saying("a", "b"), plugins=[Recorder(seen)])
    async with start(runner) as stream:
        async for _ in stream:
            break
    assert seen.count("after_run") == 1
    assert short(await stored(runner)) == ["user: hello", "custom: a"]
    assert [event async for event in _rest(stream)] == []


async def _rest(stream: Any) -> Any:
    while True:
        try:
            yield await anext(stream)
        except StopAsyncIteration:
            return


# contract: RUN-03
async def test_closing_while_a_tool_runs_cancels_it_then_runs_after_run_and_ends_the_reader() -> None:
    tool = SlowTool()
    stream = start(tool.runner())
    got: list[Event] = []

    async def read() -> None:
        got.extend([event async for event in stream])
        tool.seen.append("reader done")

    async with asyncio.TaskGroup() as group:
        group.create_task(read())
        await tool.running.wait()
        await stream.aclose()
        assert tool.ended_well()
    assert short(got) == ["bot: FC(slow)"]
    assert tool.seen[-1] == "reader done"
    await stream.aclose()


# contract: RUN-03
@pytest.mark.parametrize("with_block", [True, False])
async def test_cancelling_the_task_cancels_the_tool_and_runs_after_run_before_it_is_done(with_block: bool) -> None:
    tool = SlowTool()
    runner = tool.runner()

    async def read() -> None:
        if with_block:
            async with start(runner) as stream:
                async for _ in stream:
                    pass
        else:
            async for _ in start(runner):
                pass

    async with asyncio.TaskGroup() as group:
        task = group.create_task(read())
        await tool.running.wait()
        task.cancel()
    assert task.cancelled()
    assert tool.ended_well()


# contract: RUN-03
async def test_a_cancellation_between_two_events_is_cleaned_up_by_the_block() -> None:
    seen: list[str] = []
    entered = asyncio.Event()

    async def read() -> None:
        async with start(Runner.in_memory("app", saying("a", "b"), plugins=[Recorder(seen)])) as stream:
            async for _ in stream:
                entered.set()
                await asyncio.sleep(3600)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(read())
        await entered.wait()
        task.cancel()
    assert task.cancelled()
    assert seen.count("after_run") == 1


# contract: RUN-03
async def test_a_stream_dropped_by_a_break_is_finished_in_its_loop_and_warns() -> None:
    finished = asyncio.Event()

    class Finishing(Plugin):
        async def after_run(self, invocation: InvocationContext) -> None:
            assert not finished.is_set()
            finished.set()

    with pytest.warns(ResourceWarning, match="dropped"):
        await _break_at_once(Runner.in_memory("app", saying("a", "b"), plugins=[Finishing("finishing")]))
    async with asyncio.timeout(5):
        await finished.wait()


async def _break_at_once(runner: Runner) -> None:
    async for _ in start(runner):
        break


# contract: RUN-03
def test_a_stream_dropped_at_the_end_of_the_program_is_still_finished() -> None:
    seen: list[str] = []

    runner = Runner.in_memory("app", saying("a", "b"), plugins=[Recorder(seen)])
    with pytest.warns(ResourceWarning):
        asyncio.run(_break_at_once(runner))
    assert seen.count("after_run") == 1


# contract: RUN-03
async def test_closing_closes_the_models_stream_before_it_returns() -> None:
    class Pausing:
        name = "pausing"
        closed = False

        async def generate(self, _request: Any) -> Any:
            try:
                for piece in pieces("a", "b"):
                    yield piece
            finally:
                await asyncio.sleep(0)
                self.closed = True

    model = Pausing()
    runner = Runner.in_memory("app", LlmAgent(name="bot", model=model))
    async with start(runner, config=RunConfig(streaming_mode="sse")) as stream:
        await anext(stream)
        assert not model.closed
    assert model.closed


# contract: RUN-03
async def test_no_task_is_left_after_any_of_these() -> None:
    tool = SlowTool()
    before = asyncio.all_tasks()
    async with start(tool.runner()) as stream:
        await anext(stream)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await anext(stream)
    assert tool.ended_well()
    assert asyncio.all_tasks() == before


# contract: RUN-04
async def test_pairs_give_errors_as_values_and_go_on() -> None:
    async def agent(_context: Any) -> Any:
        yield told("custom", "a")
        raise AgentError("b")

    runner = Runner.in_memory("app", CustomAgent(name="custom", run=agent))
    got = [(event and event.text, error and str(error)) async for event, error in start(runner).pairs()]
    assert got == [("a", None), (None, "b")]


# contract: RUN-03, PLUG-06
async def test_an_error_that_ends_the_agent_has_run_after_run_when_it_reaches_the_caller() -> None:
    seen: list[str] = []

    async def agent(_context: Any) -> Any:
        yield told("custom", "a")
        raise AgentError("b")

    runner = Runner.in_memory("app", CustomAgent(name="custom", run=agent), plugins=[Recorder(seen)])
    with pytest.raises(AgentError):
        await run(runner)
    assert seen[-1] == "after_run"
    assert "after_agent custom" not in seen


async def test_two_readers_at_once_are_refused() -> None:
    tool = SlowTool()
    stream = start(tool.runner())
    await anext(stream)
    async with asyncio.TaskGroup() as group:
        reader = group.create_task(_count(stream))
        await tool.running.wait()
        with pytest.raises(RuntimeError, match="another task"):
            await anext(stream)
        await stream.aclose()
    assert reader.result() == 0


async def _count(stream: Any) -> int:
    return len([event async for event in stream])
