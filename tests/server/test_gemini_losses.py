"""What a client sees when the connection to Gemini Live ends, in one way or another: real sockets on both sides."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from live_gateway.server.app import create_app
from live_gateway.testing.fake_gemini import FakeGemini
from live_gateway.testing.gemini_steps import (
    Fault,
    Step,
    close,
    drop,
    expect_audio,
    expect_content,
    expect_setup,
    expect_text,
    handle,
    hear,
    pause,
    ready,
    say,
    send,
    stall,
    write,
)
from tests.server.test_gemini_clients import LOUD, runner_on
from tests.support.run_live import HERE, Client, blob, denied, in_store, talking, text, until
from tests.support.running_server import RunningServer

QUOTA = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota"}}
FRESH = expect_setup(lambda setup: setup["sessionResumption"] == {})


def errors(client: Client) -> list[dict[str, Any]]:
    return [event for event in client.events if "errorCode" in event]


# report: A01
async def test_a_clients_close_is_the_end_although_a_handle_is_in_hand() -> None:
    loop = asyncio.get_running_loop()
    async with FakeGemini([handle("h1"), write("x")]) as gemini, RunningServer(create_app(runner_on(gemini))) as server:
        before = len(asyncio.all_tasks())
        async with talking(server) as client:
            await client.until("turnComplete")
            began = loop.time()
            await client.send(close=True)
            assert (await client.closed())[0] == 1000
            assert loop.time() - began < 1
        assert errors(client) == []
        assert gemini.dials == 1
        await until(lambda: len(asyncio.all_tasks()) <= before, 2)


# report: A02, A04, C02
async def test_the_models_clean_end_reaches_the_client_within_a_second() -> None:
    async with FakeGemini([write("x"), close(1000)]) as gemini, RunningServer(create_app(runner_on(gemini))) as server:
        async with talking(server) as client:
            await client.until("turnComplete")
            async with asyncio.timeout(1):
                assert (await client.closed())[0] == 1000
        assert errors(client) == []


# report: A06
async def test_a_model_that_ignores_the_close_is_not_waited_for_although_the_client_does_not_read_either() -> None:
    loop = asyncio.get_running_loop()
    async with FakeGemini([write("x"), stall()]) as gemini:
        app = create_app(runner_on(gemini))
        async with RunningServer(app) as server, talking(server) as client:
            await client.until("turnComplete")
            client.socket.transport.pause_reading()
            began = loop.time()
            await client.send(close=True)
            await until(lambda: not app.state.gateway.sockets, 5)
            assert loop.time() - began < 2
            client.socket.transport.abort()


# report: A10
@pytest.mark.parametrize("end", [drop("rst"), close(1001)])
async def test_after_a_resume_the_next_audio_goes_up_at_once(end: Fault) -> None:
    loop = asyncio.get_running_loop()
    async with FakeGemini(
        [handle("h1"), write("one"), end], [expect_setup(sessionResumption__handle="h1"), ready(), expect_audio(ms=40), write("two")]
    ) as gemini:
        async with RunningServer(create_app(runner_on(gemini))) as server, talking(server) as client:
            while "upstream_resumed" not in str(await client.next()):
                pass
            began = loop.time()
            await client.send(blob=blob(LOUD))
            await gemini.until(lambda: bool(gemini.connections[1].audio))
            assert loop.time() - began < 0.2
            await client.until("turnComplete")
        assert "audio_gap" not in str(client.events)


# report: A11
async def test_a_model_that_accepts_and_refuses_again_and_again_is_given_up_for_good() -> None:
    refusal = close(1008, "API key not valid")
    async with FakeGemini([expect_text("go"), refusal], [refusal], again=True, strict=False) as gemini:
        async with RunningServer(create_app(runner_on(gemini))) as server, talking(server) as client:
            await client.send(content=text("go"))
            code, word = await client.closed()
        assert (code, word) == (4510, "upstream_policy")
        assert [event["errorCode"] for event in errors(client)] == ["upstream_policy"]
        assert gemini.dials <= 3


# report: A12
async def test_a_quota_that_is_used_up_is_told_and_not_tried_again() -> None:
    async with FakeGemini([handle("h1"), write("x"), send(QUOTA), close(1011)]) as gemini:
        async with RunningServer(create_app(runner_on(gemini))) as server, talking(server) as client:
            assert await client.closed() == (4006, "upstream_quota")
        assert [event["errorCode"] for event in errors(client)] == ["upstream_quota"]
        assert gemini.dials == 1
    async with FakeGemini([expect_setup(), send(QUOTA), close(1011)]) as gemini, RunningServer(create_app(runner_on(gemini))) as server:
        status, body = await denied(server, HERE)
        assert (status, body["code"]) == (429, "upstream_quota")
        assert gemini.dials == 1


# report: A17, A18
async def test_a_resume_that_is_refused_begins_anew_with_the_history_and_says_so() -> None:
    more: list[Step] = [expect_text("and now"), write("now")]
    async with FakeGemini(
        [handle("h1"), hear("who is it"), say("Ada.", ms=40), close(1011)],
        [expect_setup(sessionResumption__handle="h1"), close(1011)],
        [FRESH, ready(), expect_content(lambda value: "who is it" in str(value) and "Ada." in str(value)), *more],
    ) as gemini:
        runner = runner_on(gemini)
        async with RunningServer(create_app(runner)) as server, talking(server) as client:
            while "upstream_resumed" not in str(event := await client.next()):
                pass
            assert "'state_restored': False" in str(event)
            await client.send(content=text("and now"))
            await client.until("turnComplete")
        assert [sent.kind for sent in gemini.connections[1].sent] == ["setup"]
        assert [event.text for event in (await in_store(runner)).events if event.text] == ["and now", "now"]


# report: A18
async def test_without_a_handle_the_history_goes_before_the_microphone() -> None:
    async with FakeGemini(
        [hear("one"), say("Two.", ms=40), pause(0.05), drop("rst")],
        [FRESH, pause(0.3), ready(), expect_content(), expect_audio(ms=40), write("on")],
        allow={"audio"},
        strict=False,
    ) as gemini:
        async with RunningServer(create_app(runner_on(gemini))) as server, talking(server) as client:
            while "upstream_reconnecting" not in str(await client.next()):
                pass
            for _ in range(5):
                await client.send(blob=blob(LOUD))
            await client.until("turnComplete")
        assert [sent.kind for sent in gemini.connections[1].sent][:3] == ["setup", "content", "audio"]
