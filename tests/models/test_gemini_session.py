"""Live sessions on Gemini Live, over real sockets: what is said, stored and answered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from live_gateway.agents.config import LiveRunConfig
from live_gateway.content import text_of, user_content
from live_gateway.errors import UpstreamLost
from live_gateway.events import Event
from live_gateway.live.items import Failure, Notice, ResponseInterrupted, ToolFinished
from live_gateway.live.session import LiveSession
from live_gateway.models.live import Generation, Thinking
from live_gateway.runner import Runner
from live_gateway.testing import gemini_steps as steps
from live_gateway.testing.fake_gemini import FakeGemini
from live_gateway.testing.gemini_steps import (
    audio,
    call,
    cancel,
    close,
    content,
    drop,
    expect_content,
    expect_setup,
    expect_text,
    expect_tool_response,
    handle,
    hear,
    ready,
    say,
    send,
    turn_complete,
    write,
)
from tests.support.gemini import gemini_model
from tests.support.live import all_of, go_live, in_short, live_runner, stored, until


def runner_on(gemini: FakeGemini, **options: Any) -> Runner:
    name = options.pop("model_name", "gemini-live")
    return live_runner(gemini_model(gemini, name=name), **options)


def done(event: Event) -> bool:
    return bool(event.turn_complete)


async def played(gemini: FakeGemini, live: LiveSession) -> list[Event]:
    """Wait until the script was played, then close: everything that was yielded. A failure fails the test."""
    async with asyncio.TaskGroup() as group:
        listener = group.create_task(all_of(live))
        await gemini.played()
        await live.close()
    got = listener.result()
    assert not [one for one in got if isinstance(one, Exception)]
    return [one for one in got if isinstance(one, Event)]


def words_of(events: list[Event]) -> list[str]:
    """The events in short without audio, which overtakes what has to be stored first."""
    return [word for word in in_short(events) if word != "audio"]


# contract: LIVE-14, LIVE-16
# report: A20
# report: A26
async def test_pieces_that_nobody_finishes_become_one_whole_transcription_each() -> None:
    async with FakeGemini([hear("a"), hear("b"), say("c d", ms=80, complete=False), turn_complete()]) as gemini:
        runner = runner_on(gemini)
        async with go_live(runner) as live:
            events = await until(live, done)
        kept = await stored(runner)
    assert in_short(events)[-3:] == ['IN "ab"', 'OUT "c d"', "done"]
    assert in_short(kept)[:3] == ['IN "ab"', 'OUT "c d"', "done"]
    assert [event.author for event in kept[:3]] == ["user", "agent", "agent"]
    assert all(event.content is None for event in kept[:2])


# report: A22
# contract: LIVE-16
async def test_a_transcription_that_comes_once_makes_no_partial_one() -> None:
    async with FakeGemini([hear("hi"), audio(40), turn_complete()]) as gemini:
        runner = runner_on(gemini, model_name="gemini-3.1-flash-live")
        async with go_live(runner) as live:
            assert words_of(await until(live, done)) == ['IN "hi"', "done"]


# case: K-LIVE-13
# contract: LIVE-11, LIVE-16
async def test_a_turns_end_that_carries_the_last_words() -> None:
    last = content(outputTranscription={"text": "done."}, turnComplete=True)
    async with FakeGemini([content(outputTranscription={"text": "All "}), last, call("f", id="c9"), expect_tool_response("c9")]) as gemini:
        runner = runner_on(gemini, tools=[f])
        async with go_live(runner) as live:
            events = await played(gemini, live)
    assert in_short(events) == ['out~"All "', 'out~"done."', 'OUT "All done."', "done", "call f", "resp f"]


# case: K-LIVE-17
# contract: LIVE-14
async def test_protocol_messages_are_no_history() -> None:
    async with FakeGemini(
        [
            send({"usageMetadata": {"totalTokenCount": 5}}),
            handle("h1"),
            handle(None),
            content(waitingForInput=True),
            hear("x"),
            turn_complete(),
        ]
    ) as gemini:
        runner = runner_on(gemini)
        async with go_live(runner) as live:
            assert in_short(await until(live, done)) == ['in~"x"', 'IN "x"', "done"]
        assert in_short(await stored(runner)) == ['IN "x"', "done"]


# contract: LIVE-14
async def test_usage_and_grounding_belong_to_the_turn() -> None:
    async with FakeGemini(
        [
            content(groundingMetadata={"webSearchQueries": ["q"]}),
            send({"usageMetadata": {"responseTokenCount": 2, "totalTokenCount": 5}, "serverContent": {"turnComplete": True}}),
        ]
    ) as gemini:
        runner = runner_on(gemini)
        async with go_live(runner) as live:
            (event,) = await until(live, done)
    assert event.usage_metadata
    assert event.usage_metadata.candidates_token_count == 2
    assert event.grounding_metadata
    assert event.grounding_metadata.web_search_queries == ["q"]


# report: A49
# case: K-LIVE-19
async def test_an_interruption_drops_its_own_audio() -> None:
    stale = content(interrupted=True, modelTurn={"parts": [steps.audio_frame(steps.voice(40))["serverContent"]["modelTurn"]["parts"][0]]})
    async with FakeGemini([say("one two", ms=40, complete=False), stale, turn_complete()]) as gemini:
        runner = runner_on(gemini)
        async with go_live(runner) as live:
            events = await until(live, done)
    assert words_of(events)[:4] == ['out~"one "', 'out~"two"', 'OUT "one two"', "interrupted"]
    assert in_short(events).count("audio") <= 2, "never the stale one"


# report: A51
async def test_typed_text_interrupts_what_is_spoken() -> None:
    async with FakeGemini(
        [say("a long answer", ms=400, complete=False), expect_text("stop"), content(interrupted=True), turn_complete(), write("ok")]
    ) as gemini:
        runner = runner_on(gemini)
        async with go_live(runner, config=LiveRunConfig()) as live:
            items = live.items()
            while type(await anext(items)).__name__ != "AudioChunk":
                pass
            await live.send(user_content("stop"))
            kinds = []
            while "ok" not in kinds:
                item = await anext(items)
                kinds.append("interrupted" if isinstance(item, ResponseInterrupted) else _text(item))
    assert kinds.count("interrupted") == 1


def _text(item: Any) -> str:
    event = getattr(item, "event", None)
    return text_of(event.content) if event is not None else type(item).__name__


# Tools.


def f() -> int:
    """Seven."""
    return 7


# contract: LIVE-17
# report: A30
# case: K-LCON-23
async def test_a_call_beside_a_turns_end_is_run() -> None:
    both = {"toolCall": {"functionCalls": [{"id": "fc-1", "name": "f"}]}, "serverContent": {"turnComplete": True}}
    async with FakeGemini([hear("do it"), send(both), expect_tool_response("fc-1"), write("done")]) as gemini:
        runner = runner_on(gemini, tools=[f])
        async with go_live(runner) as live:
            events = await played(gemini, live)
    assert in_short(events)[:5] == ['in~"do it"', 'IN "do it"', "call f", "done", "resp f"]


# contract: LIVE-17
# report: A42
# report: A38
async def test_calls_of_two_messages_run_side_by_side() -> None:
    gate = asyncio.Event()

    async def slow() -> str:
        """Slow."""
        await gate.wait()
        return "late"

    async def fast() -> str:
        """Fast."""
        return "early"

    async with FakeGemini(
        [call("slow", id="a"), call("fast", id="b"), expect_tool_response("b"), expect_tool_response("a"), write("ok")]
    ) as gemini:
        runner = runner_on(gemini, tools=[slow, fast])
        async with go_live(runner) as live:
            await gemini.until(lambda: bool(gemini.connections[0].of_kind("tool_response")))
            gate.set()
            await played(gemini, live)


# contract: LIVE-17
# report: A33
# case: K-LCON-24
async def test_a_cancelled_call_is_not_answered() -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        """Slow."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with FakeGemini([call("slow"), steps.wait(started), cancel("fc-1"), expect_text("go on"), write("ok")]) as gemini:
        runner = runner_on(gemini, tools=[slow])
        async with go_live(runner) as live:
            items = live.items()
            while not isinstance(item := await anext(items), ToolFinished):
                pass
            assert item.status == "cancelled"
            await live.send(user_content("go on"))
            await gemini.played()
        assert cancelled.is_set()
        (response,) = [one for event in await stored(runner) for one in event.function_responses]
        assert "cancel" in str(response.response)


