"""Clients of the gateway whose model is Gemini Live: real sockets on both sides."""

from __future__ import annotations

import asyncio
import struct

import pytest

from live_gateway.agents.llm import LlmAgent
from live_gateway.plugins.base import Plugin
from live_gateway.runner import Runner
from live_gateway.server.app import create_app
from live_gateway.testing.fake_gemini import FakeGemini
from live_gateway.testing.gemini_steps import (
    Step,
    audio,
    close,
    content,
    expect_audio,
    expect_audio_end,
    expect_content,
    expect_setup,
    handle,
    hear,
    pause,
    ready,
    repeat,
    say,
    turn_complete,
    write,
)
from tests.support.gemini import gemini_model
from tests.support.run_live import HERE, blob, denied, in_store, talking, text, until
from tests.support.running_server import RunningServer

NOT_LIVE = "models/m is not found for API version v1beta, or is not supported for bidiGenerateContent."
LOUD = struct.pack("<h", 9_000) * 640


def runner_on(gemini: FakeGemini, *plugins: Plugin) -> Runner:
    agent = LlmAgent(name="assistant", live_model=gemini_model(gemini))
    return Runner.in_memory("demo", agent, plugins=plugins)


# report: A61
@pytest.mark.parametrize("code", [1007, 1008])
async def test_a_model_that_is_not_served_live_is_named_at_once(code: int) -> None:
    async with FakeGemini([expect_setup(), close(code, NOT_LIVE)]) as gemini:
        runner = runner_on(gemini)
        session = await runner.session_service.create(app_name="demo", user_id="ada", session_id="s-1")
        async with RunningServer(create_app(runner)) as server:
            async with asyncio.timeout(1):
                status, body = await denied(server, HERE)
        assert (status, body["code"]) == (502, "model_not_live"), body
        assert gemini.dials == 1
        assert (await in_store(runner)).events == session.events == []


# report: A27
async def test_the_last_words_before_the_stop_are_waited_for() -> None:
    async with FakeGemini([expect_audio(ms=40), expect_audio_end(), pause(1.2), hear("the last words", finished=True)]) as gemini:
        runner = runner_on(gemini)
        async with RunningServer(create_app(runner)) as server, talking(server) as client:
            await client.send(blob=blob(LOUD))
            await client.send(audio_stream_end=True)
            await client.send(close=True)
            assert (await client.closed())[0] == 1000
        delivered = [event["inputTranscription"]["text"] for event in client.events if "inputTranscription" in event]
        assert delivered[-1] == "the last words"
        assert [event.input_transcription.text for event in (await in_store(runner)).events if event.input_transcription] == [
            "the last words"
        ]


# report: A27
async def test_a_stop_without_a_word_before_waits_a_bounded_time_for_what_never_comes() -> None:
    async with FakeGemini([expect_audio(ms=40), expect_audio_end()]) as gemini, RunningServer(create_app(runner_on(gemini))) as server:
        loop = asyncio.get_running_loop()
        async with talking(server) as client:
            await client.send(blob=blob(LOUD))
            began = loop.time()
            await client.send(close=True)
            assert (await client.closed())[0] == 1000
            assert 2 < loop.time() - began < 4


# report: A48
async def test_a_microphone_that_falls_silent_after_speech_ends_the_audio_once() -> None:
    script: list[Step] = [expect_audio(ms=80), expect_audio_end(), hear("hello"), say("Hi.", ms=40), pause(1.5)]
    async with FakeGemini(script) as gemini, RunningServer(create_app(runner_on(gemini))) as server, talking(server) as client:
        for _ in range(2):
            await client.send(blob=blob(LOUD))
        await client.until("turnComplete")
        await gemini.played()  # a second end of the audio would be a deviation


# report: A73
async def test_a_turn_of_built_in_code_without_an_answer_is_announced() -> None:
    code = {"parts": [{"executableCode": {"language": "PYTHON", "code": "search('x')"}}]}
    result = {"parts": [{"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "nothing"}}]}
    rounds = [content(modelTurn={"role": "model"} | parts) for _ in range(12) for parts in (code, result)]
    async with FakeGemini([expect_content(), *rounds, turn_complete()], allow={"text"}) as gemini:
        runner = runner_on(gemini)
        async with RunningServer(create_app(runner)) as server, talking(server) as client:
            await client.send(content=text("find it"))
            async with asyncio.timeout(2):
                await client.until("turnComplete")
                await until(lambda: any("model_stalled" in str(event) for event in client.events) or None)
        (stalled,) = [event for event in client.events if "model_stalled" in str(event)]
        assert "empty_turn" in str(stalled)


# report: A14, C13, A13
async def test_a_client_that_comes_back_resumes_with_the_handle_and_tells_no_history() -> None:
    async with FakeGemini(
        [hear("hi"), handle("h1"), say("Hello.", ms=40), repeat(pause(0.05))],
        [expect_setup(sessionResumption__handle="h1"), ready(), repeat(audio(40), pause(0.05))],
    ) as gemini:
        runner = runner_on(gemini)
        async with RunningServer(create_app(runner)) as server:
            async with talking(server) as client:
                await client.until("turnComplete")
                client.socket.transport.abort()
            await until(lambda: gemini.connections[0].closed)
            async with talking(server) as client:
                await client.until("content")
        assert [sent.kind for sent in gemini.connections[1].sent] == ["setup"]


class _Endings(Plugin):
    def __init__(self) -> None:
        self.name = "endings"
        self.begun = self.ended = 0

    async def before_run(self, ctx: object) -> None:
        self.begun += 1

    async def after_run(self, ctx: object) -> None:
        self.ended += 1


# report: A07
async def test_a_client_that_aborts_in_a_burst_of_audio_is_torn_down_exactly_once(caplog: pytest.LogCaptureFixture) -> None:
    times = 200
    async with FakeGemini([repeat(audio(400), pause(0.002))], again=True, strict=False, allow={"audio", "audio_end"}) as gemini:
        endings = _Endings()
        runner = runner_on(gemini, endings)
        async with RunningServer(create_app(runner)) as server:
            before = len(asyncio.all_tasks())
            for number in range(times):
                async with talking(server) as client:
                    for _ in range(number % 5):
                        await client.send(blob=blob(LOUD))
                    await client.until("content")
                    client.socket.transport.abort()
            await until(lambda: endings.ended == times, 5)
            await until(lambda: len(asyncio.all_tasks()) <= before, 5)
        assert (endings.begun, endings.ended) == (times, times)
        assert not [
            record for record in caplog.records if record.levelname in {"ERROR", "CRITICAL"} or "close message" in record.getMessage()
        ]


# report: A55
async def test_a_second_connection_takes_the_session_over_and_nothing_is_written_twice() -> None:
    async with FakeGemini([write("one"), repeat(pause(0.05))], [write("two"), repeat(pause(0.05))]) as gemini:
        runner = runner_on(gemini)
        async with RunningServer(create_app(runner)) as server, talking(server) as first:
            await first.until("turnComplete")
            async with talking(server) as second:
                assert (await first.closed())[0] == 4506
                await second.until("turnComplete")
        texts = [event.text for event in (await in_store(runner)).events if event.text]
        assert texts == ["one", "two"]
        assert gemini.most_open == 1
