"""Streaming tools outside of a live session, and what makes one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any

import pytest

from live_gateway.agents.llm import LlmAgent
from live_gateway.content import Part, model_content
from live_gateway.errors import ConfigurationError, ToolError
from live_gateway.models.base import ModelResponse
from live_gateway.runner import Runner
from live_gateway.sessions.memory import InMemorySessionService
from live_gateway.tools.function import FunctionTool, tool
from live_gateway.tools.result import MAX_RESULT_BYTES
from live_gateway.tools.streaming import Kept, StreamingTool, joined
from tests.support.runs import bot, call, model_of, run

pytestmark = pytest.mark.virtual_time


async def chunks(count: int) -> AsyncGenerator[str, None]:
    """Count in pieces."""
    for number in range(count):
        yield f"chunk {number}"


async def answered(function: Callable[..., Any], **args: Any) -> dict[str, Any]:
    """What a run's model is answered when it calls this tool."""
    agent = bot(
        ModelResponse(content=model_content([Part(function_call=call(function.__name__, "c", **args))])),
        ModelResponse(content=model_content([Part(text="ok")])),
        tools=[function],
    )
    runner = Runner(app_name="app", agent=agent, session_service=InMemorySessionService(), auto_create_session=True)
    events = await run(runner)
    assert [declaration.name for declaration in model_of(agent).requests[0].tools] == [function.__name__]
    (response,) = [response for event in events for response in event.function_responses]
    return response.response or {}


# contract: LIVE-17
# case: K-LTOOL-06
async def test_outside_of_live_the_pieces_are_one_result() -> None:
    assert await answered(chunks, count=3) == {"result": "chunk 0chunk 1chunk 2"}


async def test_pieces_that_are_no_text_are_a_list() -> None:
    async def readings() -> AsyncGenerator[dict[str, int], None]:
        """Read."""
        yield {"at": 1}
        yield {"at": 2}

    assert await answered(readings) == {"result": [{"at": 1}, {"at": 2}]}
    assert joined(["a", 1]) == ["a", 1]


async def test_a_failure_and_a_stream_without_end_are_errors() -> None:
    async def broken() -> AsyncGenerator[str, None]:
        """Break."""
        yield "one"
        raise ToolError("no more")

    async def large() -> AsyncGenerator[str, None]:
        """Flood."""
        while True:
            yield "x" * 1024

    closed = asyncio.Event()

    async def silent() -> AsyncGenerator[str, None]:
        """Wait."""
        try:
            yield "one"
            await asyncio.Event().wait()
        finally:
            closed.set()

    assert await answered(broken) == {"error": "no more"}
    assert "more than a result may hold" in (await answered(large))["error"]
    assert "timeout" in (await answered(silent))["error"]
    assert closed.is_set()
    assert MAX_RESULT_BYTES > 1024


async def test_outside_of_live_there_is_nothing_to_stop() -> None:
    agent = bot(
        ModelResponse(content=model_content([Part(function_call=call("stop_streaming", "c", function_name="chunks"))])),
        ModelResponse(content=model_content([Part(text="ok")])),
        tools=[chunks],
    )
    events = await run(Runner(app_name="app", agent=agent, session_service=InMemorySessionService(), auto_create_session=True))
    (response,) = [response for event in events for response in event.function_responses]
    assert "No running instance of chunks" in (response.response or {})["status"]


def test_an_async_generator_function_makes_a_streaming_tool_and_nothing_else_does() -> None:
    assert isinstance(tool(chunks), StreamingTool)
    decorated = tool(effect="read", scheduling="SILENT")(chunks)  # type: ignore[call-overload]
    assert (decorated.effect, decorated.scheduling) == ("read", "SILENT")
    assert isinstance(LlmAgent(name="a", tools=[chunks]).toolbox["chunks"], StreamingTool)

    def generator() -> Iterator[str]:
        yield "x"

    def plain() -> str:
        return "x"

    for single in (generator, plain):
        with pytest.raises(ConfigurationError):
            StreamingTool(single)  # type: ignore[arg-type]
    for wrong in (generator, chunks):
        with pytest.raises(ConfigurationError):
            FunctionTool(wrong)
    with pytest.raises(ConfigurationError, match="scheduling"):
        StreamingTool(chunks, scheduling="LATER")  # type: ignore[arg-type]


def test_a_tool_of_the_users_is_not_shadowed() -> None:
    def stop_streaming() -> str:
        """Mine."""
        return "x"

    assert list(LlmAgent(name="a", tools=[stop_streaming]).toolbox) == ["stop_streaming"]
    with pytest.raises(ConfigurationError, match="duplicate tool"):
        LlmAgent(name="a", tools=[stop_streaming, chunks])


def test_only_the_newest_pieces_are_kept() -> None:
    kept = Kept()
    assert kept.result() == {}
    for number in range(100):
        kept.add(f"{number:04}" + "x" * 996)
    text = kept.result()["result"]
    assert text.startswith("0068")
    assert len(text) == 32_000
    kept.add("y" * Kept.LIMIT)
    assert kept.result() == {}