# contract: LIVE-17
# report: A34
async def test_the_same_call_again_runs_once() -> None:
    runs: list[int] = []

    def count() -> int:
        """Count."""
        runs.append(1)
        return len(runs)

    async with FakeGemini(
        [call("count"), expect_tool_response("fc-1"), handle("h1"), drop("rst")],
        [expect_setup(sessionResumption__handle="h1"), ready(), expect_tool_response("fc-1"), call("count"), write("ok")],
    ) as gemini:
        runner = runner_on(gemini, tools=[count])
        async with go_live(runner) as live:
            await played(gemini, live)
    assert runs == [1]


# contract: LIVE-17
# report: A35
# report: A36
# report: A37
async def test_every_call_is_answered_whatever_comes_between() -> None:
    gate = asyncio.Event()

    async def slow() -> str:
        """Slow."""
        await gate.wait()
        return "result"

    def failed(responses: Any) -> bool:
        return "nope" in responses[0]["response"]["error"]

    async with FakeGemini(
        [
            call("slow"),
            content(generationComplete=True),
            content(outputTranscription={"text": ""}),
            content(interrupted=True),
            turn_complete(),
            call("nope", id="fc-2"),
            expect_tool_response("fc-2", check=failed),
            expect_tool_response("fc-1", check=lambda responses: responses[0]["response"] == {"result": "result"}),
            write("ok"),
        ]
    ) as gemini:
        runner = runner_on(gemini, tools=[slow])
        async with go_live(runner) as live:
            await gemini.until(lambda: bool(gemini.connections[0].of_kind("tool_response")))
            gate.set()
            await played(gemini, live)
        answers = [one.id for event in await stored(runner) for one in event.function_responses]
        assert sorted(one or "" for one in answers) == ["fc-1", "fc-2"]


