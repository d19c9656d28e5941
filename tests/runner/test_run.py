"""`Runner.run`: session, message, agent, store, plugins."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from typing import Any, Literal

import pytest

from live_gateway.agents.config import RunConfig
from live_gateway.agents.context import InvocationContext
from live_gateway.agents.custom import CustomAgent
from live_gateway.agents.llm import LlmAgent
from live_gateway.artifacts.memory import InMemoryArtifactService
from live_gateway.content import Blob, Content, Part, model_content, user_content
from live_gateway.errors import (
    AgentError,
    ConfigurationError,
    InvalidInput,
    PluginError,
    SessionExists,
    SessionNotFound,
    StorageError,
)
from live_gateway.events import Event, EventActions, NodeInfo, replace
from live_gateway.plugins.base import Plugin
from live_gateway.runner import Runner
from live_gateway.sessions.memory import InMemorySessionService
from live_gateway.testing.sessions import FaultySessionService
from tests.support.run_agents import runner_on
from tests.support.runs import WHO, Recorder, bot, model_of, outcomes, run, saying, session, short, start, stored, told


# contract: RUN-05
# case: K-RUN-02
@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("auto", [True, False])
async def test_a_missing_session_is_made_only_where_that_is_allowed(exists: bool, auto: bool) -> None:
    service = InMemorySessionService()
    if exists:
        await service.create(app_name="app", **WHO)
    runner = runner_on(bot("hi"), service, auto_create_session=auto)
    got = await outcomes(runner)
    if exists or auto:
        assert short(got) == ["bot: hi"]
        assert short(await stored(runner)) == ["user: hello", "bot: hi"]
    else:
        assert [type(each) for each in got] == [SessionNotFound]
        assert await service.list(app_name="app") == []


# contract: RUN-05
# case: K-RUN-03
async def test_a_broken_store_is_reported_as_itself_and_makes_no_session() -> None:
    inner = InMemorySessionService()
    broken = FaultySessionService(inner)
    broken.break_down(StorageError("down"))
    (error,) = await outcomes(runner_on(bot(), broken, auto_create_session=True))
    assert str(error) == "down"
    assert await inner.list(app_name="app") == []


# contract: RUN-05
async def test_a_create_that_lost_the_race_uses_the_session_that_won() -> None:
    class Racing(InMemorySessionService):
        async def create(self, **where: Any) -> Any:
            await super().create(**where)
            raise SessionExists("somebody was faster")

    assert short(await run(runner_on(bot("hi"), Racing(), auto_create_session=True))) == ["bot: hi"]


# contract: RUN-11, RUN-18
# case: K-RUN-04
# case: K-NODE-01
async def test_a_simple_turn_stores_question_and_answer_under_one_invocation() -> None:
    runner = Runner.in_memory("app", bot("hi"))
    assert short(await run(runner)) == ["bot: hi"]
    events = await stored(runner)
    assert short(events) == ["user: hello", "bot: hi"]
    assert len({event.invocation_id for event in events}) == 1
    assert events[0].invocation_id.startswith("e-")


# contract: RUN-11
# case: K-NODE-02
@pytest.mark.parametrize("agent", [lambda: bot("hi"), lambda: saying("hi", name="bot")])
async def test_the_users_message_is_yielded_when_wanted_and_stored_either_way(agent: Any) -> None:
    runner = Runner.in_memory("app", agent())
    events = await run(runner, yield_user_message=True)
    assert short(events) == ["user: hello", "bot: hi"]
    assert [event.seq for event in events] == [1, 2]


# contract: RUN-10
# case: K-RUN-12
async def test_the_state_delta_rides_on_the_users_event_and_the_agent_sees_it() -> None:
    seen: list[Any] = []

    async def agent(context: InvocationContext) -> AsyncIterator[Event]:
        seen.append((context.state["test_state"], context.state["temp:x"]))
        yield told("custom", "a")

    runner = Runner.in_memory("app", CustomAgent(name="custom", run=agent))
    await run(runner, state_delta={"test_state": "must_change", "temp:x": 1})
    assert seen == [("must_change", 1)]
    assert (await stored(runner))[0].actions.state_delta == {"test_state": "must_change"}


# contract: RUN-10
# case: K-RUN-13
# case: K-RUN-14
async def test_without_a_message_a_delta_is_an_event_of_its_own_and_without_both_there_is_none() -> None:
    runner = Runner.in_memory("app", saying("a"))
    await run(runner, None, state_delta={"k": 1})
    await run(runner, None)
    events = await stored(runner)
    assert short(events) == ["user: -", "custom: a", "custom: a"]
    assert events[0].content is None
    assert dict((await session(runner)).state) == {"k": 1}


BYTES = Part(inline_data=Blob(data=b"x" * 37, mime_type="application/octet-stream"))


FILE = Content(role="user", parts=[Part(text="here is a file"), BYTES])


SAVING = RunConfig(save_input_blobs_as_artifacts=True)


# contract: RUN-09
# case: K-RUN-07
# case: K-RUN-09
async def test_files_in_the_message_are_saved_as_artifacts_and_named_in_their_place() -> None:
    message = copy.deepcopy(FILE)
    artifacts = InMemoryArtifactService()
    runner = runner_on(bot("thanks"), artifact_service=artifacts, auto_create_session=True)
    await run(runner, message, config=SAVING)
    said = (await stored(runner))[0]
    (name,) = await artifacts.list(app_name="app", **WHO)
    assert name == f"artifact_{said.invocation_id}_1"
    kept = await artifacts.load(app_name="app", **WHO, name=name)
    assert kept is not None
    assert kept == BYTES
    assert said.content is not None
    first, second = said.content.parts or []
    assert first.text == "here is a file"
    assert second.inline_data is None
    assert name in (second.text or "")
    assert message == FILE
    shown = model_of(runner.agent).requests[0].contents[0]
    assert shown == said.content


# contract: RUN-09
# case: K-RUN-08
async def test_without_an_artifact_service_or_the_option_the_message_is_stored_as_it_is() -> None:
    for options, config in (({}, SAVING), ({"artifact_service": InMemoryArtifactService()}, RunConfig())):
        runner = runner_on(bot("a"), auto_create_session=True, **options)
        await run(runner, FILE, config=config)
        assert (await stored(runner))[0].content == FILE


# contract: RUN-09
async def test_a_file_that_cannot_be_saved_is_an_error_and_nothing_is_stored() -> None:
    runner = runner_on(bot(), artifact_service=InMemoryArtifactService(max_bytes=1), auto_create_session=True)
    (error,) = await outcomes(runner, FILE, config=SAVING)
    assert isinstance(error, InvalidInput)
    assert await stored(runner) == []


# contract: RUN-08, PLUG-01
# case: K-RUN-10
async def test_a_replaced_message_is_what_context_store_and_model_see() -> None:
    seen: list[Any] = []

    class Replacing(Plugin):
        async def on_user_message(self, invocation: InvocationContext, content: Content) -> Content | None:
            seen.append((invocation.agent.name, invocation.session.id, content))
            return user_content("modified")

        async def before_run(self, invocation: InvocationContext) -> Content | None:
            seen.append(invocation.user_content)
            return None

    runner = Runner.in_memory("app", bot("a"), plugins=[Replacing("replacing")])
    await run(runner, "original")
    assert seen == [("bot", "s", user_content("original")), user_content("modified")]
    assert short(await stored(runner))[0] == "user: modified"
    assert model_of(runner.agent).requests[0].contents == (user_content("modified"),)


# contract: PLUG-06
# case: K-RUN-11
async def test_a_refused_message_is_one_error_and_nothing_is_stored() -> None:
    seen: list[str] = []
    runner = Runner.in_memory("app", bot(), plugins=[Recorder(seen, on_user_message=ValueError("no"))])
    (error,) = await outcomes(runner)
    assert isinstance(error, PluginError)
    assert "no" in str(error)
    assert await stored(runner) == []
    assert seen == ["on_user_message"]


# contract: PLUG-03
# case: K-RUN-15
@pytest.mark.parametrize("agent", [lambda: bot(), lambda: saying("never")])
async def test_content_of_before_run_is_the_agents_one_event(agent: Any) -> None:
    seen: list[str] = []
    blocked = model_content([Part(text="blocked")])
    runner = Runner.in_memory("app", agent(), plugins=[Recorder(seen, before_run=blocked)])
    name = runner.agent.name
    assert short(await run(runner)) == [f"{name}: blocked"]
    assert short(await stored(runner)) == ["user: hello", f"{name}: blocked"]
    assert seen == ["on_user_message", "before_run", "after_run"]


# contract: PLUG-06
# case: K-RUN-16
async def test_a_raising_before_run_skips_the_agent_and_after_run_runs() -> None:
    seen: list[str] = []
    runner = Runner.in_memory("app", bot(), plugins=[Recorder(seen, before_run=ValueError("no"))])
    assert short(await outcomes(runner)) == ["PluginError"]
    assert short(await stored(runner)) == ["user: hello"]
    assert seen[-1] == "after_run"
    assert seen.count("after_run") == 1


class Stuttering:
    """An agent's events where some are errors and the next comes all the same."""

    def __init__(self, *items: object) -> None:
        self.items = list(items)

    def __aiter__(self) -> Stuttering:
        return self

    async def __anext__(self) -> Any:
        if not self.items:
            raise StopAsyncIteration
        item = self.items.pop(0)
        if isinstance(item, Exception):
            raise item
        return item


