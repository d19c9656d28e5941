"""What callbacks, tools and the record of a live session are given: its context, its order, its time."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest

from live_gateway.agents.context import InvocationContext, ToolContext
from live_gateway.content import Part, model_content
from live_gateway.events import Event, NodeInfo
from live_gateway.live.items import ResponseEnded, TurnMetrics
from live_gateway.models.live import SpeechEnded, SpeechStarted, TurnComplete
from live_gateway.testing.scripted_live import ScriptedLiveModel
from live_gateway.testing.steps import Step, call, emit, end, expect_tool_responses, hear, pause, say
from tests.support.live import all_of, go_live, live_runner, stored


# contract: LIVE-26
# case: K-LIVE-36
async def test_callbacks_and_tools_see_no_user_content_one_invocation_and_no_branch() -> None:
    seen: list[tuple[Any, str, str | None]] = []

    def look(context: InvocationContext) -> None:
        seen.append((context.user_content, context.invocation_id, context.branch))

    async def before_agent(context: InvocationContext) -> None:
        look(context)

    async def peek(ctx: ToolContext) -> str:
        """Look around."""
        look(ctx.invocation)
        return "seen"

    script: list[Step] = [
        *(call("peek", id="c1"), expect_tool_responses("c1"), emit(TurnComplete())),
        *(call("peek", id="c2"), expect_tool_responses("c2"), emit(TurnComplete()), end()),
    ]
    with ScriptedLiveModel(script) as model:
        runner = live_runner(model, tools=[peek], before_agent=before_agent)
        async with go_live(runner) as live:
            await all_of(live)
    assert seen == [(None, live.invocation_id, None)] * 3
    assert {event.invocation_id for event in await stored(runner)} == {live.invocation_id}


# contract: LIVE-09
# case: K-LIVE-37
async def test_an_event_whose_message_is_its_output_is_recorded_without_the_output() -> None:
    with ScriptedLiveModel([]) as model:
        runner = live_runner(model)
        async with go_live(runner) as live:
            assert live._engine is not None
            given = Event(
                author="agent",
                invocation_id=live.invocation_id,
                content=model_content([Part(text="t")]),
                output="t",
                node_info=NodeInfo(message_as_output=True),
            )
            live._engine.record(given)
            got = await anext(live)
    (kept,) = await stored(runner)
    assert [(event.text, event.output) for event in (got, kept)] == [("t", None)] * 2
    assert given.output == "t"


def _steps() -> list[Step]:
    return [emit(SpeechStarted()), hear("hi"), emit(SpeechEnded(500)), pause(0.3), say("Hello there.", ms=1_000), pause(2), end()]


async def _measured() -> list[Any]:
    with ScriptedLiveModel(_steps()) as model:
        async with go_live(live_runner(model)) as live:
            return [item async for item in live.items() if isinstance(item, ResponseEnded | TurnMetrics)]


# report: A53
@pytest.mark.virtual_time
async def test_a_clock_that_is_set_back_changes_no_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    before = await _measured()
    steps_back: Iterator[float] = itertools.count(time.time(), -3_600.0)
    monkeypatch.setattr(time, "time", lambda: next(steps_back))
    assert await _measured() == before
    assert [item.heard_ms for item in before if isinstance(item, ResponseEnded)] == [1_000]
    assert [item.eou_to_first_audio_ms for item in before if isinstance(item, TurnMetrics)] == [pytest.approx(300, abs=5)]
