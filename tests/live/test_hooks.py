"""The hooks around agent and model in a live session: plugins first, then the agent's own, each at its place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from live_gateway.agents.context import InvocationContext
from live_gateway.content import Content, Part, model_content, text_of, user_content
from live_gateway.errors import LiveSessionClosed, ModelUnavailable, NotDelivered, UpstreamLost
from live_gateway.events import Event
from live_gateway.live.items import AudioChunk, LiveItem, Stored
from live_gateway.models.base import ModelRequest, ModelResponse
from live_gateway.models.live import TextOut, TurnComplete
from live_gateway.plugins.base import Plugin
from live_gateway.testing.scripted_live import ScriptedLiveModel
from live_gateway.testing.steps import Step, emit, end, expect_content, expect_interrupt, fail, on_connect, voice, wait
from tests.support.live import all_of, go_live, in_short, live_runner, spoke, stored, until

pytestmark = pytest.mark.virtual_time


def says(text: str) -> Content:
    return model_content([Part(text=text)])


def answer(text: str) -> ModelResponse:
    return ModelResponse(content=says(text))


class Hooks(Plugin):
    """Notes what it is asked, and answers what it was told to."""

    def __init__(self, **answers: Any) -> None:
        super().__init__("hooks")
        self.seen: list[str] = []
        self.answers = answers

    def note(self, hook: str, detail: str = "") -> Any:
        self.seen.append(f"{hook} {detail}".strip())
        found = self.answers.get(hook)
        if isinstance(found, Exception):
            raise found
        return found

    async def before_agent(self, invocation: Any, agent: Any) -> Any:
        return self.note("before_agent")

    async def after_agent(self, invocation: Any, agent: Any) -> Any:
        return self.note("after_agent")

    async def before_model(self, invocation: Any, request: ModelRequest) -> Any:
        return self.note("before_model", "|".join(text_of(content) for content in request.contents))

    async def on_model_error(self, invocation: Any, request: Any, error: Exception) -> Any:
        return self.note("on_model_error", type(error).__name__)

    async def before_run(self, invocation: Any) -> Any:
        return self.note("before_run")

    async def after_run(self, invocation: Any) -> None:
        self.note("after_run")


class Guard(Plugin):
    """Answers instead of the model where a message says `forbidden`."""

    async def before_model(self, invocation: InvocationContext, request: ModelRequest) -> ModelResponse | None:
        return answer("I may not talk about that.") if any("forbidden" in text_of(content) for content in request.contents) else None


# contract: PLUG-08, PLUG-01
# case: K-LTOOL-17
async def test_the_hooks_come_in_order_plugins_before_the_agents_own() -> None:
    plugin = Hooks()

    def own(hook: str) -> Callable[..., Any]:
        async def callback(*_: Any) -> None:
            plugin.seen.append(f"own {hook}")

        return callback

    callbacks: dict[str, Any] = {hook: own(hook) for hook in ("before_agent", "after_agent", "before_model", "after_model")}
    with ScriptedLiveModel([expect_content("hello"), emit(spoke("Hi", finished=True), TurnComplete()), end()]) as model:
        runner = live_runner(model, plugins=[plugin], **callbacks)
        async with go_live(runner) as live:
            await live.send(user_content("hello"))
            await all_of(live)
    assert plugin.seen == [
        *("before_run", "before_agent", "own before_agent", "before_model", "own before_model"),
        *("before_model hello", "own before_model", "own after_model"),
        *("after_agent", "own after_agent", "after_run"),
    ]


# contract: PLUG-08, PLUG-06
async def test_content_of_before_agent_is_the_one_event_and_nothing_is_connected() -> None:
    plugin = Hooks(before_agent=says("closed today"))
    model = ScriptedLiveModel()
    runner = live_runner(model, plugins=[plugin])
    async with go_live(runner, state_delta={"k": 1}) as live:
        assert in_short(await all_of(live)) == ['agent "closed today"']
        with pytest.raises(LiveSessionClosed):
            await live.send(user_content("hello"))
    assert model.connections == []
    assert in_short(list(await stored(runner))) == ["delta", 'agent "closed today"']
    assert plugin.seen == ["before_run", "before_agent", "after_run"]


# contract: PLUG-08, STATE-05
async def test_what_the_agents_callbacks_write_to_the_state_is_stored_with_events_of_the_agent() -> None:
    async def before_agent(invocation: InvocationContext) -> None:
        invocation.state["began"] = True

    async def before_model(invocation: InvocationContext, request: ModelRequest) -> None:
        invocation.state["asked"] = invocation.state.get("asked", 0) + 1

    async def after_agent(invocation: InvocationContext) -> Content:
        invocation.state["ended"] = True
        return says("goodbye")

    with ScriptedLiveModel([expect_content("hello"), end()]) as model:
        runner = live_runner(model, before_agent=before_agent, before_model=before_model, after_agent=after_agent)
        async with go_live(runner) as live:
            await live.send(user_content("hello"))
            events = [event for event in await all_of(live) if isinstance(event, Event)]
    assert in_short(list(await stored(runner))) == ["delta", "delta", "delta", 'user "hello"', 'agent "goodbye"']
    deltas = [event.actions.state_delta for event in await stored(runner) if event.actions.state_delta]
    assert deltas == [{"began": True}, {"asked": 1}, {"asked": 2}, {"ended": True}]
    assert {event.author for event in await stored(runner) if event.actions.state_delta} == {"agent"}
    assert in_short(list(events))[-1] == 'agent "goodbye"'


# contract: PLUG-08
async def test_after_agent_is_not_called_when_the_model_failed_and_its_failure_is_reported() -> None:
    plugin = Hooks()
    with ScriptedLiveModel([fail(UpstreamLost("gone"))]) as model:
        async with go_live(live_runner(model, plugins=[plugin])) as live:
            assert in_short(await all_of(live)) == ["error UpstreamLost"]
    assert plugin.seen[-2:] == ["on_model_error UpstreamLost", "after_run"]
    plugin = Hooks(after_agent=ValueError("broken"))
    with ScriptedLiveModel([end()]) as model:
        async with go_live(live_runner(model, plugins=[plugin])) as live:
            assert in_short(await all_of(live)) == ["error PluginError"]
    assert plugin.seen[-2:] == ["after_agent", "after_run"]


# contract: PLUG-08, LIVE-08
# report: A59
async def test_a_typed_message_that_is_answered_before_the_model_is_not_sent() -> None:
    with ScriptedLiveModel([expect_content("allowed"), emit(TextOut("Fine."), TurnComplete()), end()]) as model:
        runner = live_runner(model, plugins=[Guard("guard")])
        async with go_live(runner) as live:
            result = await live.send(user_content("forbidden"))
            assert (result.state, result.seq) == ("persisted", 1)
            blocked = await until(live, lambda event: event.turn_complete)
            assert [(event.author, event.text, event.turn_complete) for event in blocked] == [("agent", "I may not talk about that.", True)]
            assert (await live.send(user_content("allowed"))).seq == 3
            await all_of(live)
    kept = await stored(runner)
    assert in_short(list(kept))[:3] == ['user "forbidden"', 'agent "I may not talk about that."', 'user "allowed"']
    assert [event.custom_metadata["live"] for event in kept[:2]] == [{"turn": 1, "source": "typed"}, {"turn": 1, "source": "text"}]


# contract: PLUG-08
async def test_the_answer_that_a_blocked_message_interrupted_stays_interrupted() -> None:
    gate = asyncio.Event()
    script: list[Step] = [emit(voice(5000)), expect_interrupt(), wait(gate), emit(voice(1000)), end()]
    with ScriptedLiveModel(script) as model:
        runner = live_runner(model, plugins=[Guard("guard")])
        async with go_live(runner) as live:
            items: list[LiveItem] = []
            async for item in live.items():
                items.append(item)
                if isinstance(item, AudioChunk):
                    await live.send(user_content("forbidden"))
                    gate.set()
    assert sum(isinstance(item, AudioChunk) for item in items) == 1
    assert 'agent "I may not talk about that."' in in_short([item.event for item in items if isinstance(item, Stored)])


# contract: PLUG-08, LIVE-07
@pytest.mark.parametrize("by", ["plugin", "agent"])
async def test_a_hook_that_fails_before_the_model_means_not_delivered(by: str) -> None:
    asked: list[ModelRequest] = []

    async def before_model(invocation: InvocationContext, request: ModelRequest) -> None:
        asked.append(request)
        if len(asked) > 1:
            raise ValueError("secret words")

    class Broken(Plugin):
        async def before_model(self, invocation: InvocationContext, request: ModelRequest) -> None:
            await before_model(invocation, request)

    with ScriptedLiveModel([end()]) as model:
        options: dict[str, Any] = {"plugins": [Broken("broken")]} if by == "plugin" else {"before_model": before_model}
        runner = live_runner(model, **options)
        async with go_live(runner) as live:
            with pytest.raises(NotDelivered) as caught:
                await live.send(user_content("hello"))
    assert ("secret words" in str(caught.value)) == (by == "plugin")
    assert await stored(runner) == []


# contract: PLUG-08
# case: K-LTOOL-17
async def test_the_connection_is_a_question_with_instruction_tools_and_history() -> None:
    def look() -> str:
        """Look."""
        return "seen"

    asked: list[ModelRequest] = []

    async def before_model(invocation: InvocationContext, request: ModelRequest) -> None:
        asked.append(request)

    with ScriptedLiveModel([expect_content("one"), end()], [end()]) as model:
        runner = live_runner(model, tools=[look], instruction="Be brief.", before_model=before_model)
        async with go_live(runner) as live:
            await live.send(user_content("one"))
            await all_of(live)
        async with go_live(runner) as live:
            await all_of(live)
    assert [[text_of(content) for content in request.contents] for request in asked] == [[], ["one"], ["one"]]
    assert {request.instruction for request in asked} == {"Be brief."}
    assert all([tool.name for tool in request.tools] == ["look"] for request in asked)


# contract: PLUG-08
async def test_an_answer_instead_of_the_connection_is_the_one_event() -> None:
    model = ScriptedLiveModel()
    plugin = Hooks(before_model=answer("not now"))
    runner = live_runner(model, plugins=[plugin])
    async with go_live(runner) as live:
        assert in_short(await all_of(live)) == ['agent "not now"']
    assert model.connections == []
    assert in_short(list(await stored(runner))) == ['agent "not now"']
    assert plugin.seen == ["before_run", "before_agent", "before_model", "after_run"]


# contract: PLUG-08
async def test_an_answer_may_stand_for_a_model_that_cannot_be_reached() -> None:
    async def on_model_error(invocation: InvocationContext, request: ModelRequest, error: Exception) -> ModelResponse:
        return answer(f"unreachable: {type(error).__name__}")

    runner = live_runner(ScriptedLiveModel([on_connect(fail(ModelUnavailable("no key")))]), on_model_error=on_model_error)
    async with go_live(runner) as live:
        assert in_short(await all_of(live)) == ['agent "unreachable: ModelUnavailable"']
    assert in_short(list(await stored(runner))) == ['agent "unreachable: ModelUnavailable"']


# contract: PLUG-08
async def test_an_answer_may_stand_for_a_connection_that_broke() -> None:
    plugin = Hooks(on_model_error=answer("I have to go."))
    with ScriptedLiveModel([emit(spoke("Well, ")), fail(UpstreamLost("gone"))]) as model:
        runner = live_runner(model, plugins=[plugin])
        async with go_live(runner) as live:
            got = in_short(await all_of(live))
    assert got[-1] == 'agent "I have to go."'
    assert not [each for each in got if each.startswith("error")]
    assert in_short(list(await stored(runner))) == ['OUT "Well, "', 'agent "I have to go."']


# contract: PLUG-08, PLUG-04
async def test_answers_and_their_pieces_pass_after_model_before_on_event() -> None:
    class Louder(Plugin):
        async def after_model(self, invocation: Any, response: ModelResponse) -> ModelResponse:
            return answer(text_of(response.content).upper())

        async def on_event(self, invocation: Any, event: Event) -> None:
            texts.append(event.text or (event.transcription.text or "" if event.transcription else ""))

    texts: list[str] = []
    with ScriptedLiveModel([emit(spoke("well "), spoke("done")), emit(TextOut("so"), TurnComplete()), end()]) as model:
        runner = live_runner(model, plugins=[Louder("louder")])
        async with go_live(runner) as live:
            got = in_short(await all_of(live))
    assert [each for each in got if each != "done"] == ['out~"WELL "', 'out~"DONE"', 'agent~ "SO"', 'OUT "WELL DONE"', 'agent "SO"']
    assert [text for text in texts if text] == ["WELL ", "DONE", "SO", "WELL DONE", "SO"]