# contract: RUN-04, RUN-16
# case: K-RUN-17
async def test_an_error_does_not_end_the_stream_where_the_source_goes_on() -> None:
    seen: list[str] = []
    agent = CustomAgent(name="custom", run=lambda _context: Stuttering(ValueError("first"), told("custom", "a"), told("custom", "b")))
    runner = Runner.in_memory("app", agent, plugins=[Recorder(seen)])
    async with start(runner) as stream:
        with pytest.raises(ValueError, match="first"):
            await anext(stream)
        assert short([event async for event in stream]) == ["custom: a", "custom: b"]
    assert short(await stored(runner)) == ["user: hello", "custom: a", "custom: b"]
    assert seen.count("after_run") == 1
    assert "after_agent custom" in seen


# contract: RUN-13
# case: K-RUN-19
# report: A60
@pytest.mark.parametrize("item", [None, "text"])
async def test_something_that_is_no_event_is_an_error_naming_the_agent_and_the_run_ends(item: object) -> None:
    agent = CustomAgent(name="custom", run=lambda _context: Stuttering(item, told("custom", "never")))
    (error,) = await outcomes(Runner.in_memory("app", agent))
    assert isinstance(error, AgentError)
    assert "'custom'" in str(error)


# contract: RUN-13
# case: K-RUN-21
async def test_an_event_whose_message_is_its_output_is_yielded_without_the_output() -> None:
    def event(**fields: Any) -> Event:
        return told("custom", "t", output="t", node_info=NodeInfo(message_as_output=True), **fields)

    given = [event(), event(partial=True), replace(event(), content=None), told("custom", "t", output="t")]
    agent = CustomAgent(name="custom", run=lambda _context: Stuttering(*given))
    got = await run(Runner.in_memory("app", agent))
    assert [each.output for each in got] == [None, "t", "t", "t"]
    assert given[0].output == "t"


