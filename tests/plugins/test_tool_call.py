"""One tool call through the chain of plugins, callbacks and tool, and the merging of several."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from live_gateway.agents.context import InvocationContext, ToolContext
from live_gateway.agents.llm import AfterTool, BeforeTool, LlmAgent
from live_gateway.content import FunctionCall, FunctionDeclaration
from live_gateway.errors import InvalidState, PluginError, ToolError
from live_gateway.plugins.base import Plugin
from live_gateway.plugins.chain import PluginChain
from live_gateway.plugins.tool_call import ToolOutcome, call_tool, merge_outcomes
from live_gateway.tools.base import Tool
from live_gateway.tools.function import FunctionTool
from tests.support.invocations import make_invocation

NO_PLUGINS = PluginChain()


class Recorder(Plugin):
    """Notes every tool hook; answers what it is told to answer."""

    def __init__(self, name: str, seen: list[str], **answers: Any) -> None:
        super().__init__(name)
        self.seen = seen
        self.answers = answers

    def _note(self, hook: str, detail: object) -> Any:
        self.seen.append(f"{self.name}.{hook}({detail})")
        answer = self.answers.get(hook)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def before_tool(self, context: ToolContext, tool: Tool, args: dict[str, Any]) -> Mapping[str, Any] | None:
        answer: Mapping[str, Any] | None = self._note("before", args)
        return answer

    async def after_tool(
        self, context: ToolContext, tool: Tool, args: dict[str, Any], result: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        answer: Mapping[str, Any] | None = self._note("after", result)
        return answer

    async def on_tool_error(
        self, context: ToolContext, tool: Tool | None, args: dict[str, Any], error: Exception
    ) -> Mapping[str, Any] | None:
        answer: Mapping[str, Any] | None = self._note("error", tool and tool.name)
        return answer


def _callbacks(seen: list[str], before: Any = None, after: Any = None) -> tuple[BeforeTool, AfterTool]:
    async def before_tool(context: ToolContext, tool: Tool, args: dict[str, Any]) -> Mapping[str, Any] | None:
        seen.append(f"agent.before({args})")
        if isinstance(before, BaseException):
            raise before
        answer: Mapping[str, Any] | None = before
        return answer

    async def after_tool(context: ToolContext, tool: Tool, args: dict[str, Any], result: Mapping[str, Any]) -> Mapping[str, Any] | None:
        seen.append(f"agent.after({result})")
        if isinstance(after, BaseException):
            raise after
        answer: Mapping[str, Any] | None = after
        return answer

    return before_tool, after_tool


def _agent(*tools: Tool | Callable[..., Any], before: BeforeTool | None = None, after: AfterTool | None = None) -> LlmAgent:
    return LlmAgent(name="agent", tools=tools, before_tool=before, after_tool=after)


async def _call(agent: LlmAgent, name: str, args: dict[str, Any] | None = None, chain: PluginChain = NO_PLUGINS) -> ToolOutcome:
    return await call_tool(chain, agent, make_invocation(agent), FunctionCall(id="fc-1", name=name, args=args))


def _response(outcome: ToolOutcome) -> dict[str, Any]:
    assert outcome.response is not None
    assert (outcome.response.id, outcome.response.name) == (outcome.call.id, outcome.call.name)
    assert outcome.response.response is not None
    return outcome.response.response


# contract: PLUG-08, PLUG-01
# report: A31
async def test_plugins_then_agent_then_tool_then_plugins_then_agent() -> None:
    seen: list[str] = []
    before, after = _callbacks(seen)

    def double(x: int) -> int:
        seen.append("tool")
        return 2 * x

    outcome = await _call(
        _agent(double, before=before, after=after), "double", {"x": 2}, PluginChain([Recorder("p1", seen), Recorder("p2", seen)])
    )
    assert _response(outcome) == {"result": 4}
    assert seen == [
        "p1.before({'x': 2})",
        "p2.before({'x': 2})",
        "agent.before({'x': 2})",
        "tool",
        "p1.after({'result': 4})",
        "p2.after({'result': 4})",
        "agent.after({'result': 4})",
    ]
    assert (outcome.status, outcome.error) == ("done", None)


# contract: PLUG-08
async def test_the_first_answer_before_the_tool_stands_for_it() -> None:
    for plugin_answers, agent_answer, expected in [
        ({"before": {"by": "plugin"}}, None, ["p.before({})", "p.after({'by': 'plugin'})", "agent.after({'by': 'plugin'})"]),
        ({}, {"by": "agent"}, ["p.before({})", "agent.before({})", "p.after({'by': 'agent'})", "agent.after({'by': 'agent'})"]),
    ]:
        seen: list[str] = []

        def never(seen: list[str] = seen) -> None:
            seen.append("tool")

        before, after = _callbacks(seen, before=agent_answer)
        agent = _agent(FunctionTool(never, name="never"), before=before, after=after)
        await _call(agent, "never", {}, PluginChain([Recorder("p", seen, **plugin_answers)]))
        assert seen == expected


# contract: PLUG-08
async def test_the_first_answer_after_the_tool_replaces_its_result() -> None:
    seen: list[str] = []
    before, after = _callbacks(seen, after={"by": "agent"})
    agent = _agent(_one, before=before, after=after)
    assert _response(await _call(agent, "_one")) == {"by": "agent"}
    assert seen == ["agent.before({})", "agent.after({'result': 1})"]
    seen.clear()
    by_plugin = await _call(agent, "_one", None, PluginChain([Recorder("p", seen, after={"by": "plugin"})]))
    assert _response(by_plugin) == {"by": "plugin"}
    assert seen[-1] == "p.after({'result': 1})"


def _one() -> int:
    return 1


# case: K-TOOL-03
# contract: LIVE-17
async def test_a_strangers_exception_gives_its_type_and_none_of_its_words() -> None:
    def leaks() -> None:
        raise RuntimeError("password=hunter2")

    outcome = await _call(_agent(leaks), "leaks")
    assert _response(outcome) == {"error": "the tool 'leaks' failed (RuntimeError)"}
    assert (outcome.status, outcome.error) == ("error", "the tool 'leaks' failed (RuntimeError)")


async def test_a_tool_errors_words_are_for_the_model() -> None:
    def refuses() -> None:
        raise ToolError("the door is locked; ask for the key first")

    assert _response(await _call(_agent(refuses), "refuses")) == {"error": "the door is locked; ask for the key first"}


# case: K-TOOL-01
async def test_arguments_that_do_not_fit_are_an_error_response() -> None:
    def double(x: int) -> int:
        return 2 * x

    error = _response(await _call(_agent(double), "double", {"x": "two"}))["error"]
    assert "'x': expected integer" in error


# contract: LIVE-17
@pytest.mark.parametrize("raised", [SystemExit(1), StopAsyncIteration(), asyncio.CancelledError(), BaseExceptionGroup("g", [SystemExit()])])
async def test_nothing_that_a_tool_raises_leaves_the_call_unanswered(raised: BaseException) -> None:
    async def bad() -> None:
        raise raised

    outcome = await _call(_agent(bad), "bad")
    assert outcome.status == "error"
    assert type(raised).__name__ in _response(outcome)["error"]


# contract: LIVE-17
@pytest.mark.parametrize("result", [object(), float("nan"), "x" * 5_000_000, {"self": None}])
async def test_a_result_that_json_cannot_hold_still_gives_an_answer(result: Any) -> None:
    if isinstance(result, dict):
        result["self"] = result

    def returns() -> Any:
        return result

    response = _response(await _call(_agent(returns), "returns"))
    assert response.keys() <= {"result", "error", "_coerced"}


# report: A37
async def test_an_unknown_tool_is_named_and_the_others_listed() -> None:
    seen: list[str] = []
    outcome = await _call(_agent(_one), "nope", {"a": 1}, PluginChain([Recorder("p", seen)]))
    error = _response(outcome)["error"]
    assert "'nope' not found" in error
    assert "_one" in error
    assert outcome.status == "error"
    assert seen == ["p.error(None)"]


async def test_a_plugin_may_answer_for_an_unknown_tool_and_for_a_failure() -> None:
    def fails() -> None:
        raise ValueError

    for name in ("nope", "fails"):
        seen: list[str] = []
        outcome = await _call(_agent(fails), name, None, PluginChain([Recorder("p", seen, error={"instead": 1})]))
        assert _response(outcome) == {"instead": 1}
        assert (outcome.status, outcome.error) == ("done", None)


async def test_after_tool_sees_the_error_and_may_replace_it() -> None:
    def fails() -> None:
        raise ValueError

    seen: list[str] = []
    outcome = await _call(_agent(fails), "fails", None, PluginChain([Recorder("p", seen, after={"fixed": True})]))
    assert seen[-1] == "p.after({'error': \"the tool 'fails' failed (ValueError)\"})"
    assert _response(outcome) == {"fixed": True}
    assert (outcome.status, outcome.error) == ("done", None)


@pytest.mark.parametrize("where", ["before", "after"])
async def test_a_raising_agent_callback_is_an_error_response(where: str) -> None:
    before, after = _callbacks([], **{where: KeyError("secret")})
    outcome = await _call(_agent(_one, before=before, after=after), "_one")
    assert outcome.status == "error"
    error = _response(outcome)["error"]
    assert "KeyError" in error
    assert "secret" not in error


# contract: PLUG-02
@pytest.mark.parametrize("hook", ["before", "after", "error"])
async def test_a_raising_plugin_reaches_the_caller(hook: str) -> None:
    def fails() -> None:
        raise ValueError

    with pytest.raises(PluginError, match="'p' failed in"):
        await _call(_agent(fails), "fails", None, PluginChain([Recorder("p", [], **{hook: KeyError("x")})]))


async def test_an_answer_of_a_plugin_that_is_no_json_is_an_error_response() -> None:
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    for hook in ("before", "after"):
        outcome = await _call(_agent(_one), "_one", None, PluginChain([Recorder("p", [], **{hook: cycle})]))
        assert "contains itself" in _response(outcome)["error"]
        assert outcome.status == "error"


# contract: NEW-08
async def test_the_models_call_is_not_changed_by_what_hooks_do_to_the_arguments() -> None:
    class Rewrites(Plugin):
        async def before_tool(self, context: ToolContext, tool: Tool, args: dict[str, Any]) -> Mapping[str, Any] | None:
            args["tags"].append("more")
            args["x"] = 9
            return None

    def join(x: int, tags: list[str]) -> str:
        return f"{x} {','.join(tags)}"

    call = FunctionCall(id="fc-1", name="join", args={"x": 1, "tags": ["a"]})
    before = copy.deepcopy(call)
    agent = _agent(join)
    outcome = await call_tool(PluginChain([Rewrites("r")]), agent, make_invocation(agent), call)
    assert _response(outcome) == {"result": "9 a,more"}
    assert call == before


# contract: EVT-05
async def test_a_call_without_an_id_gets_one_that_its_response_shares() -> None:
    agent = _agent(_one)
    call = FunctionCall(name="_one")
    outcome = await call_tool(NO_PLUGINS, agent, make_invocation(agent), call)
    assert outcome.call.id
    assert call.id is None
    assert _response(outcome) == {"result": 1}


# case: K-FLOW-02
@pytest.mark.parametrize(
    ("long_running", "result", "response"),
    [(False, None, {"result": None}), (True, None, None), (False, 5, {"result": 5}), (True, {"status": "pending"}, {"status": "pending"})],
)
async def test_only_a_long_running_tool_may_say_nothing(long_running: bool, result: Any, response: dict[str, Any] | None) -> None:
    runs: list[int] = []

    def work() -> Any:
        runs.append(1)
        return result

    outcome = await _call(_agent(FunctionTool(work, long_running=long_running)), "work")
    assert (outcome.response.response if outcome.response else None) == response
    assert outcome.status == "done"
    assert runs == [1]


# contract: STATE-03
async def test_what_a_tool_writes_is_read_by_later_tools_and_travels_with_its_response() -> None:
    def write(ctx: ToolContext) -> None:
        ctx.state["seen"] = [1]

    def read(ctx: ToolContext) -> Any:
        return ctx.state["seen"]

    agent = _agent(write, read)
    invocation = make_invocation(agent, {"seen": [0]})
    wrote = await call_tool(NO_PLUGINS, agent, invocation, FunctionCall(id="1", name="write"))
    assert wrote.actions.state_delta == {"seen": [1]}
    got = await call_tool(NO_PLUGINS, agent, invocation, FunctionCall(id="2", name="read"))
    assert _response(got) == {"result": [1]}
    assert got.actions.state_delta == {}
    assert invocation.session.state["seen"] == (0,)


# contract: STATE-08
async def test_state_that_is_no_json_is_explained_to_the_model() -> None:
    def write(ctx: ToolContext) -> None:
        ctx.state["bad"] = object()

    outcome = await _call(_agent(write), "write")
    assert "'bad'" in _response(outcome)["error"]
    assert outcome.actions.state_delta == {}


async def _cancelled_call(agent: LlmAgent, invocation: InvocationContext, running: asyncio.Event, chain: PluginChain) -> None:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(call_tool(chain, agent, invocation, FunctionCall(id="1", name="write_and_wait")))
        await running.wait()
        assert invocation.state["k"] == "dirty"
        task.cancel()
    assert task.cancelled()


# contract: STATE-03, LIVE-17
async def test_a_cancelled_call_is_cancelled_and_what_it_wrote_is_gone() -> None:
    running = asyncio.Event()

    async def write_and_wait(ctx: ToolContext) -> None:
        ctx.state["k"] = "dirty"
        running.set()
        await asyncio.Event().wait()

    agent = _agent(write_and_wait)
    invocation = make_invocation(agent, {"k": "stored"})
    await _cancelled_call(agent, invocation, running, NO_PLUGINS)
    assert invocation.state["k"] == "stored"


# contract: STATE-03
async def test_what_a_call_wrote_is_gone_when_a_plugin_fails_afterwards() -> None:
    def write(ctx: ToolContext) -> None:
        ctx.state["k"] = "dirty"

    agent = _agent(write)
    invocation = make_invocation(agent, {"k": "stored"})
    with pytest.raises(PluginError):
        await call_tool(PluginChain([Recorder("p", [], after=ValueError())]), agent, invocation, FunctionCall(id="1", name="write"))
    assert invocation.state["k"] == "stored"


# contract: STATE-03
async def test_a_thread_that_was_given_up_cannot_write_any_more() -> None:
    go, done = threading.Event(), threading.Event()
    errors: list[Exception] = []

    def late(ctx: ToolContext) -> None:
        go.wait(5)
        try:
            ctx.state["k"] = "late"
        except InvalidState as error:
            errors.append(error)
        done.set()

    agent = _agent(FunctionTool(late, timeout_s=0.5))
    invocation = make_invocation(agent, {"k": "stored"})
    outcome = await call_tool(NO_PLUGINS, agent, invocation, FunctionCall(id="1", name="late"))
    assert "timeout" in _response(outcome)["error"]
    go.set()
    assert await asyncio.to_thread(done.wait, 5)
    assert "after the call was over" in str(errors[0])
    assert invocation.state["k"] == "stored"


@pytest.mark.virtual_time
async def test_the_time_is_measured_on_the_loop() -> None:
    async def slow() -> None:
        await asyncio.sleep(1.5)

    assert (await _call(_agent(slow), "slow")).ms == 1500


# case: K-FLOW-04
# report: A42
@pytest.mark.virtual_time
async def test_three_slow_calls_side_by_side_take_the_time_of_one() -> None:
    async def slow(n: int) -> int:
        await asyncio.sleep(0.5 - n / 10)
        return n

    agent = _agent(slow)
    start = asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_call(agent, "slow", {"n": n})) for n in range(3)]
    assert asyncio.get_running_loop().time() - start < 1
    content, _ = merge_outcomes([task.result() for task in tasks])
    assert content is not None
    assert content.parts is not None
    assert [part.function_response.response for part in content.parts if part.function_response] == [{"result": n} for n in range(3)]


async def test_a_foreign_tool_that_raises_anything_is_answered_too() -> None:
    class Foreign:
        name = "foreign"
        declaration = FunctionDeclaration(name="foreign")
        effect = "read"
        long_running = False

        async def run(self, args: Mapping[str, Any], context: object) -> Any:
            raise SystemExit(2)

    outcome = await _call(_agent(Foreign()), "foreign")  # type: ignore[arg-type]
    assert "SystemExit" in _response(outcome)["error"]
