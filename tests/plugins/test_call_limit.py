"""A run asks models and tools at most so often."""

from __future__ import annotations

import pytest

from live_gateway.errors import ConfigurationError, PluginError
from live_gateway.models.live import TurnComplete
from live_gateway.plugins.call_limit import CallLimitPlugin
from live_gateway.runner import Runner
from live_gateway.testing.scripted_live import ScriptedLiveModel
from live_gateway.testing.scripted_model import calls
from live_gateway.testing.steps import Step, emit, end, expect_tool_responses
from live_gateway.testing.steps import call as live_call
from tests.support.live import all_of, go_live, in_short, live_runner
from tests.support.live import stored as live_stored
from tests.support.runs import bot, call, outcomes, run, short, stored


def look() -> str:
    """Look."""
    return "seen"


# contract: PLUG-02
async def test_a_question_too_many_ends_the_run() -> None:
    runner = Runner.in_memory("app", bot(call("look", "c1"), call("look", "c2"), tools=[look]), plugins=[CallLimitPlugin(model_calls=2)])
    got = await outcomes(runner)
    assert short(got)[-1] == "PluginError"
    assert isinstance(got[-1], PluginError)
    assert (got[-1].plugin, got[-1].hook) == ("call_limit", "before_model")
    assert "more than 2 times" in str(got[-1])


async def test_a_tool_call_too_many_is_answered_and_not_carried_out() -> None:
    ran: list[str] = []

    def count() -> str:
        """Count."""
        ran.append("count")
        return "counted"

    both = calls(call("count", "c1"), call("count", "c2"))
    runner = Runner.in_memory("app", bot(both, "done", tools=[count]), plugins=[CallLimitPlugin(tool_calls=1)])
    await run(runner)
    (responses,) = [event.function_responses for event in await stored(runner) if event.function_responses]
    assert [sorted(response.response or {}) for response in responses] == [["result"], ["error"]]
    assert ran == ["count"]


async def test_every_run_has_its_own_count() -> None:
    plugin = CallLimitPlugin(model_calls=1)
    runner = Runner.in_memory("app", bot("one", "two"), plugins=[plugin])
    assert short(await run(runner)) == ["bot: one"]
    assert short(await run(runner)) == ["bot: two"]
    assert plugin._used == {}


async def test_without_limits_nothing_is_refused() -> None:
    runner = Runner.in_memory("app", bot(*[call("look", f"c{n}") for n in range(5)], "done", tools=[look]), plugins=[CallLimitPlugin()])
    assert short(await run(runner))[-1] == "bot: done"


@pytest.mark.parametrize("limits", [{"model_calls": -1}, {"tool_calls": -1}])
def test_a_negative_limit_is_refused(limits: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match="-1"):
        CallLimitPlugin(**limits)  # type: ignore[arg-type]


@pytest.mark.virtual_time
async def test_a_live_session_is_one_invocation() -> None:
    script: list[Step] = []
    for call_id in ("c1", "c2"):
        script += [live_call("look", id=call_id), expect_tool_responses(), emit(TurnComplete())]
    with ScriptedLiveModel([*script, end()]) as model:
        runner = live_runner(model, tools=[look], plugins=[CallLimitPlugin(tool_calls=1)])
        async with go_live(runner) as live:
            await all_of(live)
    answered = [event.function_responses[0].response or {} for event in await live_stored(runner) if event.function_responses]
    assert [sorted(each) for each in answered] == [["result"], ["error"]]
    assert in_short(list(await live_stored(runner)))[-1] == "done"
