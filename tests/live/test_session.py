"""The live session end to end: scripted model, real store, real pipeline."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from live_gateway.content import Blob, Content, Part, user_content
from live_gateway.errors import LiveSessionClosed, ModelUnavailable, NotDelivered, SessionNotFound, UpstreamLost
from live_gateway.events import Event
from live_gateway.models.live import (
    Activity,
    ContentOut,
    GenerationComplete,
    Interrupted,
    TextOut,
    TurnComplete,
)
from live_gateway.plugins.base import Plugin
from live_gateway.runner import Runner
from live_gateway.sessions.memory import InMemorySessionService
from live_gateway.testing.scripted_live import ScriptedLiveModel
from live_gateway.testing.steps import (
    Step,
    call,
    emit,
    end,
    expect_activity,
    expect_content,
    expect_tool_responses,
    fail,
    hear,
    on_connect,
    refuse,
    say,
    voice,
    wait,
)
from tests.support.live import all_of, go_live, in_short, live_runner, spoke, stored, until
from tests.support.live_doubles import Recorder

pytestmark = pytest.mark.virtual_time


def lookup(city: str) -> dict[str, Any]:
    """Look a city up."""
    return {"city": city, "temp": 26}


# contract: LIVE-01, LIVE-26, GW-01
# case: K-LIVE-01, K-LIVE-35
async def test_entering_is_the_call_and_constructing_does_nothing() -> None:
    model = ScriptedLiveModel([])
    plugin = Recorder()
    runner = live_runner(model, plugins=[plugin])
    live = go_live(runner)
    assert plugin.calls == []
    assert model.connections == []
    async with live:
        assert plugin.calls == ["before_run"]
        assert len(model.connections) == 1
        assert await stored(runner) == []  # the session exists, though nobody has said anything
        assert live.invocation_id.startswith("e-")
    assert plugin.calls == ["before_run", "after_run"]


# contract: LIVE-01
# case: K-LIVE-35
async def test_a_missing_session_is_refused_on_entering_when_it_must_exist() -> None:
    model = ScriptedLiveModel()
    plugin = Recorder()
    strict = Runner(app_name="app", agent=live_runner(model).agent, session_service=InMemorySessionService(), plugins=[plugin])
    with pytest.raises(SessionNotFound):
        async with go_live(strict):
            pass
    assert plugin.calls == []


# contract: LIVE-01, PLUG-06
async def test_a_connection_that_cannot_open_fails_on_entering_and_after_run_has_run() -> None:
    plugin = Recorder()
    runner = live_runner(ScriptedLiveModel([on_connect(fail(ModelUnavailable("no key")))]), plugins=[plugin])
    with pytest.raises(ModelUnavailable, match="no key"):
        async with go_live(runner):
            pass
    assert plugin.calls == ["before_run", "after_run"]
    assert await stored(runner) == []


# contract: LIVE-01
# case: K-LIVE-34
# case: K-LCON-08
async def test_an_agent_without_a_live_model_is_refused_before_before_run() -> None:
    plugin = Recorder()
    runner = live_runner(None, plugins=[plugin])
    with pytest.raises(ModelUnavailable, match="agent 'agent' has no live_model"):
        async with go_live(runner):
            pass
    assert plugin.calls == []


# contract: LIVE-03, PLUG-03, PLUG-06
# case: K-LIVE-03
async def test_content_of_before_run_answers_instead_of_the_agent() -> None:
    model = ScriptedLiveModel()
    plugin = Recorder(answer=user_content("early exit content"))
    runner = live_runner(model, plugins=[plugin])
    async with go_live(runner) as live:
        assert in_short(await all_of(live)) == ['agent "early exit content"']
        with pytest.raises(LiveSessionClosed, match="session is closed"):
            await live.send(user_content("hello"))
        await live.close()
    assert model.connections == []
    assert in_short(list(await stored(runner))) == ['agent "early exit content"']
    assert plugin.calls == ["before_run", "after_run"]


# contract: PLUG-02, PLUG-06
# case: K-LIVE-04
async def test_an_error_of_before_run_reaches_the_caller_and_after_run_still_runs() -> None:
    model = ScriptedLiveModel()
    plugin = Recorder(error=ValueError("denied"))
    with pytest.raises(Exception, match=r"recorder.*before_run.*denied"):
        async with go_live(live_runner(model, plugins=[plugin])):
            pass
    assert plugin.calls == ["before_run", "after_run"]
    assert model.connections == []


# contract: LIVE-02, LIVE-05, LIVE-09
async def test_a_spoken_turn_is_yielded_piece_by_piece_and_stored_whole() -> None:
    with ScriptedLiveModel([hear("hello"), say("Hi there!")]) as model:
        runner = live_runner(model)
        async with go_live(runner) as live:
            events = await until(live, lambda event: event.turn_complete)
    shown = in_short(list(events))
    assert [short for short in shown if short.startswith(("out", "audio"))] == ['out~"Hi "', "audio", 'out~"there!"', "audio"]
    assert [short for short in shown if short[0].isupper() or short == "done"] == ['IN "hello"', 'OUT "Hi there!"', "done"]
    kept = await stored(runner)
    assert in_short(list(kept)) == ['IN "hello"', 'OUT "Hi there!"', "done", "heard"]
    assert [event.seq for event in kept] == list(range(1, len(kept) + 1))
    assert {event.invocation_id for event in kept} == {live.invocation_id}


# contract: LIVE-10, LIVE-11, LIVE-14, LIVE-17
# case: K-LIVE-05, K-LTOOL-01
async def test_a_call_is_held_until_the_words_around_it_are_complete_and_runs_at_once() -> None:
    script: list[Step] = [
        emit(spoke("Hello")),
        call("lookup", {"city": "Hangzhou"}),
        expect_tool_responses("fc-1"),
        emit(spoke(" there."), GenerationComplete(), TurnComplete()),
    ]
    with ScriptedLiveModel(script) as model:
        runner = live_runner(model, tools=[lookup])
        async with go_live(runner) as live:
            events = await until(live, lambda event: event.turn_complete)
    assert in_short(list(events)) == ['out~"Hello"', 'out~" there."', 'OUT "Hello there."', "call lookup", "resp lookup", "done"]
    kept = await stored(runner)
    assert in_short(list(kept)) == ['OUT "Hello there."', "call lookup", "resp lookup", "done"]
    assert kept[2].function_responses[0].response == {"city": "Hangzhou", "temp": 26}
    assert (kept[1].author, kept[2].author, kept[2].content.role if kept[2].content else "") == ("agent", "agent", "user")


# contract: LIVE-13, LIVE-16
# case: K-LIVE-10
async def test_held_events_come_out_when_the_stream_ends_after_the_words_so_far() -> None:
    script: list[Step] = [emit(spoke("Let me")), call("lookup", {"city": "Oslo"}), expect_tool_responses(), end()]
    with ScriptedLiveModel(script) as model:
        runner = live_runner(model, tools=[lookup])
        async with go_live(runner) as live:
            got = await all_of(live)
    assert in_short(got) == ['out~"Let me"', 'OUT "Let me"', "call lookup", "resp lookup"]
    kept = await stored(runner)
    assert in_short(list(kept)) == ['OUT "Let me"', "call lookup", "resp lookup"]
    assert kept[0].custom_metadata["live"]["incomplete"] is True


# contract: LIVE-13, LIVE-23, LIVE-25
# case: K-LIVE-12
async def test_held_events_are_stored_when_the_caller_leaves_and_nobody_iterated() -> None:
    gate = asyncio.Event()
    script: list[Step] = [emit(spoke("Let me")), call("lookup", {"city": "Oslo"}), expect_tool_responses(), wait(gate)]
    model = ScriptedLiveModel(script)
    runner = live_runner(model, tools=[lookup])
    async with go_live(runner):
        await asyncio.sleep(1)  # virtual: until nothing else happens
        gate.set()
    assert in_short(list(await stored(runner))) == ['OUT "Let me"', "call lookup", "resp lookup"]


# contract: LIVE-13
async def test_held_events_come_out_when_the_model_fails() -> None:
    script: list[Step] = [emit(spoke("Let me")), call("lookup", {"city": "Oslo"}), expect_tool_responses(), fail(UpstreamLost("gone"))]
    model = ScriptedLiveModel(script)
    plugin = Recorder()
    runner = live_runner(model, tools=[lookup], plugins=[plugin])
    async with go_live(runner) as live:
        got = await all_of(live)
    assert in_short(got) == ['out~"Let me"', 'OUT "Let me"', "call lookup", "resp lookup", "error UpstreamLost"]
    assert plugin.calls == ["before_run", "after_run"]


# contract: LIVE-13
# case: K-LIVE-13, K-LIVE-18
async def test_the_turns_end_leaves_nothing_open_for_the_next_turn() -> None:
    script: list[Step] = [
        emit(spoke("All "), spoke("done."), TurnComplete()),
        call("lookup", {"city": "Oslo"}),
        expect_tool_responses(),
        end(),
    ]
    with ScriptedLiveModel(script) as model:
        runner = live_runner(model, tools=[lookup])
        async with go_live(runner) as live:
            got = await all_of(live)
    assert in_short(got) == ['out~"All "', 'out~"done."', 'OUT "All done."', "done", "call lookup", "resp lookup"]


# contract: LIVE-16
# case: K-LIVE-19
async def test_an_interruption_closes_the_words_and_is_marked() -> None:
    with ScriptedLiveModel([emit(spoke("one "), spoke("two"), Interrupted()), end()]) as model:
        runner = live_runner(model)
        async with go_live(runner) as live:
            got = await all_of(live)
    assert in_short(got) == ['out~"one "', 'out~"two"', 'OUT "one two"', "interrupted"]
    assert in_short(list(await stored(runner))) == ['OUT "one two"', "interrupted"]


# contract: LIVE-14, RUN-14
# case: K-LIVE-14, K-LIVE-15
async def test_pieces_and_audio_are_yielded_and_never_stored() -> None:
    picture = Content(role="model", parts=[Part(inline_data=Blob(data=b"\xff", mime_type="image/png"))])
    mixed = Content(role="model", parts=[Part(text="a cat"), Part(inline_data=Blob(data=b"\xff", mime_type="image/png"))])
    with ScriptedLiveModel([emit(spoke("x"), voice(40), ContentOut(picture), ContentOut(mixed)), end()]) as model:
        runner = live_runner(model)
        async with go_live(runner) as live:
            got = [event for event in await all_of(live) if isinstance(event, Event)]
    assert in_short(list(got))[:3] == ['out~"x"', "audio", "audio"]
    whole = next(event for event in got if event.text == "a cat")
    assert whole.content is not None
    assert len(whole.content.parts or []) == 2  # the listener gets the picture
    kept = await stored(runner)
    assert all(not (part.inline_data) for event in kept if event.content for part in event.content.parts or [])
    assert "a cat" in [event.text for event in kept]


# contract: LIVE-28
async def test_a_text_answer_is_one_stored_event() -> None:
    with ScriptedLiveModel([emit(TextOut("Hel"), TextOut("lo"), TurnComplete()), end()]) as model:
        runner = live_runner(model)
        async with go_live(runner) as live:
            got = await all_of(live)
    assert in_short(got) == ['agent~ "Hel"', 'agent~ "lo"', 'agent "Hello"', "done"]
    assert in_short(list(await stored(runner))) == ['agent "Hello"', "done"]


class Masking(Plugin):
    """Replaces text, refuses some, takes transcriptions of pieces away."""

    def __init__(self, *, strip_partials: bool = False) -> None:
        super().__init__("masking")
        self.strip_partials = strip_partials

    async def on_event(self, invocation: Any, event: Event) -> Event | None:
        if "bad" in event.text:
            raise ValueError("not this one")
        if event.text == "secret":
            return Event(author="", content=user_content("***"))
        if self.strip_partials and event.partial and event.transcription is not None:
            return Event(author=event.author)
        return None


# contract: LIVE-09, PLUG-04, PLUG-07
# case: K-LIVE-20, K-LIVE-21, K-LIVE-23
async def test_plugins_replace_or_refuse_events_and_the_stream_goes_on() -> None:
    say_all = [emit(ContentOut(user_content(text))) for text in ("ok1", "bad", "secret", "ok2")]
    with ScriptedLiveModel([*say_all, end()]) as model:
        runner = live_runner(model, plugins=[Masking()])
        async with go_live(runner) as live:
            got = await all_of(live)
    assert sorted(in_short(got)) == sorted(['agent "ok1"', "error PluginError", 'agent "***"', 'agent "ok2"'])
    assert in_short(list(await stored(runner))) == ['agent "ok1"', 'agent "***"', 'agent "ok2"']


# contract: LIVE-09
# case: K-LIVE-22
async def test_the_order_follows_what_the_plugins_left() -> None:
    script: list[Step] = [
        emit(spoke("Hello")),
        call("lookup", {"city": "x"}),
        expect_tool_responses(),
        emit(spoke(" there."), TurnComplete()),
        end(),
    ]
    with ScriptedLiveModel(script) as model:
        runner = live_runner(model, tools=[lookup], plugins=[Masking(strip_partials=True)])
        async with go_live(runner) as live:
            await all_of(live)
    assert in_short(list(await stored(runner)))[0] == "call lookup"


# contract: LIVE-05, LIVE-27
async def test_send_forwards_first_stores_after_and_yields_only_when_asked() -> None:
    with ScriptedLiveModel([expect_content("hello"), emit(TextOut("Hi"), TurnComplete()), end()]) as model:
        runner = live_runner(model)
        async with go_live(runner, yield_user_message=True) as live:
            result = await live.send(user_content("hello"))
            got = await all_of(live)
    assert (result.state, result.seq) == ("persisted", 1)
    assert 'user "hello"' in in_short(got)
    kept = await stored(runner)
    assert in_short(list(kept)) == ['user "hello"', 'agent "Hi"', "done"]
    assert kept[0].invocation_id == live.invocation_id
    with ScriptedLiveModel([expect_content("hello"), end()]) as model:
        runner = live_runner(model)
        async with go_live(runner) as live:
            await live.send(user_content("hello"))
            assert in_short(await all_of(live)) == []
    assert in_short(list(await stored(runner))) == ['user "hello"']


# contract: LIVE-05, LIVE-07
async def test_a_failing_forward_leaves_the_store_empty() -> None:
    with ScriptedLiveModel([refuse(expect_content("hello"), UpstreamLost("gone")), end()]) as model:
        runner = live_runner(model)
        async with go_live(runner) as live:
            with pytest.raises(NotDelivered):
                await live.send(user_content("hello"))
            await all_of(live)
    assert await stored(runner) == []


# contract: LIVE-05
# case: K-LIVE-27
async def test_realtime_input_is_forwarded_and_not_stored() -> None:
    model = ScriptedLiveModel([expect_activity(Activity.START), expect_activity(Activity.END)], allow=["audio"])
    runner = live_runner(model)
    async with go_live(runner) as live:
        live.push_audio(bytes(320))
        await live.activity(Activity.START)
        live.push_audio(bytes(320))
        await live.activity(Activity.END)
    assert [sent.kind for sent in model.connection.sent] == ["audio", "activity", "audio", "activity"]
    assert await stored(runner) == []


# contract: LIVE-08
async def test_input_plugins_see_live_content_before_the_model_and_may_refuse_it() -> None:
    class Redact(Plugin):
        async def on_user_message(self, invocation: Any, content: Content) -> Content | None:
            if "forbidden" in str(content.parts):
                raise ValueError("not allowed")
            return user_content("[redacted]")

    with ScriptedLiveModel([expect_content("[redacted]"), end()]) as model:
        runner = live_runner(model, plugins=[Redact("redact")])
        async with go_live(runner) as live:
            with pytest.raises(NotDelivered, match="not allowed"):
                await live.send(user_content("forbidden"))
            await live.send(user_content("my number is 123"))
            await all_of(live)
    assert in_short(list(await stored(runner))) == ['user "[redacted]"']
