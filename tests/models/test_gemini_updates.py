"""What a streaming tool gives, as Gemini Live is told it: as a further answer where the model takes such, else in words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from live_gateway.content import FunctionResponse
from live_gateway.models.gemini_profile import profile_of
from live_gateway.models.tool_updates import update_in_words
from live_gateway.testing.fake_gemini import FakeGemini
from live_gateway.testing.gemini_steps import (
    Expect,
    Step,
    call,
    drop,
    expect_content,
    expect_setup,
    expect_text,
    expect_tool_response,
    ready,
    write,
)
from live_gateway.tools.streaming import StreamingTool
from tests.support.gemini import gemini_model
from tests.support.live import all_of, go_live, live_runner


async def chunks() -> AsyncGenerator[str, None]:
    """Count."""
    yield "chunk 0"
    yield "chunk 1"


def answer(**wanted: Any) -> Expect:
    """One answer to the call with these fields, and no other."""
    return expect_tool_response("fc-1", check=lambda sent: sent[0] == {"id": "fc-1", "name": "chunks", **wanted})


async def play(gemini: FakeGemini, name: str, tool: Any) -> None:
    runner = live_runner(gemini_model(gemini, name=name), tools=[tool])
    async with go_live(runner) as live, asyncio.TaskGroup() as group:
        group.create_task(all_of(live))
        await gemini.played()
        await live.close()


def declared(setup: Any) -> bool:
    functions = {function["name"]: function for function in setup["tools"][0]["functionDeclarations"]}
    return functions["chunks"].get("behavior") == "NON_BLOCKING" and "behavior" not in functions["stop_streaming"]


# contract: LIVE-17
async def test_pieces_are_further_answers_to_the_call() -> None:
    script: list[Step] = [
        expect_setup(declared),
        ready(),
        call("chunks"),
        expect_tool_response("fc-1", check=lambda sent: sent[0]["willContinue"] is True and "status" in sent[0]["response"]),
        answer(response={"result": "chunk 0"}, willContinue=True, scheduling="WHEN_IDLE"),
        answer(response={"result": "chunk 1"}, willContinue=True, scheduling="WHEN_IDLE"),
        answer(response={"status": "chunks has ended."}, willContinue=False, scheduling="SILENT"),
        write("ok"),
    ]
    async with FakeGemini(script) as gemini:
        await play(gemini, "gemini-2.5-live", StreamingTool(chunks, scheduling="WHEN_IDLE"))


# contract: LIVE-17
async def test_a_model_that_takes_one_answer_is_told_in_words() -> None:
    script: list[Step] = [
        call("chunks"),
        expect_tool_response("fc-1", check=lambda sent: "willContinue" not in sent[0] and "status" in sent[0]["response"]),
        expect_text("Update from the function `chunks` (call fc-1): chunk 0"),
        expect_text("Update from the function `chunks` (call fc-1): chunk 1"),
        write("ok"),
    ]
    async with FakeGemini(script) as gemini:
        await play(gemini, "gemini-3.1-live", chunks)


# contract: LIVE-17, LIVE-19
async def test_a_model_that_never_made_the_call_is_told_in_words() -> None:
    """The connection was lost, and with it the state in which the call is known."""
    gate = asyncio.Event()

    async def later() -> AsyncGenerator[str, None]:
        """Wait."""
        await gate.wait()
        yield "chunk 0"

    first: list[Step] = [call("later"), expect_tool_response("fc-1"), drop("rst")]
    second: list[Step] = [
        expect_setup(),
        ready(),
        expect_content(turn_complete=False),
        expect_text(),  # the answer, which may have been lost
        expect_text("Update from the function `later` (call fc-1): chunk 0"),
        write("ok"),
    ]
    async with FakeGemini(first, second) as gemini:
        runner = live_runner(gemini_model(gemini, name="gemini-2.5-live"), tools=[later])
        async with go_live(runner) as live, asyncio.TaskGroup() as group:
            group.create_task(all_of(live))
            await gemini.until(lambda: len(gemini.connections) == 2)
            gate.set()
            await gemini.played()
            await live.close()


def test_which_models_take_further_answers() -> None:
    names = ("gemini-2.5-flash-native-audio", "gemini-3.1-flash-live", "gemini-3.8-live", "gemini-3.8-live-thinking")
    assert [profile_of(name).updates for name in names] == [True, False, True, False]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"response": {"result": {"a": 1}}, "will_continue": True}, '{"a": 1}'),
        ({"response": {"error": "no"}, "will_continue": False, "scheduling": "SILENT"}, '{"error": "no"}'),
        ({"response": {"status": "ended"}, "will_continue": False, "scheduling": "SILENT"}, None),
    ],
)
def test_updates_in_words(fields: dict[str, Any], words: str | None) -> None:
    content = update_in_words(FunctionResponse(id="c", name="f", **fields))
    assert (content and (content.parts or [])[0].text) == (words and f"Update from the function `f` (call c): {words}")
