"""The plugins of a runner: order, first answer, failures, what a replaced event may be."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from live_gateway.agents.context import InvocationContext
from live_gateway.agents.llm import LlmAgent
from live_gateway.content import Content, user_content
from live_gateway.errors import ConfigurationError, PluginError
from live_gateway.events import Compaction, Event, EventActions, replace
from live_gateway.plugins.base import Plugin
from live_gateway.plugins.chain import PluginChain
from tests.support.invocations import make_invocation

HOOKS: dict[str, int] = {  # hook: how many arguments it takes
    "on_user_message": 2,
    "before_run": 1,
    "before_agent": 2,
    "after_agent": 2,
    "before_model": 2,
    "after_model": 2,
    "on_model_error": 3,
    "before_tool": 3,
    "after_tool": 4,
    "on_tool_error": 4,
    "on_event": 2,
}


def _plugin(name: str, seen: list[str], answers: dict[str, Any] | None = None) -> Plugin:
    """A plugin that has every hook, notes each call, and answers (or raises) what it is told."""

    def hook(hook_name: str) -> Any:
        async def method(self: Plugin, *args: Any) -> Any:
            seen.append(f"{self.name}.{hook_name}")
            answer = (answers or {}).get(hook_name)
            if isinstance(answer, BaseException):
                raise answer
            return answer

        return method

    kind = type("Recording", (Plugin,), {hook_name: hook(hook_name) for hook_name in (*HOOKS, "after_run")})
    made = kind(name)
    assert isinstance(made, Plugin)
    return made


def _invocation() -> InvocationContext:
    return make_invocation(LlmAgent(name="agent"))


def test_every_hook_of_a_plugin_is_tested_here() -> None:
    assert {name for name in vars(Plugin) if not name.startswith("_")} == {*HOOKS, "after_run"}


# contract: PLUG-02
# case: K-PLUG-01
@pytest.mark.parametrize("hook", HOOKS)
async def test_plugins_run_in_order_and_the_first_answer_wins(hook: str) -> None:
    args = [None] * HOOKS[hook]
    seen: list[str] = []
    silent = PluginChain([_plugin("p1", seen), _plugin("p2", seen)])
    assert await silent.first(hook, *args) is None
    assert seen == [f"p1.{hook}", f"p2.{hook}"]

    seen.clear()
    answer = object()
    chain = PluginChain([_plugin("p1", seen), _plugin("p2", seen, {hook: answer}), _plugin("p3", seen)])
    assert await chain.first(hook, *args) is answer
    assert seen == [f"p1.{hook}", f"p2.{hook}"]


# contract: PLUG-02
# case: K-PLUG-01
@pytest.mark.parametrize("hook", HOOKS)
async def test_a_failing_hook_stops_the_rest_and_names_plugin_and_hook(hook: str) -> None:
    seen: list[str] = []
    boom = ValueError("boom")
    chain = PluginChain([_plugin("p1", seen, {hook: boom}), _plugin("p2", seen)])
    with pytest.raises(PluginError, match=f"'p1'.*{hook}.*boom") as caught:
        await chain.first(hook, *[None] * HOOKS[hook])
    assert (caught.value.plugin, caught.value.hook, caught.value.__cause__) == ("p1", hook, boom)
    assert seen == [f"p1.{hook}"]


async def test_cancellation_of_a_hook_is_no_plugin_failure() -> None:
    chain = PluginChain([_Patient("p1")])
    async with asyncio.TaskGroup() as group:
        running = group.create_task(chain.first("before_run", None))
        await asyncio.sleep(0.01)
        running.cancel()
    assert running.cancelled()


# contract: PLUG-02
async def test_a_cancellation_that_nobody_asked_for_is_a_plugin_failure() -> None:
    chain = PluginChain([_plugin("p1", [], {"before_run": asyncio.CancelledError()})])
    with pytest.raises(PluginError, match=r"p1.*before_run"):
        await chain.first("before_run", None)


# contract: PLUG-06
async def test_after_run_of_every_plugin_is_called_also_when_one_is_cancelled() -> None:
    seen: list[str] = []
    chain = PluginChain([_Patient("p1"), _plugin("p2", seen)])
    async with asyncio.TaskGroup() as group:
        running = group.create_task(chain.after_run(None))  # type: ignore[arg-type]
        await asyncio.sleep(0.01)
        running.cancel()
    assert running.cancelled()
    assert seen == ["p2.after_run"]


class _Patient(Plugin):
    async def before_run(self, invocation: Any) -> None:
        await asyncio.Event().wait()

    async def after_run(self, invocation: Any) -> None:
        await asyncio.Event().wait()


async def test_an_empty_answer_is_an_answer() -> None:
    seen: list[str] = []
    chain = PluginChain([_plugin("p1", seen, {"before_tool": {}}), _plugin("p2", seen)])
    assert await chain.first("before_tool", None, None, {}) == {}
    assert seen == ["p1.before_tool"]


# contract: NEW-03
# case: K-TREE-07
def test_two_plugins_of_one_name_and_none_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="'p' already registered"):
        PluginChain([Plugin("p"), Plugin("p")])
    with pytest.raises(ConfigurationError, match="cannot register None"):
        PluginChain([None])  # type: ignore[list-item]


def test_has_tells_whether_any_plugin_overrides_a_hook() -> None:
    class Watches(Plugin):
        async def on_event(self, invocation: InvocationContext, event: Event) -> Event | None:
            return None

    chain = PluginChain([Plugin("idle"), Watches("w")])
    assert chain.has("on_event")
    assert not chain.has("before_tool")
    assert not PluginChain().has("on_event")


# contract: PLUG-06
# case: K-PLUG-02
async def test_after_run_is_called_for_every_plugin_even_if_one_raises() -> None:
    seen: list[str] = []
    boom, bang = ValueError("boom"), KeyError("bang")
    chain = PluginChain([_plugin("p1", seen, {"after_run": boom}), _plugin("p2", seen), _plugin("p3", seen, {"after_run": bang})])
    errors = await chain.after_run(_invocation())
    assert seen == ["p1.after_run", "p2.after_run", "p3.after_run"]
    assert [(error.plugin, error.hook, error.__cause__) for error in errors] == [("p1", "after_run", boom), ("p3", "after_run", bang)]
    assert await PluginChain([_plugin("p", [])]).after_run(_invocation()) == []


# contract: PLUG-04
# case: K-PLUG-05
@pytest.mark.parametrize("partial", [False, True])
async def test_none_keeps_the_event_and_an_event_replaces_it(partial: bool) -> None:
    event = Event(author="agent", invocation_id="e-1", content=user_content("old"), partial=partial)
    assert await PluginChain().on_event(_invocation(), event) is event
    assert await PluginChain([_plugin("p", [])]).on_event(_invocation(), event) is event

    fresh = Event(author=" ", id="other", invocation_id="e-other", content=user_content("new"), partial=not partial, seq=9)
    got = await PluginChain([_plugin("p", [], {"on_event": fresh})]).on_event(_invocation(), event)
    assert (got.id, got.invocation_id, got.author, got.partial, got.seq) == (event.id, "e-1", "agent", partial, 0)
    assert got.text == "new"


# contract: PLUG-04
async def test_a_plugin_may_set_another_author() -> None:
    event = Event(author="agent")
    chain = PluginChain([_plugin("p", [], {"on_event": replace(event, author="narrator")})])
    assert (await chain.on_event(_invocation(), event)).author == "narrator"


# contract: PLUG-04
async def test_an_error_in_on_event_reaches_the_caller() -> None:
    chain = PluginChain([_plugin("p", [], {"on_event": ValueError("no")})])
    with pytest.raises(PluginError, match="on_event"):
        await chain.on_event(_invocation(), Event(author="agent"))


# contract: PLUG-05
# case: K-COMP-20
async def test_a_plugin_can_neither_plant_nor_remove_a_compaction_record() -> None:
    record = Compaction(first_seq=1, last_seq=2, content=Content(role="model"))
    plain, summary = Event(author="agent"), Event(author="agent", actions=EventActions(compaction=record))
    planting = PluginChain([_plugin("p", [], {"on_event": summary})])
    assert (await planting.on_event(_invocation(), plain)).actions.compaction is None
    removing = PluginChain([_plugin("p", [], {"on_event": plain})])
    assert (await removing.on_event(_invocation(), summary)).actions.compaction == record
