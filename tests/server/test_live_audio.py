"""Audio on its way to a client of `WS /live`. On virtual time."""

from __future__ import annotations

import pytest

from live_gateway.server.wire import SERVER_KINDS, unpack_frame
from live_gateway.testing.steps import expect_content, say
from tests.support.asgi_client import AsgiClient
from tests.support.live_app import app_of, content, model, welcomed

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
