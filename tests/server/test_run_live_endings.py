"""`WS /run_live`: who is let in, how a connection ends, and its bounds. Real sockets."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any
from urllib.parse import urlencode

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from live_gateway.errors import UpstreamLost, UpstreamPolicy
from live_gateway.runner import Runner
from live_gateway.server import run_live
from live_gateway.server.app import create_app
from live_gateway.server.gateway import ServerConfig
from live_gateway.server.run_live import MAX_TEXT
from live_gateway.testing import ScriptedLiveModel
from live_gateway.testing.steps import (
    end,
    expect_content,
    expect_image,
    fail,
    hang,
    hear,
    on_connect,
    refuse,
    say,
    wait,
)
from tests.support.live_app import app_of, model, runner_of
from tests.support.run_live import HERE, blob, closed_after, denied, in_store, talking, text, until
from tests.support.running_server import RunningServer

PNG = base64.b64decode("iVBORw0KGgo=")


# case: K-GW-02
# report: C06
@pytest.mark.parametrize(
    ("change", "status", "code", "says"),
    [
        ({"app_name": None}, 400, "invalid_input", "app_name is missing"),
        ({"user_id": None}, 400, "invalid_input", "user_id is missing"),
        ({"session_id": ""}, 400, "invalid_input", "session_id is missing"),
        ({"session_id": "../etc"}, 400, "invalid_input", "session_id: an id"),
        ({"modalities": "VIDEO"}, 400, "invalid_input", "not 'VIDEO'"),
        ({"proactive_audio": "maybe"}, 400, "invalid_input", "proactive_audio is true or false"),
        ({"base64": "hex"}, 400, "invalid_input", "base64 is std or url"),
        ({"save_live_blob": "true"}, 501, "not_supported", "save_live_blob: this server has no place"),
        ({"saveLiveBlob": "sure"}, 400, "invalid_input", "save_live_blob is true or false"),
        ({"explicit_vad_signal": "true"}, 501, "not_supported", "explicit_vad_signal: no event says"),
        ({"app_name": "other"}, 404, "app_not_found", "Agent not found: 'other'"),
        ({}, 404, "session_not_found", "Session not found: s-1"),
    ],
)
async def test_who_is_not_let_in_is_told_over_http(change: dict[str, Any], status: int, code: str, says: str) -> None:
    made = runner_of(ScriptedLiveModel())
    runner = Runner(app_name="demo", agent=made.agent, session_service=made.session_service)
    async with RunningServer(create_app(runner)) as server:
        query = {name: value for name, value in (HERE | change).items() if value is not None}
        answered, body = await denied(server, query)
    assert (answered, body["code"]) == (status, code)
    assert says in body["detail"]


# contract: GW-01
@pytest.mark.parametrize(
    ("problem", "status", "code"), [(UpstreamPolicy("the key is refused"), 502, "upstream_policy"), (ValueError("secret"), 500, "internal")]
)
async def test_a_model_that_cannot_be_reached_is_an_http_answer(problem: Exception, status: int, code: str) -> None:
    scripted = model(on_connect(fail(problem)))
    async with RunningServer(app_of(scripted)) as server:
        answered, body = await denied(server, HERE)
    assert (answered, body["code"]) == (status, code)
    assert "secret" not in body["detail"]


# contract: GW-01
async def test_a_slow_model_is_waited_for_behind_an_open_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_live, "OPEN_S", 0.05)
    gate = asyncio.Event()
    with model(on_connect(wait(gate)), expect_content("early"), say("Here I am.")) as scripted:
        async with RunningServer(app_of(scripted)) as server, talking(server) as client:
            await client.send(content=text("early"))
            gate.set()
            await client.until("turnComplete")


async def test_a_slow_model_that_fails_is_an_error_frame_and_a_close_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_live, "OPEN_S", 0.05)
    scripted = model(on_connect(wait(asyncio.Event())))
    async with RunningServer(app_of(scripted, ServerConfig(setup_s=0.2))) as server, talking(server) as client:
        assert await client.closed() == (4007, "setup_timeout")
    assert [event["errorCode"] for event in client.events] == ["setup_timeout"]
    assert client.events[0]["customMetadata"] == {"error": {"fatal": True, "retryable": True}}


async def test_a_client_that_leaves_while_the_model_is_slow_leaves_nothing_behind() -> None:
    scripted = model(on_connect(wait(asyncio.Event())))
    app = app_of(scripted)
    async with RunningServer(app) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        head = f"GET /run_live?{urlencode(HERE)} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        writer.write(f"{head}Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n".encode())
        await until(lambda: app.state.gateway.sockets)
        writer.close()
        await until(lambda: not app.state.gateway.sockets)
        assert reader.at_eof() or not await reader.read()


# report: C03
# case: K-GW-07
async def test_close_ends_session_and_socket_after_what_was_sent_before() -> None:
    with model(expect_content("last words")) as scripted:
        runner = runner_of(scripted)
        async with RunningServer(create_app(runner)) as server, talking(server) as client:
            await client.send(content=text("last words"))
            await client.send(close=True)
            assert await client.closed() == (1000, "done")
        assert next(event.text for event in (await in_store(runner)).events) == "last words"


# report: C02
# case: K-GW-10
async def test_the_models_clean_end_is_a_clean_end() -> None:
    with model(say("Goodbye."), end()) as scripted:
        async with RunningServer(app_of(scripted)) as server, talking(server) as client:
            async with asyncio.timeout(1):
                assert await client.closed() == (1000, "done")
    assert not [event for event in client.events if "errorCode" in event]


# report: C05
# case: K-GW-11
@pytest.mark.parametrize(
    ("problem", "code", "word"), [(UpstreamLost("é" * 200), 4000, "upstream_lost"), (ValueError("\U0001f600" * 200), 4000, "upstream_lost")]
)
async def test_the_models_failure_is_one_error_frame_and_a_short_reason(problem: Exception, code: int, word: str) -> None:
    with model(hear("hm"), fail(problem)) as scripted:
        async with RunningServer(app_of(scripted)) as server, talking(server) as client:
            assert await client.closed() == (code, word)
    assert [event["errorCode"] for event in client.events if "errorCode" in event] == [word]


# case: K-GW-11
async def test_what_the_model_does_not_take_is_an_error_frame_and_the_session_goes_on() -> None:
    with model(refuse(expect_content("one"), UpstreamLost("not now")), expect_content("two"), say("Two.")) as scripted:
        async with RunningServer(app_of(scripted)) as server, talking(server) as client:
            await client.send(content=text("one"))
            await client.error("not_delivered")
            await client.send(content=text("two"))
            await client.until("turnComplete")


# report: C01
# case: K-GW-16
async def test_a_client_that_leaves_in_an_answer_closes_the_models_side() -> None:
    scripted = model(expect_content("go"), say("a long answer", ms=30_000, complete=False), hang())
    app = app_of(scripted)
    async with RunningServer(app) as server, talking(server) as client:
        await client.send(content=text("go"))
        await client.until("content")
        before = len(asyncio.all_tasks())
        client.socket.transport.abort()
        await until(lambda: not app.state.gateway.sockets, 1.0)
        assert len(asyncio.all_tasks()) < before


# report: C09
# case: K-GW-19
async def test_a_second_socket_takes_the_session_over() -> None:
    with ScriptedLiveModel([], []) as scripted:
        async with RunningServer(app_of(scripted)) as server, talking(server) as first, talking(server) as second:
            assert await first.closed() == (4506, "taken_over")
            assert [event["errorCode"] for event in first.events] == ["taken_over"]
            await second.send(close=True)
            assert await second.closed() == (1000, "done")


# report: C09
# case: K-GW-19
async def test_sessions_are_taken_over_between_both_protocols() -> None:
    with ScriptedLiveModel([], [], []) as scripted:
        async with RunningServer(app_of(scripted)) as server, talking(server) as first:
            async with connect(f"{server.url.replace('http', 'ws', 1)}/live") as native:
                await native.send(json.dumps({"type": "hello", "v": 1, "user": "ada", "session": "s-1"}))
                assert json.loads(await native.recv())["type"] == "welcome"
                assert await first.closed() == (4506, "taken_over")
                async with talking(server):
                    frames: list[Any] = []

                    async def read() -> None:
                        frames.append(json.loads(await native.recv()))

                    assert await closed_after(read) == (4506, "taken_over")
            assert (frames[-1]["type"], frames[-1]["code"]) == ("error", "taken_over")


async def test_a_server_that_goes_down_says_so() -> None:
    scripted = model(hang())
    app = app_of(scripted)
    async with RunningServer(app) as server, talking(server) as client:
        await app.state.gateway.drain()
        assert await client.closed() == (1012, "drain")
        assert [event["errorCode"] for event in client.events] == ["drain"]
        assert (await denied(server, HERE | {"session_id": "s-2"}))[0] == 503


# case: K-GW-15
@pytest.mark.parametrize("kind", ["text", "binary"])
async def test_a_frame_beyond_four_mebibytes_ends_the_connection(kind: str) -> None:
    scripted = model(hang())
    app = app_of(scripted)
    async with RunningServer(app) as server, talking(server) as client:

        async def say_too_much() -> None:  # sending may itself be cut short
            await client.socket.send("x" * (MAX_TEXT + 1) if kind == "text" else b"x" * (MAX_TEXT + 1))
            await client.next()

        assert (await closed_after(say_too_much))[0] == 1009
        await until(lambda: not app.state.gateway.sockets, 1.0)


# case: K-GW-15
async def test_an_image_of_two_mebibytes_fits() -> None:
    image = PNG + b"\x00" * (2**21 - len(PNG))
    with model(expect_image("image/png"), hear("a picture")) as scripted:
        async with RunningServer(app_of(scripted)) as server, talking(server) as client:
            await client.send(blob=blob(image, "image/png"))
            await client.until("inputTranscription")
            await client.send(blob=blob(image + b"\x00", "image/png"))
            await client.error("bad_message")


async def test_elsewhere_the_bound_on_messages_is_as_it_was() -> None:
    scripted = model(hang())
    async with RunningServer(app_of(scripted)) as server, connect(f"{server.url.replace('http', 'ws', 1)}/live") as native:
        await native.send("x" * (256 * 1024 + 1))
        with pytest.raises(ConnectionClosed) as caught:
            await native.recv()
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1009


async def test_too_many_requests_end_the_connection() -> None:
    scripted = model(hang())
    async with RunningServer(app_of(scripted)) as server, talking(server) as client:
        for _ in range(100):
            await client.socket.send("nonsense")
        assert await client.closed() == (4005, "rate_limited")
