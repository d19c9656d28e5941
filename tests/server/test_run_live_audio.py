"""What `WS /run_live` keeps of what was said, and what it says of it: a real server, real sockets."""

from __future__ import annotations

import asyncio
import io
import threading
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from live_gateway.agents.llm import LlmAgent
from live_gateway.events import Event
from live_gateway.models.live import AudioOut, GenerationComplete, LiveModel, TurnComplete
from live_gateway.runner import Runner
from live_gateway.server.app import create_app
from live_gateway.server.gateway import ServerConfig
from live_gateway.server.live_request import LiveRequest, parse_request
from live_gateway.testing import ScriptedLiveModel
from live_gateway.testing import gemini_steps as gemini
from live_gateway.testing.fake_gemini import FakeGemini
from live_gateway.testing.steps import Step, emit, expect_audio, expect_content, expect_image, hang, say
from tests.support.gemini import gemini_model
from tests.support.live_app import CHUNK, model, runner_of
from tests.support.run_live import blob, in_store, talking, text, until
from tests.support.running_server import RunningServer

VOICE = b"\x03\x00" * 960


def on(live_model: LiveModel) -> Runner:
    return Runner.in_memory("demo", LlmAgent(name="assistant", live_model=live_model))


async def kept(runner: Runner) -> list[tuple[str, str, int, bytes]]:
    """Author, MIME type, rate and samples of each artifact that an event refers to, in order."""
    return [await loaded(runner, event) for event in (await in_store(runner)).events if event.actions.artifact_delta]


async def loaded(runner: Runner, event: Event) -> tuple[str, str, int, bytes]:
    assert runner.artifact_service is not None
    ((name, version),) = event.actions.artifact_delta.items()
    part = await runner.artifact_service.load(app_name="demo", user_id="ada", session_id="s-1", name=name, version=version)
    assert part is not None
    assert part.inline_data is not None
    with wave.open(io.BytesIO(part.inline_data.data or b"")) as read:
        return event.author, part.inline_data.mime_type or "", read.getframerate(), read.readframes(read.getnframes())


# contract: LIVE-20
# case: K-LAUD-05, K-LAUD-06
async def test_save_live_blob_keeps_both_sides_each_at_its_own_rate() -> None:
    steps: list[Step] = [expect_audio(CHUNK), expect_audio(CHUNK), emit(AudioOut(VOICE), GenerationComplete(), TurnComplete()), hang()]
    with ScriptedLiveModel(steps) as scripted:
        runner = on(scripted)
        async with RunningServer(create_app(runner)) as server, talking(server, saveLiveBlob="true") as client:
            await client.send(blob=blob(CHUNK))
            await client.send(blob={"mime_type": "", "data": blob(CHUNK)["data"]})
            first = await client.until("turnComplete")
            shown = [first, await client.next(), await client.next()]
    user, agent = await kept(runner)
    assert user == ("user", "audio/wav", 16_000, CHUNK * 2)
    assert agent == ("assistant", "audio/wav", 24_000, VOICE)
    references = [event for event in shown if event["actions"]["artifactDelta"]]
    assert [event["content"]["parts"][0]["fileData"]["mimeType"] for event in references] == ["audio/wav", "audio/wav"]


# contract: LIVE-20
# case: K-LAUD-05
@pytest.mark.parametrize("mime_type", [{}, {"mime_type": ""}, {"mimeType": None}])
async def test_a_blob_that_names_no_kind_is_audio(mime_type: dict[str, Any]) -> None:
    with model(expect_audio(CHUNK), say("Yes.")) as scripted:
        async with RunningServer(create_app(runner_of(scripted))) as server, talking(server) as client:
            await client.send(blob={"data": blob(CHUNK)["data"], **mime_type})
            await client.until("turnComplete")
        assert scripted.connections[0].audio == CHUNK


# contract: LIVE-20
# case: K-LAUD-06
async def test_audio_of_another_kind_is_refused_and_not_kept_as_what_it_is_not() -> None:
    with model(expect_content("hi"), say("Yes.", ms=0), hang()) as scripted:
        runner = on(scripted)
        async with RunningServer(create_app(runner)) as server, talking(server, save_live_blob="true") as client:
            await client.send(blob=blob(b"ID3" + bytes(100), "audio/mp3"))
            assert (await client.error("content_refused"))["customMetadata"]["error"]["fatal"] is False
            await client.send(content=text("hi"))
            await client.until("turnComplete")
    assert [author for author, *_ in await kept(runner) if author == "user"] == []


# contract: LIVE-20
# report: C15
async def test_a_client_that_leaves_within_a_turn_leaves_what_was_said_kept_once() -> None:
    with model(expect_audio(CHUNK), emit(AudioOut(VOICE)), hang()) as scripted:
        runner = on(scripted)
        async with RunningServer(create_app(runner)) as server, talking(server, save_live_blob="true") as client:
            await client.send(blob=blob(CHUNK))
            await client.until("content")
        assert await kept(runner) == [("user", "audio/wav", 16_000, CHUNK), ("assistant", "audio/wav", 24_000, VOICE)]