# contract: RUN-13, RUN-14, PLUG-04
# case: K-PLUG-05
@pytest.mark.parametrize("custom", [True, False])
async def test_on_event_comes_before_the_store_and_sees_pieces(custom: bool) -> None:
    class Marking(Plugin):
        async def on_event(self, invocation: InvocationContext, event: Event) -> Event | None:
            changed = Event(author=" ", content=model_content([Part(text=f"<{event.text}>")]), partial=not event.partial)
            return changed if event.text else None

    name = "custom" if custom else "bot"
    items = told(name, "p", partial=True), told(name, "a")
    agent = CustomAgent(name=name, run=lambda _context: Stuttering(*items)) if custom else bot("a")
    runner = Runner.in_memory("app", agent, plugins=[Marking("marking")])
    got = await run(runner)
    assert short(got) == ([f"{name}~: <p>"] if custom else []) + [f"{name}: <a>"]
    assert short(await stored(runner)) == ["user: hello", f"{name}: <a>"]
    assert got[-1].invocation_id == (await stored(runner))[0].invocation_id


# contract: PLUG-04, RUN-04
async def test_an_event_that_a_plugin_rejects_is_not_stored_and_the_agent_goes_on() -> None:
    class Picky(Plugin):
        async def on_event(self, invocation: InvocationContext, event: Event) -> Event | None:
            if event.text == "bad":
                raise ValueError("bad")
            return None

    runner = Runner.in_memory("app", saying("a", "bad", "b"), plugins=[Picky("picky")])
    assert short(await outcomes(runner)) == ["custom: a", "PluginError", "custom: b"]
    assert short(await stored(runner)) == ["user: hello", "custom: a", "custom: b"]


