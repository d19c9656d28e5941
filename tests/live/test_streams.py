"""Streaming tools in a live session: answered at once, told piece by piece, stopped, failing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

from live_gateway.content import FunctionCall, FunctionResponse, text_of
from live_gateway.errors import ModelError
from live_gateway.events import Event
from live_gateway.live.items import LiveItem, ToolFinished
from live_gateway.live.streams import MAX_STREAMS
from live_gateway.models.live import ToolCalls, ToolCallsCancelled, TurnComplete
from live_gateway.plugins.base import Plugin
from live_gateway.testing.scripted_live import ScriptedLiveModel
from live_gateway.testing.steps import Expect, Step, call, emit, end, expect_content, expect_tool_responses, refuse, wait
from live_gateway.tools.base import ToolCallContext
from live_gateway.tools.streaming import StreamingTool
from tests.support.live import go_live, live_runner, stored

pytestmark = pytest.mark.virtual_time

STREAM = "test_stream"


async def count_up(count: int, ctx: ToolCallContext) -> AsyncGenerator[str, None]:
    """Count in pieces."""
    for number in range(count):
        ctx.state["last"] = number
        yield f"chunk {number}"


def stream() -> StreamingTool:
    return StreamingTool(count_up, name=STREAM)


class Counting:
    """A tool that never ends, and what became of its instances."""

    def __init__(self) -> None:
        self.running = 0
        self.stopped = 0
        self.all_run = asyncio.Event()

    async def count_forever(self) -> AsyncGenerator[str, None]:
        """Count for ever."""
        self.running += 1
        try:
            yield "one"
            await asyncio.Event().wait()
        finally:
            self.running -= 1
            self.stopped += 1


def told(name: str, words: str) -> Expect:
    """An update in words that names the tool."""
    return expect_content(check=lambda content: f"`{name}`" in text_of(content) and words in text_of(content))


def status_of(name: str, *words: str) -> Expect:
    """An answer with a status that holds these words."""

    def says(responses: Sequence[FunctionResponse]) -> bool:
        return all(word in (responses[0].response or {}).get("status", "") for word in words) and responses[0].name == name

    return expect_tool_responses(check=says)


async def items_of(model: ScriptedLiveModel, tools: Any, *, plugins: Any = (), **agent: Any) -> tuple[list[LiveItem], list[Event]]:
    """All items of a session whose model ends it, and what is stored."""
    runner = live_runner(model, tools=tools, plugins=plugins, **agent)
    async with go_live(runner) as live:
        items = [item async for item in live.items()]
    return items, await stored(runner)


def responses(events: Sequence[Event]) -> list[dict[str, Any]]:
    return [response.response or {} for event in events for response in event.function_responses]


def statuses(items: Sequence[LiveItem], call_id: str = "fc-1") -> list[str]:
    return [item.status for item in items if isinstance(item, ToolFinished) and item.call == call_id]


# contract: LIVE-17
# case: K-LTOOL-05
async def test_a_streaming_tool_is_answered_at_once_and_its_pieces_follow() -> None:
    script: list[Step] = [
        call(STREAM, {"count": 3}),
        status_of(STREAM, "running", "follow"),
        *(told(STREAM, f"chunk {number}") for number in range(3)),
        emit(TurnComplete()),
        end(),
    ]
    with ScriptedLiveModel(script) as model:
        items, events = await items_of(model, [stream()])
    assert statuses(items) == ["progress"] * 4 + ["done"]
    status, *pieces, whole = responses(events)
    assert "status" in status
    assert pieces == [{"result": f"chunk {number}"} for number in range(3)]
    assert whole == {"result": "chunk 0chunk 1chunk 2"}
    more = [response.will_continue for event in events for response in event.function_responses]
    assert more == [True, True, True, True, False]
    assert [event.actions.state_delta for event in events if event.function_responses] == [{}, {"last": 0}, {"last": 1}, {"last": 2}, {}]


# contract: LIVE-17
# case: K-LTOOL-07
async def test_stop_streaming_stops_all_instances_of_a_tool() -> None:
    counting = Counting()
    both = tuple(FunctionCall(id=call_id, name="count_forever", args={}) for call_id in ("a", "b"))
    script: list[Step] = [
        emit(ToolCalls(both)),
        expect_tool_responses("a", "b"),
        told("count_forever", "one"),
        told("count_forever", "one"),
        call("stop_streaming", {"function_name": "count_forever"}, id="stop"),
        status_of("stop_streaming", "All running instances of count_forever were stopped"),
        call("stop_streaming", {"function_name": "count_forever"}, id="again"),
        status_of("stop_streaming", "No running instance"),
        end(),
    ]
    with ScriptedLiveModel(script) as model:
        items, events = await items_of(model, [counting.count_forever])
    assert (counting.running, counting.stopped) == (0, 2)
    assert statuses(items, "a") == statuses(items, "b") == ["progress", "progress", "cancelled"]
    assert responses(events).count({"error": "cancelled", "result": "one"}) == 2


# contract: LIVE-17
async def test_stop_streaming_is_declared_only_beside_a_streaming_tool() -> None:
    def plain() -> str:
        """Plain."""
        return "x"

    for tools, names in ([plain], ["plain"]), ([plain, stream()], ["plain", STREAM, "stop_streaming"]):
        with ScriptedLiveModel([end()]) as model:
            await items_of(model, tools)
        declared = {declaration.name: declaration for declaration in model.setups[0].tools}
        assert list(declared) == names
        assert declared["plain"].behavior is None
        assert STREAM not in declared or declared[STREAM].behavior == "NON_BLOCKING"


# contract: LIVE-17, LIVE-23
# case: K-LTOOL-09
async def test_streaming_tools_end_with_the_session() -> None:
    counting = Counting()
    script: list[Step] = [call("count_forever"), expect_tool_responses("fc-1"), told("count_forever", "one"), emit(TurnComplete())]
    with ScriptedLiveModel(script) as model:
        runner = live_runner(model, tools=[counting.count_forever])
        async with go_live(runner) as live:
            async for event in live:
                if event.turn_complete:
                    break
            assert counting.running == 1
            await live.close()
            assert (counting.running, counting.stopped) == (0, 1)
    assert responses(await stored(runner))[-1] == {"error": "cancelled", "result": "one"}


# contract: LIVE-17
async def test_a_stream_that_the_model_cancels_is_stopped_and_the_model_hears_no_more_of_it() -> None:
    counting = Counting()
    script: list[Step] = [
        call("count_forever"),
        expect_tool_responses("fc-1"),
        told("count_forever", "one"),
        emit(ToolCallsCancelled(("fc-1",)), TurnComplete()),
        end(),
    ]
    with ScriptedLiveModel(script) as model:
        items, events = await items_of(model, [counting.count_forever])
    assert counting.stopped == 1
    assert statuses(items) == ["progress", "progress", "cancelled"]
    assert responses(events)[-1] == {"error": "cancelled", "result": "one"}


class Breaks:
    """A tool that fails after its first piece."""

    async def broken(self) -> AsyncGenerator[object, None]:
        """Break."""
        yield "chunk 0"
        raise ValueError("internal detail")

    async def unwritable(self) -> AsyncGenerator[object, None]:
        """Break."""
        yield "chunk 0"
        endless: list[object] = []
        endless.append(endless)
        yield endless


# contract: LIVE-17
# case: K-LTOOL-10
@pytest.mark.parametrize("name", ["broken", "unwritable"])
async def test_a_failure_after_a_piece_is_told_to_the_model_and_stored(name: str) -> None:
    script: list[Step] = [
        call(name),
        expect_tool_responses("fc-1"),
        told(name, "chunk 0"),
        expect_content(check=lambda content: f"`{name}`" in text_of(content) and "error" in text_of(content)),
        end(),
    ]
    with ScriptedLiveModel(script) as model:
        items, events = await items_of(model, [getattr(Breaks(), name)])
        assert "internal detail" not in str(model.connection.sent)
    assert statuses(items) == ["progress", "progress", "error"]
    assert responses(events)[-1]["result"] == "chunk 0"
    assert "error" in responses(events)[-1]


# contract: LIVE-17
async def test_arguments_that_do_not_fit_are_an_error_and_nothing_runs() -> None:
    script: list[Step] = [
        call(STREAM, {"count": "many"}),
        expect_tool_responses("fc-1", check=lambda sent: "error" in (sent[0].response or {})),
        call("stop_streaming", {}, id="stop"),
        expect_tool_responses("stop", check=lambda sent: "function_name" in str(sent[0].response)),
        end(),
    ]
    with ScriptedLiveModel(script) as model:
        items, _ = await items_of(model, [stream()])
    assert statuses(items) == ["error"]


# contract: LIVE-17
async def test_a_stream_that_the_model_cannot_be_told_of_ends() -> None:
    counting = Counting()
    script: list[Step] = [
        call("count_forever"),
        expect_tool_responses("fc-1"),
        refuse(told("count_forever", "one"), ModelError("not this one")),
        expect_content(check=lambda content: "could not be told" in text_of(content)),
        end(),
    ]
    with ScriptedLiveModel(script) as model:
        items, _ = await items_of(model, [counting.count_forever])
    assert counting.stopped == 1
    assert statuses(items) == ["progress", "progress", "error"]


# contract: LIVE-17
async def test_only_so_many_streams_run_at_once() -> None:
    counting = Counting()
    calls = tuple(FunctionCall(id=f"c{number}", name="count_forever", args={}) for number in range(MAX_STREAMS + 1))
    gate = asyncio.Event()
    with ScriptedLiveModel([emit(ToolCalls(calls)), expect_tool_responses(), wait(gate), end()], allow=["content"]) as model:
        runner = live_runner(model, tools=[counting.count_forever])
        async with go_live(runner) as live:
            items: list[LiveItem] = []
            async for item in live.items():
                items.append(item)
                if counting.running == MAX_STREAMS:
                    gate.set()
    assert statuses(items, f"c{MAX_STREAMS}") == ["error"]
    assert counting.stopped == MAX_STREAMS


class Hooks(Plugin):
    """Changes pieces, and answers failures."""

    def __init__(self) -> None:
        super().__init__("hooks")

    async def after_tool(self, context: Any, tool: Any, args: Any, result: Any) -> Any:
        return {"result": "***"} if result == {"result": "chunk 0"} else None

    async def on_tool_error(self, context: Any, tool: Any, args: Any, error: Exception) -> Any:
        return {"result": "sorry"}


# contract: LIVE-17, PLUG-08
async def test_hooks_see_every_piece_and_a_failure_between_pieces() -> None:
    script: list[Step] = [
        call("broken"), expect_tool_responses("fc-1"), told("broken", "***"), told("broken", "sorry"), end()
    ]  # fmt: skip
    with ScriptedLiveModel(script) as model:
        items, events = await items_of(model, [Breaks().broken], plugins=[Hooks()])
    assert statuses(items) == ["progress", "progress", "done"]
    assert responses(events)[1:] == [{"result": "***"}, {"result": "sorry"}]
    assert "chunk 0" not in str(model.connection.sent)


# contract: LIVE-17
async def test_a_tool_that_yields_without_end_is_no_faster_than_the_model() -> None:
    made: list[int] = []

    async def flood() -> AsyncGenerator[int, None]:
        """Flood."""
        while True:
            made.append(1)
            yield len(made)

    gate = asyncio.Event()
    with ScriptedLiveModel([call("flood"), expect_tool_responses("fc-1"), wait(gate), end()], allow=["content"]) as model:
        runner = live_runner(model, tools=[flood])
        async with go_live(runner) as live:
            seen = 0
            async for item in live.items():
                seen += isinstance(item, ToolFinished)
                assert len(made) <= sum(sent.kind == "content" for sent in model.connection.sent) + 1
                if seen == 50:
                    gate.set()
    assert responses(await stored(runner))[-1]["error"] == "cancelled"
