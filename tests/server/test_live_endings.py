"""How a connection of `WS /live` ends: by the client, the model, the server, or because of a limit. On virtual time."""

from __future__ import annotations

import asyncio

import pytest

from live_gateway.errors import UpstreamLost
from live_gateway.server.gateway import ServerConfig
from live_gateway.server.wire import Codec, Flag, Frame, Kind, pack_frame
from live_gateway.testing.scripted_live import ScriptedLiveModel
from live_gateway.testing.steps import (
    Step,
    end,
    expect_content,
    fail,
    hear,
    on_connect,
    pause,
    say,
)
from tests.support.asgi_client import AsgiClient, Denied
from tests.support.live_app import CHUNK, app_of, content, model, welcomed

pytestmark = pytest.mark.virtual_time


async def test_bye_lets_messages_arrive_and_ends_with_1000() -> None:
    with model(expect_content("last words")) as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            await welcomed(client)
            client.say("content", **content("m-1", "last words"))
            client.say("bye")
            frames, closed = await client.rest()
    acks = [frame for frame in frames if isinstance(frame, dict) and frame["type"] == "ack"]
    assert [frame["state"] for frame in acks] == ["persisted"]
    assert closed.code == 1000


async def test_bye_before_the_model_is_ready() -> None:
    with model(on_connect(pause(50))) as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            client.say("hello", v=1)
            client.say("bye")
            began = asyncio.get_running_loop().time()
            _, closed = await client.rest()
            assert asyncio.get_running_loop().time() - began < 1
    assert closed.code == 1000


# report: C02
# case: K-GW-10
async def test_the_models_clean_end_closes_with_1000() -> None:
    with model(say("Goodbye."), end()) as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            await welcomed(client)
            frames, closed = await client.rest()
    assert any(isinstance(frame, dict) and frame.get("text") == "Goodbye." and frame["final"] for frame in frames)
    assert closed.code == 1000


# case: K-GW-11
async def test_the_models_failure_is_an_error_frame_and_a_close_code() -> None:
    with model(hear("hm"), fail(UpstreamLost("connection reset"))) as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            await welcomed(client)
            frames, closed = await client.rest()
    last = frames[-1]
    assert isinstance(last, dict)
    assert (last["type"], last["code"], last["fatal"]) == ("error", "upstream_lost", True)
    assert (closed.code, closed.reason) == (4000, "upstream_lost")


# report: A08, A09
# case: K-GW-16
@pytest.mark.parametrize("phase", ["before hello", "while opening", "live", "while an answer is sent"])
async def test_a_client_that_vanishes_leaves_nothing_behind(phase: str) -> None:
    steps: list[Step] = (
        [expect_content("go"), say("a long answer", ms=30_000, complete=False)] if phase == "while an answer is sent" else []
    )
    scripted = model(*([on_connect(pause(30))] if phase == "while opening" else steps))
    app = app_of(scripted)
    async with AsgiClient(app) as client:
        if phase != "before hello":
            client.say("hello", v=1)
        if phase in {"live", "while an answer is sent"}:
            await client.until("welcome")
        if phase == "while an answer is sent":
            client.say("content", **content("m-1", "go"))
            await client.until("response.start")
        await asyncio.sleep(0.05)
        began = asyncio.get_running_loop().time()
        client.leave()
        await client.finished.wait()
        assert asyncio.get_running_loop().time() - began < 1
        assert asyncio.all_tasks() == {asyncio.current_task()}


# case: K-GW-14
async def test_a_client_that_takes_nothing_is_dropped() -> None:
    with model(expect_content("go"), say("x", ms=100)) as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            await welcomed(client)
            client.stop_reading()
            client.say("content", **content("m-1", "go"))
            began = asyncio.get_running_loop().time()
            await client.finished.wait()
            assert asyncio.get_running_loop().time() - began == pytest.approx(12, abs=1)  # 10 s, and 2 s to be told
            assert client.transport.aborted


# case: K-GW-19
# report: A55
async def test_a_second_socket_takes_the_session_over() -> None:
    with ScriptedLiveModel([], []) as scripted:
        app = app_of(scripted)
        async with AsgiClient(app) as first:
            await welcomed(first, session="s-1")
            async with AsgiClient(app) as second:
                assert (await welcomed(second, session="s-1"))["session"] == "s-1"
                frames, closed = await first.rest()
                assert isinstance(frames[-1], dict)
                assert (frames[-1]["code"], frames[-1]["fatal"]) == ("taken_over", True)
                assert (closed.code, closed.reason) == (4506, "taken_over")


async def test_draining_says_goaway_and_takes_nobody_else() -> None:
    with model() as scripted:
        app = app_of(scripted)
        async with AsgiClient(app) as client:
            await welcomed(client)
            await app.state.gateway.drain()
            frames, closed = await client.rest()
        with pytest.raises(Denied) as denied:
            async with AsgiClient(app):
                pass
    assert isinstance(frames[-1], dict)
    assert frames[-1]["type"] == "goaway"
    assert (closed.code, closed.reason) == (1012, "drain")
    assert denied.value.status == 503


async def test_a_full_server_refuses_before_the_upgrade() -> None:
    with model() as scripted:
        app = app_of(scripted, ServerConfig(max_live=1))
        async with AsgiClient(app) as client:
            await welcomed(client)
            with pytest.raises(Denied) as denied:
                async with AsgiClient(app):
                    pass
    assert denied.value.status == 503
    assert denied.value.body["error"]["code"] == "overload"


async def test_a_client_that_offers_only_other_subprotocols_is_refused() -> None:
    with pytest.raises(Denied) as denied:
        async with AsgiClient(app_of(ScriptedLiveModel()), subprotocols=["soap"]):
            pass
    assert denied.value.status == 400


async def test_too_many_messages() -> None:
    with model() as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            await welcomed(client)
            for _ in range(60):
                client.say("ping", t0=1)
            _, closed = await client.rest()
    assert (closed.code, closed.reason) == (4005, "rate_limited")


async def test_audio_faster_than_real_time_is_dropped_announced_and_after_half_a_minute_ended() -> None:
    with model() as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            await welcomed(client)
            for number in range(40 * 50):
                client.audio(CHUNK, pos=number * 640)
                client.audio(CHUNK, pos=number * 640)
                await asyncio.sleep(0.02)
            frames, closed = await client.rest()
    notices = [frame for frame in frames if isinstance(frame, dict) and frame.get("code") == "rate_limited" and frame["type"] == "notice"]
    assert 5 <= len(notices) <= 7
    assert closed.code == 4005


async def test_ten_bad_audio_frames_in_a_row_end_the_connection() -> None:
    odd = pack_frame(Frame(Kind.AUDIO_UP, Flag.NONE, Codec.PCM16, 1, 0, 0, 0.0, b"\0"))
    with model() as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            await welcomed(client)
            for _ in range(3):
                for _ in range(9):
                    client.data(odd)
                client.audio(CHUNK)
            for _ in range(10):
                client.data(odd)
            frames, closed = await client.rest()
    errors = [frame for frame in frames if isinstance(frame, dict) and frame["type"] == "error"]
    assert [frame["fatal"] for frame in errors] == [False] * 36 + [True]
    assert closed.code == 4500