# contract: RUN-14
async def test_the_actions_of_a_piece_are_never_applied() -> None:
    piece = told("custom", "p", partial=True, actions=EventActions(state_delta={"k": "piece"}))
    agent = CustomAgent(name="custom", run=lambda _context: Stuttering(piece, told("custom", "a")))
    runner = Runner.in_memory("app", agent)
    assert short(await run(runner)) == ["custom~: p", "custom: a"]
    assert dict((await session(runner)).state) == {}


# contract: RUN-15, STATE-04
async def test_each_whole_event_is_in_the_store_and_its_delta_visible_before_the_agent_goes_on() -> None:
    seen: list[Any] = []

    async def agent(context: InvocationContext) -> AsyncIterator[Event]:
        yield told("custom", "a", actions=EventActions(state_delta={"k": 1, "temp:t": 2}))
        seen.append((context.state["k"], context.state["temp:t"], context.session.events[-1].text))

    runner = Runner.in_memory("app", CustomAgent(name="custom", run=agent))
    async for event in start(runner):
        assert (await stored(runner))[-1] == event
    assert seen == [(1, 2, "a")]


# contract: RUN-15, RUN-17
async def test_a_failed_append_reaches_the_caller_and_ends_the_run() -> None:
    seen: list[str] = []
    service = FaultySessionService(InMemorySessionService())
    service.fail_append(2)
    runner = runner_on(saying("a", "b"), service, auto_create_session=True, plugins=[Recorder(seen)])
    assert short(await outcomes(runner)) == ["StorageError"]
    assert short(await stored(runner)) == ["user: hello"]
    assert seen.count("after_run") == 1


# contract: RUN-11
async def test_a_message_that_cannot_be_stored_ends_the_run_before_any_hook() -> None:
    seen: list[str] = []
    service = FaultySessionService(InMemorySessionService())
    service.fail_append(1)
    runner = runner_on(bot(), service, auto_create_session=True, plugins=[Recorder(seen)])
    assert short(await outcomes(runner)) == ["StorageError"]
    assert seen == ["on_user_message"]


# contract: RUN-18
async def test_every_event_carries_the_invocations_id() -> None:
    runner = Runner.in_memory("app", saying("a", "b"))
    await run(runner)
    await run(runner)
    ids = [event.invocation_id for event in await stored(runner)]
    assert ids[0] == ids[1] == ids[2] != ids[3] == ids[4] == ids[5]


# contract: RUN-06, PICK-05
# case: K-RUN-23
# case: K-RUN-24
async def test_a_root_that_does_not_chat_is_refused_by_name_and_mode() -> None:
    modes: tuple[Literal["task", "single_turn"], ...] = ("task", "single_turn")
    for mode in modes:
        (error,) = await outcomes(Runner.in_memory("app", LlmAgent(name="boss", mode=mode)))
        assert isinstance(error, ConfigurationError)
        assert "'boss'" in str(error)
        assert mode in str(error)
    undeclared = bot("a", "b")
    await run(Runner.in_memory("app", undeclared))
    assert undeclared.mode is None
    assert short(await run(Runner.in_memory("app", bot("a", mode="chat")))) == ["bot: a"]


# contract: RUN-06
# case: K-RUN-22
async def test_a_root_that_is_no_llm_agent_always_runs_itself() -> None:
    async def agent(context: InvocationContext) -> AsyncIterator[Event]:
        yield told("root", f"root by {context.agent.name}")

    child = bot(name="child")
    runner = Runner.in_memory("app", CustomAgent(name="root", run=agent, sub_agents=[child]))
    opened = await runner.session_service.create(app_name="app", **WHO)
    await runner.session_service.append_event(opened, told("child", "mine"))
    assert short(await run(runner)) == ["root: root by root"]
