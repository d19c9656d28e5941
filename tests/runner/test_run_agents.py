"""Which agent runs, and how a run is put together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from live_gateway.agents.context import InvocationContext
from live_gateway.agents.custom import CustomAgent
from live_gateway.content import Content, FunctionResponse, Part, model_content, user_content
from live_gateway.errors import (
    ConfigurationError,
    InvalidInput,
    PluginError,
)
from live_gateway.events import Event
from live_gateway.runner import Runner
from tests.support.run_agents import runner_on
from tests.support.runs import WHO, Recorder, bot, call, model_of, outcomes, run, saying, session, short, stored, told


# contract: RUN-06
async def test_an_agent_of_a_foreign_kind_is_refused_by_name() -> None:
    class Foreign:
        name, description, sub_agents = "foreign", "", ()

    (error,) = await outcomes(Runner.in_memory("app", Foreign()))
    assert isinstance(error, ConfigurationError)
    assert "'foreign'" in str(error)


# contract: STATE-03
async def test_a_custom_agent_runs_others_in_its_invocation() -> None:
    async def agent(context: InvocationContext) -> AsyncIterator[Event]:
        context.state["temp:shared"] = "yes"
        async for event in context.run(child):
            yield event
        yield told("root", "done")

    child = bot("mine", name="child", instruction="{temp:shared}")
    runner = Runner.in_memory("app", CustomAgent(name="root", run=agent, sub_agents=[child]))
    assert short(await run(runner)) == ["child: mine", "root: done"]
    assert model_of(child).requests[0].instruction == "yes"
    assert dict((await session(runner)).state) == {}


async def family(*events: Event, **root: Any) -> Runner:
    """A root with a child that may, and one that may not, hand back; and a session with these events."""
    open_child = bot("open", name="open")
    closed_child = bot("closed", name="closed", disallow_transfer_to_parent=True)
    runner = Runner.in_memory("app", bot("root", name="root", sub_agents=[open_child, closed_child, *root.pop("more", ())], **root))
    opened = await runner.session_service.create(app_name="app", **WHO)
    for event in events:
        await runner.session_service.append_event(opened, event)
    return runner


def calling(author: str, call_id: str, **fields: Any) -> Event:
    return Event(author=author, content=model_content([Part(function_call=call("t", call_id))]), **fields)


def answering(*ids: str) -> Content:
    return Content(role="user", parts=[Part(function_response=FunctionResponse(name="t", id=call_id, response={})) for call_id in ids])


# contract: PICK-01, PICK-03
# case: K-SEL-01
# case: K-SEL-02
# case: K-SEL-06
async def test_the_newest_agent_that_may_hand_back_answers_next() -> None:
    assert short(await run(await family(told("open", "x"), told("stranger", "y")))) == ["open: open"]
    assert short(await run(await family(told("closed", "x")))) == ["root: root"]
    assert short(await run(await family())) == ["root: root"]


# contract: PICK-02, HITL-01
# case: K-SEL-04
async def test_an_answer_goes_to_the_agent_that_asked_and_into_its_invocation() -> None:
    runner = await family(calling("closed", "c1", invocation_id="e-first"), told("root", "x"))
    (event,) = await run(runner, answering("c1"))
    assert short([event]) == ["closed: closed"]
    assert event.invocation_id == "e-first"


# contract: PICK-02
async def test_answers_to_different_agents_in_one_message_are_refused_before_anything_is_stored() -> None:
    runner = await family(calling("open", "c1", invocation_id="e-1"), calling("closed", "c2", invocation_id="e-1"))
    (error,) = await outcomes(runner, answering("c1", "c2"))
    assert isinstance(error, InvalidInput)
    assert "c1: open" in str(error)
    assert "c2: closed" in str(error)
    assert len(await stored(runner)) == 2


# contract: PICK-04
# case: K-SEL-09
async def test_a_root_with_task_children_keeps_coordinating() -> None:
    runner = await family(told("open", "x"), more=[bot(name="worker", mode="task")])
    assert short(await run(runner)) == ["root: root"]


# contract: HITL-02
# case: K-NODE-09
async def test_an_answer_to_an_unknown_call_is_stored_and_shown_to_the_model() -> None:
    runner = await family()
    assert short(await run(runner, answering("nowhere"))) == ["root: root"]
    assert short(await stored(runner))[0] == "user: FR(t:{})"


# contract: RUN-12
# case: K-NODE-14
async def test_the_users_message_inherits_the_most_recent_open_scope() -> None:
    def finished(scope: str, result: str) -> Event:
        part = Part(function_response=FunctionResponse(name="finish_task", id="f", response={"result": result}))
        return Event(author="open", isolation_scope=scope, content=Content(role="user", parts=[part]))

    runner = await family(told("open", "x", isolation_scope="A"))
    await run(runner)
    assert (await stored(runner))[1].isolation_scope == "A"
    assert (await stored(runner))[2].isolation_scope is None
    runner = await family(
        told("open", "x", isolation_scope="A"),
        told("open", "y", isolation_scope="B"),
        finished("B", "Task completed."),
        finished("A", "not yet"),
    )
    await run(runner)
    assert (await stored(runner))[4].isolation_scope == "A"
    runner = await family(told("open", "x", isolation_scope="A"), finished("A", "Task completed."))
    await run(runner)
    assert (await stored(runner))[2].isolation_scope is None


# contract: PLUG-01, PLUG-07, PLUG-08
# case: K-PLUG-02
async def test_the_hooks_come_in_order() -> None:
    def work() -> str:
        return "ok"

    seen: list[str] = []
    agent = bot(call("work"), "done", tools=[work])
    second = Recorder([], "second")
    await run(Runner.in_memory("app", agent, plugins=[Recorder(seen), second]))
    assert seen == [
        "on_user_message",
        "before_run",
        "before_agent bot",
        "before_model",
        "after_model",
        "on_event bot: FC(work)",
        "before_tool work",
        "after_tool work",
        "on_event bot: FR(work:{'result': 'ok'})",
        "before_model",
        "after_model",
        "on_event bot: done",
        "after_agent bot",
        "after_run",
    ]
    assert second.seen == seen


# contract: PLUG-02
# case: K-PLUG-01
async def test_the_first_answer_wins_and_a_failure_names_plugin_and_hook() -> None:
    late: list[str] = []
    plugins = [Recorder([], "one", before_run=model_content([Part(text="one")])), Recorder(late, "two")]
    assert short(await run(Runner.in_memory("app", bot(), plugins=plugins))) == ["bot: one"]
    assert "before_run" not in late
    (error,) = await outcomes(Runner.in_memory("app", bot(), plugins=[Recorder([], "bad", before_agent=ValueError("x"))]))
    assert isinstance(error, PluginError)
    assert (error.plugin, error.hook, type(error.__cause__)) == ("bad", "before_agent", ValueError)


# contract: PLUG-06
async def test_after_run_of_every_plugin_is_called_and_its_failure_reaches_who_read_to_the_end() -> None:
    seen: list[str] = []
    plugins = [Recorder(seen, "one", after_run=ValueError("x")), Recorder(seen, "two")]
    runner = Runner.in_memory("app", saying("a"), plugins=plugins)
    got = await outcomes(runner)
    assert short(got) == ["custom: a", "PluginError"]
    assert seen.count("after_run") == 2


# contract: NEW-02
async def test_nothing_but_agent_and_session_service_is_needed() -> None:
    runner = runner_on(bot("hi"), auto_create_session=True)
    assert short(await run(runner)) == ["bot: hi"]


# contract: NEW-04
# case: K-TREE-08
async def test_the_runner_in_memory_has_all_services_and_makes_sessions() -> None:
    async def agent(context: InvocationContext) -> AsyncIterator[Event]:
        assert context.artifacts is not None
        assert context.memory is not None
        version = await context.artifacts.save("a", Part(text="x"))
        yield told("custom", f"{version} {await context.artifacts.list()} {await context.memory.search('x')}")

    runner = Runner.in_memory("app", CustomAgent(name="custom", run=agent))
    assert short(await run(runner)) == ["custom: 0 ['a'] []"]


# contract: NEW-06
async def test_no_run_writes_to_the_memory() -> None:
    runner = Runner.in_memory("app", saying("remarkable"))
    seen: list[int] = []

    async def agent(context: InvocationContext) -> AsyncIterator[Event]:
        assert context.memory is not None
        seen.append(len(await context.memory.search("hello remarkable")))
        yield told("custom", "remarkable")

    runner = Runner.in_memory("app", CustomAgent(name="custom", run=agent))
    await run(runner)
    await run(runner)
    assert seen == [0, 0]


# contract: NEW-08
async def test_one_runner_serves_many_runs_at_once() -> None:
    runner = Runner.in_memory("app", bot(*["hi"] * 20))

    async def one(number: int) -> list[Event]:
        return [event async for event in runner.run(user_id="u", session_id=f"s{number}", message=user_content(str(number)))]

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(number)) for number in range(20)]
    assert all(short(task.result()) == ["bot: hi"] for task in tasks)
    sessions = await runner.session_service.list(app_name="app", user_id="u")
    assert {each.head_seq for each in sessions} == {2}