# contract: LIVE-20
# report: C14
async def test_nothing_is_kept_that_was_not_asked_for() -> None:
    with model(expect_audio(CHUNK), emit(AudioOut(VOICE), TurnComplete()), hang()) as scripted:
        runner = on(scripted)
        async with RunningServer(create_app(runner)) as server, talking(server) as client:
            await client.send(blob=blob(CHUNK))
            await client.until("turnComplete")
        assert await kept(runner) == []


async def test_a_piece_of_a_message_is_refused_with_the_reason() -> None:
    with model(expect_content("hi"), say("Hello.")) as scripted:
        async with RunningServer(create_app(runner_of(scripted))) as server, talking(server) as client:
            await client.send(content=text("h"), partial=True)
            assert "Send it whole" in (await client.error("not_supported"))["errorMessage"]
            await client.send(content=text("hi"), partial=False)
            await client.until("turnComplete")


# contract: LIVE-19
# report: C13
async def test_a_model_that_is_resumed_is_not_told_the_history_again() -> None:
    gate = asyncio.Event()
    async with FakeGemini(
        [gemini.expect_text("hi"), gemini.say("Hello."), gemini.handle("h1"), gemini.wait(gate), gemini.drop("rst")],
        [gemini.expect_setup(sessionResumption__handle="h1"), gemini.ready(), gemini.expect_text("again"), gemini.say("Yes.")],
    ) as fake:
        async with RunningServer(create_app(on(gemini_model(fake)))) as server, talking(server) as client:
            await client.send(content=text("hi"))
            await client.until("turnComplete")
            gate.set()
            await until(lambda: len(fake.connections) == 2 and fake.connections[1].setup is not None, 5)
            await client.send(content=text("again"))
            await client.until("turnComplete")
        _, *told = fake.connections[1].sent
    assert "hi" not in str(told)
    assert "Hello." not in str(told)
    assert len(told) == 1


# report: C11
async def test_a_silent_socket_is_kept_open_by_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("live_gateway.server.run.PING_S", 0.05)
    hold = asyncio.Event()
    with model(expect_content("hi"), say("Yes.")) as scripted:
        async with RunningServer(create_app(runner_of(scripted))) as server, talking(server) as client:
            pinged = client.socket.protocol.recv_frame

            def counted(frame: Any) -> None:
                if frame.opcode.name == "PING":
                    hold.set()
                pinged(frame)

            monkeypatch.setattr(client.socket.protocol, "recv_frame", counted)
            async with asyncio.timeout(5):
                await hold.wait()
            await client.send(content=text("hi"))
            await client.until("turnComplete")


async def test_a_large_frame_is_parsed_beside_the_loop_and_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    image, small = b"\xff\xd8\xff" + np.random.default_rng(1).bytes(2 * 2**20 - 3), b"\xff\xd8\xff"
    in_loop: list[bool] = []

    def noting(frame: str) -> LiveRequest:
        in_loop.append(threading.get_ident() == here)
        return parse_request(frame)

    here = threading.get_ident()
    monkeypatch.setattr("live_gateway.server.run_live.parse_request", noting)
    images = [expect_image("image/jpeg") for _ in range(3)]
    with model(*images, expect_content("seen?"), say("Yes.")) as scripted:
        async with RunningServer(create_app(runner_of(scripted))) as server, talking(server) as client:
            for data in (image, small, image):
                await client.send(blob=blob(data, "image/jpeg"))
            await until(lambda: len(scripted.connections[0].sent) == 3, 10)
            await client.send(content=text("seen?"))
            await client.until("turnComplete")
        assert [sent.value[0] for sent in scripted.connections[0].sent[:3]] == [image, small, image]
    assert in_loop == [False, True, False, True]


async def test_a_server_records_its_calls(tmp_path: Path) -> None:
    question = np.random.default_rng(1).integers(-8000, 8000, 16_000).astype("<i2").tobytes()
    answer = np.random.default_rng(2).integers(-8000, 8000, 12_000).astype("<i2").tobytes()
    with model(expect_audio(question), emit(AudioOut(answer), GenerationComplete(), TurnComplete()), hang()) as scripted:
        runner = on(scripted)
        app = create_app(runner, ServerConfig(record_calls=tmp_path))
        async with RunningServer(app) as server, talking(server) as client:
            await client.send(blob=blob(question))
            await client.until("turnComplete")
            await asyncio.sleep(0.6)  # the answer plays
            await client.send(close=True)
            assert (await client.closed())[0] == 1000
        (event, *_) = (await in_store(runner)).events
    (path,) = tmp_path.iterdir()
    assert path.name == f"s-1_{event.invocation_id}.wav"
    samples, _ = soundfile.read(path, dtype="int16")
    (spoken,) = np.flatnonzero(samples[:, 1])[:1]
    assert samples[spoken : spoken + 12_000, 1].tobytes() == answer
    asked = samples[: 3 * 8000 : 3, 0].astype(float)
    assert np.corrcoef(asked, np.frombuffer(question, "<i2")[::2])[0, 1] > 0.8
