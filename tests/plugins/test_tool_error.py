"""Who may answer for a tool that failed: the plugins, then the agent; and whose own failure changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from live_gateway.agents.context import ToolContext
from live_gateway.agents.llm import LlmAgent
from live_gateway.content import FunctionCall
from live_gateway.errors import ToolError
from live_gateway.plugins.base import Plugin
from live_gateway.plugins.chain import PluginChain
from live_gateway.plugins.tool_call import ToolOutcome, call_tool
from live_gateway.runner import Runner
from live_gateway.tools.base import Tool
from tests.support.invocations import make_invocation
from tests.support.runs import bot, call, run, short, stored


class Helper(Plugin):
    """Answers for tools that failed."""

    async def on_tool_error(self, context: ToolContext, tool: Tool | None, args: dict[str, Any], error: Exception) -> Mapping[str, Any]:
        return {"by": "plugin"}


def broken() -> None:
    """Fails."""
    raise ToolError("out of order")


def agent_with(answer: Mapping[str, Any] | Exception | None, seen: list[str]) -> LlmAgent:
    async def on_tool_error(context: ToolContext, tool: Tool | None, args: dict[str, Any], error: Exception) -> Mapping[str, Any] | None:
        seen.append(f"{tool.name if tool else None}: {type(error).__name__}")
        if isinstance(answer, Exception):
            raise answer
        return answer

    return LlmAgent(name="agent", tools=[broken], on_tool_error=on_tool_error)


async def outcome(agent: LlmAgent, name: str, *plugins: Plugin) -> ToolOutcome:
    return await call_tool(PluginChain(plugins), agent, make_invocation(agent), FunctionCall(id="fc-1", name=name, args={}))


# contract: PLUG-08
@pytest.mark.parametrize(("name", "tool"), [("broken", "broken"), ("missing", "None")])
async def test_the_agent_answers_for_a_failed_or_missing_tool(name: str, tool: str) -> None:
    seen: list[str] = []
    done = await outcome(agent_with({"by": "agent"}, seen), name)
    assert done.response is not None
    assert (done.response.response, done.status, done.error) == ({"by": "agent"}, "done", None)
    assert seen == [f"{tool}: ToolError"]


# contract: PLUG-08
async def test_a_plugins_answer_comes_before_the_agents() -> None:
    seen: list[str] = []
    done = await outcome(agent_with({"by": "agent"}, seen), "broken", Helper("helper"))
    assert done.response is not None
    assert (done.response.response, seen) == ({"by": "plugin"}, [])


@pytest.mark.parametrize("answer", [None, RuntimeError("secret words")])
async def test_an_agent_that_cannot_help_leaves_the_failure_as_it_was(answer: Exception | None) -> None:
    done = await outcome(agent_with(answer, []), "broken")
    assert done.response is not None
    assert (done.response.response, done.status) == ({"error": "out of order"}, "error")


# contract: PLUG-08
async def test_in_a_run_the_model_gets_the_agents_answer() -> None:
    async def on_tool_error(context: ToolContext, tool: Tool | None, args: dict[str, Any], error: Exception) -> Mapping[str, Any]:
        return {"use": "the stairs"}

    runner = Runner.in_memory("app", bot(call("broken", "c"), "done", tools=[broken], on_tool_error=on_tool_error))
    await run(runner)
    assert "bot: FR(broken:{'use': 'the stairs'})" in short(await stored(runner))
