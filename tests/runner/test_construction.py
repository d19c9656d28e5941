"""What a runner is made of, the ways to run it, and what a run hands to its agent."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import live_gateway
from live_gateway.agents.config import LiveRunConfig, RunConfig
from live_gateway.agents.context import InvocationContext
from live_gateway.agents.custom import CustomAgent
from live_gateway.content import user_content
from live_gateway.errors import ConfigurationError
from live_gateway.events import Event
from live_gateway.runner import Runner
from live_gateway.sessions.memory import InMemorySessionService
from tests.support.runs import bot, run, saying, start, stored, told

REQUIRED = ("app_name", "agent", "session_service")


def parts(**changes: Any) -> dict[str, Any]:
    return {"app_name": "app", "agent": saying("hi"), "session_service": InMemorySessionService(), **changes}


# contract: NEW-01
def test_three_parts_are_required_and_no_more() -> None:
    parameters = inspect.signature(Runner).parameters.values()
    assert tuple(each.name for each in parameters if each.default is each.empty) == REQUIRED
    Runner(**parts())


# contract: NEW-01
# case: K-TREE-06
@pytest.mark.parametrize("name", REQUIRED)
@pytest.mark.parametrize("missing", [None, ""])
def test_a_missing_part_is_refused_by_name_when_the_runner_is_built(name: str, missing: object) -> None:
    with pytest.raises(ConfigurationError, match=f"a runner needs an? {name}$"):
        Runner(**parts(**{name: missing}))


# case: K-TREE-06
def test_the_agent_is_looked_at_first() -> None:
    with pytest.raises(ConfigurationError, match="needs an agent"):
        Runner(**parts(agent=None, session_service=None))


# contract: NEW-05
def test_there_are_two_ways_to_run() -> None:
    methods = {name for name, value in vars(Runner).items() if not name.startswith("_") and callable(getattr(Runner, name))}
    assert methods == {"in_memory", "run", "run_live"}
    assert isinstance(vars(Runner)["in_memory"], classmethod)


# contract: NEW-05
@pytest.mark.parametrize("config", [RunConfig, LiveRunConfig])
def test_every_setting_is_read_somewhere(config: type[RunConfig | LiveRunConfig]) -> None:
    package = Path(live_gateway.__file__).parent
    sources = [path for path in package.rglob("*.py") if path.name != "config.py" and "cli" not in path.parts]
    read = {
        node.attr
        for path in sources
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    assert [field.name for field in dataclasses.fields(config) if field.name not in read] == []


# contract: NEW-05
@pytest.mark.parametrize("way", ["run", "run_live"])
def test_what_a_run_does_not_know_is_refused(way: str) -> None:
    with pytest.raises(TypeError, match="colour"):
        getattr(Runner(**parts()), way)(user_id="u", session_id="s", colour="red")


# contract: RUN-07
async def test_the_context_of_a_run() -> None:
    seen: list[InvocationContext] = []

    async def note(context: InvocationContext) -> AsyncIterator[Event]:
        seen.append(context)
        yield told("custom", "hi")

    agent = CustomAgent(name="custom", run=note)
    message, config = user_content("hello"), RunConfig(max_llm_calls=3)
    for runner in (Runner.in_memory("app", agent), Runner(**parts(agent=agent), auto_create_session=True)):
        events = await run(runner, message, config=config)
        context = seen[-1]
        assert (context.app_name, context.user_id, context.session.id) == ("app", "u", "s")
        assert (context.agent, context.user_content, context.run_config) == (agent, message, config)
        assert {context.invocation_id} == {event.invocation_id for event in await stored(runner)} == {events[0].invocation_id}
        assert [event.text for event in context.session.events] == ["hello", "hi"]
    with_services, without = seen
    assert with_services.artifacts is not None
    assert with_services.memory is not None
    assert (without.artifacts, without.memory) == (None, None)


# contract: RUN-07, RUN-06
async def test_the_context_names_the_agent_that_was_chosen() -> None:
    child = bot("from the child", name="child")
    runner = Runner.in_memory("app", bot(name="root", sub_agents=[child]))
    await runner.session_service.create(app_name="app", user_id="u", session_id="s")
    session = await runner.session_service.get(app_name="app", user_id="u", session_id="s")
    await runner.session_service.append_event(session, told("child", "earlier"))
    async with start(runner) as stream:
        assert [event.author async for event in stream] == ["child"]
