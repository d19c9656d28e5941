"""Audio on its way to a client of `WS /live`. On virtual time."""

from __future__ import annotations

import array

import pytest

from live_gateway.models.live import AudioOut
from live_gateway.server.app import create_app
from live_gateway.server.wire import SERVER_KINDS, Frame, unpack_frame
from live_gateway.testing.steps import expect_content, say
from tests.support.asgi_client import AsgiClient
from tests.support.live import live_runner
from tests.support.live_app import app_of, content, model, welcomed
from tests.support.puppet_model import PuppetModel

pytestmark = pytest.mark.virtual_time


# case: K-GW-13
async def test_audio_comes_in_binary_frames_at_its_place_among_the_messages() -> None:
    with model(expect_content("go"), say("one", ms=80), expect_content("more"), say("two", ms=80)) as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            await welcomed(client)
            order: list[tuple[str, int]] = []
            for number, words in enumerate(("go", "more"), 1):
                client.say("content", **content(f"m-{number}", words))
                while order[-1:] != [("response.audio.end", number)]:
                    frame = await client.receive()
                    if isinstance(frame, bytes):
                        order.append(("audio", unpack_frame(frame, SERVER_KINDS).stream))
                    elif frame["type"] in {"response.start", "response.audio.end"}:
                        order.append((frame["type"], frame["response"]))
    for number in (1, 2):
        own = [kind for kind, response in order if response == number]
        assert own == ["response.start", *["audio"] * (len(own) - 2), "response.audio.end"]
        assert len(own) >= 3
    assert [response for _, response in order] == sorted(response for _, response in order)


async def test_a_long_piece_comes_in_frames_that_each_say_where_they_stand() -> None:
    puppet = PuppetModel()
    said = array.array("h", range(-16_384, 16_384)).tobytes() * 3
    async with AsgiClient(create_app(live_runner(puppet))) as client:
        await welcomed(client)
        puppet.connection.say(AudioOut(bytes(4_800)), AudioOut(said))
        frames: list[Frame] = []
        while sum(len(frame.payload) for frame in frames) < len(said) + 4_800:
            message = await client.receive()
            if isinstance(message, bytes):
                frames.append(unpack_frame(message, SERVER_KINDS))
    first, *rest = frames
    assert (first.pos, len(first.payload)) == (0, 4_800)
    assert b"".join(frame.payload for frame in rest) == said
    assert len(rest) > 1
    at = 2_400
    for frame in rest:
        assert frame.pos == at
        at += len(frame.payload) // 2