# contract: LIVE-13
# report: A28
async def test_a_call_that_waits_for_words_is_kept_when_the_stream_ends() -> None:
    async with FakeGemini(
        [content(outputTranscription={"text": "Let me"}), call("f"), expect_tool_response("fc-1"), close(1000)]
    ) as gemini:
        runner = runner_on(gemini, tools=[f])
        async with go_live(runner) as live:
            events = await all_of(live)
        assert in_short(await stored(runner)) == ['OUT "Let me"', "call f", "resp f"]
    assert in_short(events)[-3:] == ['OUT "Let me"', "call f", "resp f"]


# Reconnecting, seen from above.


# contract: LIVE-18, LIVE-19
# case: K-LCON-12, K-LHIST-02
# report: A18
# report: A54
# report: A56
async def test_a_drop_without_a_handle_goes_on_from_what_is_stored() -> None:
    def told(value: Any) -> bool:
        words = [(turn["role"], steps.text_of({"turns": [turn]})) for turn in value["turns"]]
        assert words == [
            ("user", "typed"),
            ("model", "answered"),
            ("user", "what is it?"),
            ("user", "[agent] called `f` with {}"),
            ("user", '[agent] got from `f`: {"result": 7}'),
            ("model", "It is seven."),
        ]
        return True

    async with FakeGemini(
        [
            expect_text("typed"),
            write("answered"),
            hear("what is it?"),
            call("f"),
            expect_tool_response("fc-1"),
            say("It is seven.", ms=80),
            drop("rst"),
        ],
        [expect_content(told, turn_complete=False), write("back")],
    ) as gemini:
        runner = runner_on(gemini, tools=[f])
        async with go_live(runner) as live:
            await live.send(user_content("typed"))
            events = await until(live, lambda event: event.text == "back" and not event.partial)
    assert not [one for one in events if one.interrupted]


# contract: LIVE-19
async def test_what_was_said_of_an_answer_that_a_drop_cut_is_stored_and_told() -> None:
    def told(value: Any) -> bool:
        return [steps.text_of({"turns": [turn]}) for turn in value["turns"]] == ["question?", "half an"]

    async with FakeGemini(
        [hear("question?"), say("half an", ms=80, complete=False), drop("rst")], [expect_content(told, turn_complete=False), write("back")]
    ) as gemini:
        runner = runner_on(gemini)
        async with go_live(runner) as live:
            await until(live, lambda event: event.text == "back" and not event.partial)
        kept = await stored(runner)
    assert in_short(kept)[:3] == ['IN "question?"', 'OUT "half an"', "done"]
    assert kept[2].custom_metadata["live"]["reason"] == "UPSTREAM_LOST"


# contract: LIVE-18
async def test_a_question_that_a_drop_left_unanswered_is_answered_after_it() -> None:
    async with FakeGemini([hear("are you there?"), drop("rst")], [expect_content(turn_complete=True), write("yes")]) as gemini:
        runner = runner_on(gemini)
        async with go_live(runner) as live:
            await until(live, lambda event: event.text == "yes" and not event.partial)


