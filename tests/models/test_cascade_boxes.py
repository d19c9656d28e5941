"""What stands between a connection and its two halves: inbox, outbox, history."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_gateway.content import (
    FunctionCall,
    FunctionResponse,
    Part,
    function_calls,
    function_responses,
    model_content,
    text_of,
    user_content,
)
from live_gateway.errors import ModelError, UpstreamLost
from live_gateway.models.cascade.history import PENDING, History
from live_gateway.models.cascade.inbox import MAX_MARKS, EndOfAudio, Gap, Heard, Inbox, Playing
from live_gateway.models.cascade.outbox import Outbox
from live_gateway.models.live import Activity, AudioOut, Interrupted, TurnComplete
from live_gateway.voice.base import FRAME_BYTES

FRAME_S = FRAME_BYTES / 32_000


@given(st.lists(st.integers(0, 5_000).map(lambda n: 2 * n), max_size=20))
async def test_audio_of_any_length_comes_out_in_frames_and_whole(lengths: list[int]) -> None:
    inbox = Inbox(10_000, 1)
    sent = b"".join(bytes([number + 1]) * length for number, length in enumerate(lengths))
    at = 0
    for length in lengths:
        await inbox.put_audio(sent[at : at + length])
        at += length
    inbox.put_mark(Activity.END)
    taken = await inbox.take()
    assert taken.pop() is Activity.END
    frames = [frame for frame in taken if isinstance(frame, bytes)]
    assert b"".join(frames) == sent
    assert all(len(frame) == FRAME_BYTES for frame in frames[:-1])


@given(st.lists(st.sampled_from(["frame", "end", "take"]), max_size=60), st.integers(1, 5))
async def test_when_it_is_full_the_oldest_audio_is_dropped_counted_and_marks_stay(steps: list[str], capacity: int) -> None:
    inbox = Inbox(capacity * FRAME_S, 0)
    sent = marks = 0
    got: list[Heard] = []
    for step in steps:
        if step == "frame":
            await inbox.put_audio(bytes([sent % 251 + 1]) * FRAME_BYTES)
            sent += 1
        elif step == "end":
            inbox.put_mark(EndOfAudio())
            marks += 1
        elif sent + marks:
            inbox.put_mark(Playing(True))
            got += await inbox.take()
    inbox.put_mark(Activity.END)
    last = await inbox.take()
    assert sum(isinstance(item, bytes) for item in last) <= capacity
    got += last
    frames = [item for item in got if isinstance(item, bytes)]
    dropped = sum(item.samples for item in got if isinstance(item, Gap))
    assert len(frames) * FRAME_BYTES + 2 * dropped == sent * FRAME_BYTES
    assert sum(isinstance(item, EndOfAudio) for item in got) == marks
    order, number = [], 0
    for item in got:
        if isinstance(item, bytes):
            order.append(item[0] == number % 251 + 1)
            number += 1
        elif isinstance(item, Gap):
            number += 2 * item.samples // FRAME_BYTES
    assert all(order)


async def test_a_sender_waits_for_room_before_anything_is_dropped() -> None:
    inbox = Inbox(2 * FRAME_S, 30)
    async with asyncio.TaskGroup() as group:
        sending = group.create_task(inbox.put_audio(bytes(5 * FRAME_BYTES)))
        taken: list[Heard] = []
        while len(taken) < 5:
            taken += await inbox.take()
        await sending
    assert taken == [bytes(FRAME_BYTES)] * 5


async def test_taking_waits_for_so_many_frames_but_not_behind_a_mark() -> None:
    inbox = Inbox(1, 1)
    async with asyncio.TaskGroup() as group:
        taking = group.create_task(inbox.take(3))
        await inbox.put_audio(bytes(2 * FRAME_BYTES))
        await asyncio.sleep(0)
        assert not taking.done()
        await inbox.put_audio(bytes(FRAME_BYTES))
        assert len(await taking) == 3
    await inbox.put_audio(bytes(FRAME_BYTES))
    inbox.put_mark(Activity.END)
    assert len(await inbox.take(3)) == 2


def test_far_too_many_marks_are_refused() -> None:
    inbox = Inbox(1, 1)
    for _ in range(MAX_MARKS):
        inbox.put_mark(Activity.START)
    with pytest.raises(ModelError):
        inbox.put_mark(Activity.START)


async def test_what_belongs_to_a_stopped_answer_does_not_come_out_and_the_rest_does_in_order() -> None:
    outbox = Outbox(4)
    first = outbox.begin_answer()
    await outbox.put(AudioOut(b"1"), first)
    await outbox.put(Interrupted())
    await outbox.put(TurnComplete(), first)
    await outbox.discard()
    assert outbox.answering == 0
    await outbox.put(AudioOut(b"late"), first)
    second = outbox.begin_answer()
    await outbox.put(AudioOut(b"2"), second)
    await outbox.put(TurnComplete(), second)
    assert await outbox.get() == Interrupted()
    assert await outbox.get() == AudioOut(b"2")
    assert outbox.answering == second
    assert await outbox.get() == TurnComplete()
    assert outbox.answering == 0


async def test_after_a_failure_what_waits_comes_out_and_then_the_failure() -> None:
    outbox = Outbox(4)
    await outbox.put(Interrupted())
    outbox.fail(UpstreamLost("gone"))
    outbox.fail(ModelError("too late"))
    await outbox.put(Interrupted())
    assert await outbox.get() == Interrupted()
    for _ in range(2):
        with pytest.raises(UpstreamLost):
            await outbox.get()


def call(name: str) -> FunctionCall:
    return FunctionCall(id=f"id-{name}", name=name, args={})


def response(name: str, **fields: object) -> FunctionResponse:
    return FunctionResponse(id=f"id-{name}", name=name, response=dict(fields))


def test_calls_without_an_answer_get_the_one_that_stands_for_it() -> None:
    history = History(10)
    history.add(user_content("do"))
    history.add(model_content([Part(function_call=call("a")), Part(function_call=call("b"))]))
    history.answered([call("a"), call("b")], {"id-b": response("b", done=1)}, PENDING)
    assert [r.response for r in function_responses(history.contents()[-1])] == [PENDING, {"done": 1}]


def test_a_late_answer_moves_to_the_end_with_its_call() -> None:
    history = History(20)
    history.add(user_content("do"))
    history.add(model_content([Part(text="Well."), Part(function_call=call("a")), Part(function_call=call("b"))]))
    history.answered([call("a"), call("b")], {"id-b": response("b", done=1)}, PENDING)
    history.said("Waiting.")
    history.answered_late([response("a", done=2)])
    contents = history.contents()
    assert [[c.name for c in function_calls(content)] for content in contents] == [[], ["b"], [], [], ["a"], []]
    assert [[r.response for r in function_responses(content)] for content in contents] == [[], [], [{"done": 1}], [], [], [{"done": 2}]]
    assert text_of(contents[1]) == "Well."


@given(st.lists(st.sampled_from(["talk", "call"]), max_size=80), st.integers(4, 20))
def test_old_turns_are_forgotten_whole(turns: list[str], limit: int) -> None:
    history = History(limit)
    for number, turn in enumerate(turns):
        history.add(user_content(f"question {number}"))
        if turn == "call":
            made = call(str(number))
            history.add(model_content([Part(function_call=made)]))
            history.answered([made], {}, PENDING)
        history.said(f"answer {number}")
    contents = history.contents()
    assert len(contents) <= limit
    if contents:
        assert contents[0].role == "user"
        assert not function_responses(contents[0])
        assert text_of(contents[-1]) == f"answer {len(turns) - 1}"
    calls = [c.id for content in contents for c in function_calls(content)]
    assert calls == [r.id for content in contents for r in function_responses(content)]
