"""What a client of `WS /live` asks for besides talking, and what it is told of it. On virtual time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from live_gateway.events import event_from_dict
from live_gateway.live.items import Stored
from live_gateway.models.live import Activity
from live_gateway.server.app import create_app
from live_gateway.server.outgoing import Outgoing
from live_gateway.server.wire import Codec, Flag, Frame, Kind, pack_frame
from live_gateway.testing.steps import Step, delay, expect_activity, expect_content, expect_image, hear, say, wait
from tests.support.asgi_client import AsgiClient
from tests.support.live_app import app_of, content, model, runner_of, welcomed

pytestmark = pytest.mark.virtual_time


# case: K-GW-06
async def test_an_answer_is_stopped_at_once_though_nothing_gets_through_to_the_model() -> None:
    stuck = delay(expect_activity(Activity.END), asyncio.Event())
    scripted = model(expect_content("go"), say("one two three four", ms=4000, complete=False), stuck)
    async with AsgiClient(app_of(scripted)) as client:
        await welcomed(client, caps=["playback"], input="ptt")
        client.say("content", **content("m-1", "go"))
        await client.until("response.start")
        client.say("input.activity", event="end")
        await asyncio.sleep(0.1)
        began = asyncio.get_running_loop().time()
        client.say("response.cancel", reason="button")
        assert (await client.until("interrupted"))["reason"] == "cancel"
        assert asyncio.get_running_loop().time() - began < 0.01


@pytest.mark.parametrize("what", ["image", "activity"])
async def test_what_a_stuck_model_may_have_taken_is_not_known(what: str, caplog: pytest.LogCaptureFixture) -> None:
    step = expect_image("image/jpeg") if what == "image" else expect_activity(Activity.START)
    scripted = model(delay(step, asyncio.Event()))
    async with AsgiClient(app_of(scripted)) as client:
        await welcomed(client, input="ptt")
        if what == "image":
            client.data(pack_frame(Frame(Kind.IMAGE_UP, Flag.START | Flag.END, Codec.JPEG, 1, 0, 0, 0.0, b"jpeg")))
        else:
            client.say("input.activity", event="start")
        problem = await client.until("error")
    assert (problem["code"], problem["fatal"], problem["retryable"]) == ("unknown", False, False)
    assert "input_failed" not in caplog.text


# contract: NEW-05
async def test_what_a_hello_asks_for_and_does_not_get_is_named() -> None:
    with model() as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            client.say("hello", v=1, resume="token", last_seq=0, playing={"response": 1, "received": 2, "played": 1})
            problem = await client.until("error")
            assert (problem["code"], problem["fatal"]) == ("not_supported", False)
            assert "resume, last_seq, playing" in problem["message"]
            assert "ticket" not in problem["message"]
            assert not (await client.until("welcome"))["resumed"]


async def test_a_client_that_reads_again_in_time_is_told_that_it_was_too_slow() -> None:
    with model(expect_content("go"), say("x", ms=100)) as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            await welcomed(client)
            client.stop_reading()
            client.say("content", **content("m-1", "go"))
            await asyncio.sleep(11.5)
            client.read_on()
            frames, closed = await client.rest()
            assert isinstance(frames[-1], dict)
            assert (frames[-1]["type"], frames[-1]["code"], frames[-1]["fatal"]) == ("error", "slow_consumer", True)
            assert (closed.code, closed.reason) == (4002, "slow_consumer")
            assert not client.transport.aborted


def test_no_more_was_heard_than_a_plugin_left_of_the_words() -> None:
    said: dict[str, Any] = {"author": "assistant", "invocationId": "e-1", "timestamp": 1.0, "id": "ev-1", "seq": 1}
    outgoing = Outgoing("s-1", {})
    outgoing.frames(Stored(event_from_dict(said | {"outputTranscription": {"text": "Call [number]", "finished": True}})), 0.0)
    heard = {"id": "ev-2", "seq": 2, "customMetadata": {"heard": {"item": "ev-1", "chars": 40, "ms": 4000}}}
    (frame,) = outgoing.frames(Stored(event_from_dict(said | heard)), 0.0)
    assert json.loads(frame)["heard_chars"] == len("Call [number]")


@pytest.mark.parametrize("said", ["typed", "heard"])
async def test_a_session_that_is_deleted_while_it_is_live_ends(said: str) -> None:
    gate = asyncio.Event()
    begins: list[Step] = [expect_content("go")] if said == "typed" else [wait(gate), hear("go")]
    with model(*begins, say("Hello.", ms=80)) as scripted:
        runner = runner_of(scripted)
        async with AsgiClient(create_app(runner)) as client:
            welcome = await welcomed(client)
            await runner.session_service.delete(app_name="demo", user_id="user", session_id=welcome["session"])
            gate.set()
            if said == "typed":
                client.say("content", **content("m-1", "go"))
            frames, closed = await client.rest()
    assert (closed.code, closed.reason) == (4504, "session_not_found")
    last = frames[-1]
    assert isinstance(last, dict)
    assert (last["type"], last["code"], last["fatal"]) == ("error", "session_not_found", True)