# contract: LIVE-18
# report: A57
async def test_a_later_session_is_told_what_was_said() -> None:
    async with FakeGemini(
        [hear("hi"), say("hello", ms=40)],
        [expect_content(lambda value: len(value["turns"]) == 2, turn_complete=False), write("x")],
        [expect_content(turn_complete=False), write("y")],
    ) as gemini:
        runner = runner_on(gemini)
        for words in ("hello", "x", "y"):
            async with go_live(runner) as live:
                await until(live, done)
            assert any(words in word for word in in_short(await stored(runner))[-3:])


# contract: LIVE-18
# report: A14
async def test_a_later_session_of_this_process_resumes_the_one_before() -> None:
    async with FakeGemini(
        [hear("hi"), handle("h1"), say("hello", ms=40)], [expect_setup(sessionResumption__handle="h1"), ready(), write("x")]
    ) as gemini:
        runner = runner_on(gemini)
        for _ in range(2):
            async with go_live(runner) as live:
                await until(live, done)


# contract: LIVE-19
# case: K-LCON-10
async def test_a_model_that_is_gone_for_good_ends_the_session_with_its_words_stored() -> None:
    async with FakeGemini([handle("h1"), say("half", ms=40, complete=False), close(1002)]) as gemini:
        runner = runner_on(gemini)
        async with go_live(runner) as live:
            items = [item async for item in live.items()]
        (failure,) = [item for item in items if isinstance(item, Failure)]
        assert failure.fatal
        assert isinstance(failure.exception, UpstreamLost)
        assert in_short(await stored(runner))[0] == 'OUT "half"'


# contract: LIVE-19
async def test_the_listener_sees_a_status_and_nothing_else_of_a_drop() -> None:
    async with FakeGemini([write("a"), handle("h1"), drop("rst")], [write("b")]) as gemini:
        runner = runner_on(gemini)
        async with go_live(runner) as live:
            notices: list[str] = []
            async for item in live.items():
                if isinstance(item, Notice):
                    notices.append(item.code)
                if _text(item) == "b":
                    break
    assert notices == ["upstream_reconnecting", "upstream_resumed"]


# contract: LIVE-23
# report: A01
async def test_closing_with_a_handle_in_hand_does_not_reconnect() -> None:
    async with FakeGemini([handle("h1"), write("x")]) as gemini:
        runner = runner_on(gemini)
        before = len(asyncio.all_tasks())
        async with go_live(runner) as live:
            await until(live, done)
            began = asyncio.get_running_loop().time()
            await live.close()
            await live.close()
            assert asyncio.get_running_loop().time() - began < 1
        await gemini.until(lambda: gemini.connections[0].closed)
        assert gemini.connections[0].closed_with == 1000
        assert len(asyncio.all_tasks()) == before


# The config.


async def test_the_sessions_config_reaches_the_wire() -> None:
    config = LiveRunConfig(
        voice="Kore",
        language="de-DE",
        generation=Generation(temperature=0.2),
        thinking=Thinking(budget=0),
        media_resolution="HIGH",
        proactivity=True,
        affective_dialog=True,
        context_window_compression=None,
    )
    async with FakeGemini([write("x")]) as gemini:
        runner = runner_on(gemini, tools=[f], instruction="Be kind.")
        async with go_live(runner, config=config) as live:
            await until(live, done)
    (setup,) = gemini.setups
    assert setup["generationConfig"] == {
        "responseModalities": ["AUDIO"],
        "temperature": 0.2,
        "mediaResolution": "MEDIA_RESOLUTION_HIGH",
        "speechConfig": {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}, "languageCode": "de-DE"},
        "thinkingConfig": {"thinkingBudget": 0},
        "enableAffectiveDialog": True,
    }
    assert setup["proactivity"] == {"proactiveAudio": True}
    assert setup["systemInstruction"]["parts"] == [{"text": "Be kind."}]
    assert [function["name"] for function in setup["tools"][0]["functionDeclarations"]] == ["f"]
    assert "contextWindowCompression" not in setup
    assert "v1alpha" in gemini.connections[0].path, "what only the newest version of the API knows"


@pytest.mark.parametrize("name", ["gemini-live", "gemini-3.1-flash-live"])
async def test_typed_text_is_stored_as_it_was_typed_whatever_the_wire_wants(name: str) -> None:
    async with FakeGemini([expect_text("hello"), write("hi")]) as gemini:
        runner = runner_on(gemini, model_name=name)
        async with go_live(runner) as live:
            result = await live.send(user_content("hello"))
            await until(live, done)
        assert result.state == "persisted"
        assert in_short(await stored(runner)) == ['user "hello"', 'agent "hi"', "done"]
        assert len(gemini.connections[0].of_kind("text")) == (name != "gemini-live")
