"""How connections to Gemini Live follow one another, and what their last words are."""

from __future__ import annotations

import asyncio
import struct

import pytest

from live_gateway.testing.fake_gemini import FakeGemini
from live_gateway.testing.gemini_steps import (
    content,
    drop,
    expect_audio,
    expect_setup,
    go_away,
    handle,
    hear,
    pause,
    ready,
    write,
)
from tests.support.gemini import connected, gemini_model, notice, take, written
from tests.support.live import go_live, in_short, live_runner, until


def numbered(frame: int) -> bytes:
    """40 ms that say which they are."""
    return struct.pack("<h", frame + 1) * 640


# report: A67
@pytest.mark.parametrize("end", ["go-away", "drop"])
async def test_the_old_socket_is_gone_before_the_new_one_is_dialled_and_the_microphone_loses_nothing(end: str) -> None:
    frames = 40
    last = [go_away(50)] if end == "go-away" else [drop("rst")]
    async with FakeGemini(
        [handle("h1"), expect_audio(ms=40), *last],
        [expect_setup(sessionResumption__handle="h1"), pause(0.3), ready(), expect_audio(ms=400), write("back")],
        allow={"audio"},
        strict=end == "go-away",
    ) as gemini:
        async with connected(gemini_model(gemini)) as connection, asyncio.TaskGroup() as group:

            async def speak() -> None:
                for frame in range(frames):
                    await connection.send_audio(numbered(frame))
                    await asyncio.sleep(0.02)

            speaking = group.create_task(speak())
            await take(connection, notice("upstream_resumed"))
            await take(connection, written("back"))
            await speaking
            await gemini.until(lambda: numbered(frames - 1) in gemini.connections[1].audio)
        assert (gemini.dials, gemini.most_open) == (2, 1)
        came = [sample for connection_ in gemini.connections for (sample,) in struct.iter_unpack("<h", connection_.audio)][::640]
        if end == "go-away":
            assert came == list(range(1, frames + 1))
        else:  # what was on the way when the line broke is nobody's to repeat
            assert came == sorted(came)
            assert came[-1] == frames
            assert len(came) >= frames - 3


# report: A66
async def test_no_ping_of_ours_can_end_a_connection_whose_pongs_are_late() -> None:
    async with FakeGemini([write("x")]) as gemini, connected(gemini_model(gemini)) as connection:
        await take(connection, written("x"))
        link = connection._sender.link
        assert link is not None
        assert link._socket.ping_interval is None
        assert link._socket.keepalive_task is None


# case: K-LCON-26
async def test_at_the_turns_end_the_question_is_complete_before_the_answer_and_both_before_the_end() -> None:
    last = content(inputTranscription={"text": " there"}, outputTranscription={"text": "Hello."}, turnComplete=True)
    async with FakeGemini([hear("hi"), last]) as gemini, go_live(live_runner(gemini_model(gemini))) as live:
        events = in_short(await until(live, lambda event: bool(event.turn_complete)))
    assert events[-3:] == ['IN "hi there"', 'OUT "Hello."', "done"]
    assert all("~" in event for event in events[:-3])
