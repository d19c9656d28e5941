"""The live session and its store: the voice never waits for it, its failures are told as they are, the order holds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from live_gateway.content import user_content
from live_gateway.errors import DeliveredNotPersisted, DeliveryUnknown, NotDelivered
from live_gateway.events import Event
from live_gateway.live.items import AudioChunk, Failure, Stored
from live_gateway.models.live import ContentOut, LiveMessage, TextOut, TurnComplete
from live_gateway.sessions.memory import InMemorySessionService
from live_gateway.testing import FaultySessionService, ScriptedLiveModel, VirtualTimeLoop
from live_gateway.testing.steps import Step, call, delay, emit, end, expect_content, expect_tool_responses, pause, voice, wait
from tests.support.live import all_of, go_live, heard, in_short, live_runner, spoke, stored, until

pytestmark = pytest.mark.virtual_time


def lookup(city: str) -> str:
    """Look a city up."""
    return city


# contract: LIVE-12
async def test_audio_flows_while_an_append_is_blocked() -> None:
    gate = asyncio.Event()
    sessions = FaultySessionService(InMemorySessionService())
    frames = [step for _ in range(50) for step in (emit(voice(100)), pause(0.1))]
    script: list[Step] = [emit(heard("hello", finished=True)), *frames, wait(gate), end()]
    with ScriptedLiveModel(script) as model:
        runner = live_runner(model, sessions=sessions)
        async with go_live(runner) as live:
            sessions.block_appends(gate)
            loop = asyncio.get_running_loop()
            arrived = [loop.time() async for item in _first(live.items(), 50, AudioChunk)]
            assert await stored(runner) == []
            gate.set()
            rest = [item async for item in live.items()]
    began = arrived[0]
    assert all(abs(at - began - 0.1 * index) <= 0.02 for index, at in enumerate(arrived))
    assert any(isinstance(item, Stored) and item.event.input_transcription is not None for item in rest)


async def _first(items: Any, count: int, kind: type) -> Any:
    async for item in items:
        if isinstance(item, kind):
            yield item
            count -= 1
            if not count:
                return


# contract: LIVE-15
# case: K-LIVE-24
async def test_a_failed_append_is_reported_and_the_stream_goes_on() -> None:
    sessions = FaultySessionService(InMemorySessionService())
    script: list[Step] = [*(emit(ContentOut(user_content(text))) for text in ("one", "two", "three")), end()]
    with ScriptedLiveModel(script) as model:
        runner = live_runner(model, sessions=sessions)
        sessions.fail_append(2)
        async with go_live(runner) as live:
            got = await all_of(live)
    assert in_short(got) == ['agent "one"', "error StorageError", 'agent "three"']
    assert in_short(list(await stored(runner))) == ['agent "one"', 'agent "three"']


# contract: LIVE-15, LIVE-13
# case: K-LIVE-25
async def test_held_events_do_not_stick_when_the_words_before_them_cannot_be_stored() -> None:
    sessions = FaultySessionService(InMemorySessionService())
    script: list[Step] = [
        emit(spoke("Hello")),
        call("lookup", {"city": "x"}),
        expect_tool_responses(),
        emit(spoke(" there."), TurnComplete()),
        end(),
    ]
    with ScriptedLiveModel(script) as model:
        runner = live_runner(model, tools=[lookup], sessions=sessions)
        sessions.fail_append(1)
        async with go_live(runner) as live:
            await all_of(live)
    assert in_short(list(await stored(runner))) == ["call lookup", "resp lookup", "done"]


# contract: LIVE-05, LIVE-07
# case: K-LIVE-30
async def test_a_message_that_was_delivered_and_not_stored_says_so() -> None:
    sessions = FaultySessionService(InMemorySessionService())
    with ScriptedLiveModel([expect_content("pay 10"), end()]) as model:
        runner = live_runner(model, sessions=sessions)
        sessions.fail_append(1)
        async with go_live(runner) as live:
            with pytest.raises(DeliveredNotPersisted):
                await live.send(user_content("pay 10"))
            await all_of(live)
    assert await stored(runner) == []


# contract: LIVE-07
async def test_a_message_whose_sending_does_not_end_is_of_unknown_fate() -> None:
    never = asyncio.Event()
    model = ScriptedLiveModel([delay(expect_content("hello"), never)])
    runner = live_runner(model)
    async with go_live(runner) as live:
        with pytest.raises(DeliveryUnknown):
            await live.send(user_content("hello"))
    assert await stored(runner) == []


# contract: LIVE-07
def test_the_three_delivery_errors_have_no_parent_to_retry_by() -> None:
    kinds = (NotDelivered, DeliveredNotPersisted, DeliveryUnknown)
    assert all(kind.__mro__[1] is Exception for kind in kinds)


# contract: LIVE-05, LIVE-24
async def test_the_model_has_the_message_before_the_store_and_no_answer_stands_before_it() -> None:
    gate = asyncio.Event()
    sessions = FaultySessionService(InMemorySessionService())
    script: list[Step] = [expect_content("question"), emit(TextOut("answer"), TurnComplete()), wait(gate), end()]
    with ScriptedLiveModel(script) as model:
        runner = live_runner(model, sessions=sessions)
        sessions.block_appends(gate)
        async with go_live(runner) as live, asyncio.TaskGroup() as group:
            sending = group.create_task(live.send(user_content("question")))
            await until(live, lambda event: event.partial)
            assert [sent.kind for sent in model.connection.sent] == ["content"]
            assert sessions.stored == []
            gate.set()
            assert (await sending).seq == 1
            await all_of(live)
    assert in_short(list(await stored(runner))) == ['user "question"', 'agent "answer"', "done"]


# contract: LIVE-24
async def test_an_answer_that_comes_while_the_message_is_still_being_sent_stands_behind_it() -> None:
    gate = asyncio.Event()
    script: list[Step] = [delay(expect_content("question"), gate), end()]
    model = ScriptedLiveModel(script)
    runner = live_runner(model)
    async with go_live(runner) as live, asyncio.TaskGroup() as group:
        sending = group.create_task(live.send(user_content("question")))
        await asyncio.sleep(0.1)
        assert live._engine is not None
        live._engine.conversation.message(TextOut("answer"))
        live._engine.conversation.message(TurnComplete())
        await asyncio.sleep(0.1)
        assert await stored(runner) == []
        gate.set()
        await sending
        await all_of(live)
    assert in_short(list(await stored(runner))) == ['user "question"', 'agent "answer"', "done"]


# case: K-LIVE-39
# contract: LIVE-24
async def test_messages_and_answers_at_the_same_time_lose_and_double_nothing() -> None:
    count = 1000
    script: list[Step] = []
    for number in range(count):
        script += [expect_content(f"m{number}"), emit(ContentOut(user_content(f"a{number}")))]
    with ScriptedLiveModel([*script, end()]) as model:
        runner = live_runner(model)
        async with go_live(runner) as live, asyncio.TaskGroup() as group:
            reading = group.create_task(all_of(live))
            for number in range(count):
                await live.send(user_content(f"m{number}"))
            await reading
    texts = [event.text for event in await stored(runner)]
    assert sorted(texts) == sorted([f"m{n}" for n in range(count)] + [f"a{n}" for n in range(count)])
    assert all(texts.index(f"m{n}") < texts.index(f"a{n}") for n in range(count))


# contract: LIVE-25
async def test_whoever_iterates_late_gets_every_stored_event_and_bounded_audio() -> None:
    messages: list[LiveMessage] = []
    for number in range(1500):
        messages += [ContentOut(user_content(f"n{number}")), voice(100)]
    with ScriptedLiveModel([emit(*messages), end()]) as model:
        runner = live_runner(model)
        async with go_live(runner) as live:
            await asyncio.sleep(60)
            items = [item async for item in live.items()]
    texts = [item.event.text for item in items if isinstance(item, Stored) and item.event.text]
    assert texts == [f"n{number}" for number in range(1500)]
    samples = sum(len(item.pcm) // 2 for item in items if isinstance(item, AudioChunk))
    assert samples <= 120 * 24_000


# contract: LIVE-15
async def test_a_store_that_is_down_for_the_whole_call_does_not_end_the_call() -> None:
    sessions = FaultySessionService(InMemorySessionService())
    script: list[Step] = [*(emit(spoke(f"turn {n}"), TurnComplete()) for n in range(5)), end()]
    with ScriptedLiveModel(script) as model:
        runner = live_runner(model, sessions=sessions)
        async with go_live(runner) as live:
            sessions.break_down()
            items = [item async for item in live.items()]
            sessions.repair()
    assert sum(isinstance(item, Failure) for item in items) == 10
    assert not any(isinstance(item, Failure) and item.fatal for item in items)
    assert await stored(runner) == []


_PIECES = st.sampled_from(["in", "IN", "out", "OUT", "call", "done", "interrupted", "audio"])


# contract: LIVE-11, LIVE-13, LIVE-25
@settings(max_examples=60, deadline=None)
@given(st.lists(_PIECES, max_size=30), st.sets(st.integers(1, 20), max_size=3))
def test_whatever_comes_every_call_and_response_is_stored_once_unless_its_own_append_failed(pieces: list[str], failing: set[int]) -> None:
    def loop_main() -> Any:
        return _play(pieces, failing)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as loop:
        kept, failed, calls = loop.run(loop_main())
    seen = [call.id for event in kept for call in event.function_calls]
    answered = [response.id for event in kept for response in event.function_responses]
    lost = {part for event in failed for part in [call.id for call in event.function_calls]}
    unanswered = {part for event in failed for part in [response.id for response in event.function_responses]}
    assert seen == [call_id for call_id in calls if call_id not in lost]
    assert sorted(answered) == sorted(call_id for call_id in calls if call_id not in unanswered)
    assert [event.seq for event in kept] == list(range(1, len(kept) + 1))
    for call_id in set(seen) & set(answered):
        assert _position(kept, call_id, "function_calls") < _position(kept, call_id, "function_responses")


def _position(events: list[Event], call_id: str | None, kind: str) -> int:
    return next(index for index, event in enumerate(events) if any(part.id == call_id for part in getattr(event, kind)))


async def _play(pieces: list[str], failing: set[int]) -> tuple[list[Event], list[Event], list[str]]:
    from live_gateway.models.live import Interrupted

    messages: dict[str, Any] = {
        "in": heard("a "),
        "IN": heard("b", finished=True),
        "out": spoke("c "),
        "OUT": spoke("d", finished=True),
        "done": TurnComplete(),
        "interrupted": Interrupted(),
        "audio": voice(20),
    }
    calls: list[str] = []
    script: list[Step] = []
    for number, piece in enumerate(pieces):
        if piece == "call":
            calls.append(f"c{number}")
            script.append(call("lookup", {"city": "x"}, id=f"c{number}"))
        else:
            script.append(emit(messages[piece]))
    sessions = FaultySessionService(InMemorySessionService())
    model = ScriptedLiveModel([*script, pause(1), end()], allow=["tool_responses", "interrupt"])
    runner = live_runner(model, tools=[lookup], sessions=sessions)
    async with go_live(runner) as live:
        for nth in failing:
            sessions.fail_append(nth)
        await all_of(live)
    ids = {event.id for event in sessions.stored}
    return await stored(runner), [event for event in sessions.appends if event.id not in ids], calls
