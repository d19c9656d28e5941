"""The Gemini server of the tests: strict, and the vendor's SDK agrees with it in both directions."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from google import genai
from google.genai import errors, types
from google.genai.live import AsyncSession
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, ConnectionClosedError, InvalidStatus

from live_gateway.content import FunctionDeclaration, FunctionResponse, user_content
from live_gateway.errors import ConfigurationError
from live_gateway.models.gemini_inbound import GeminiInbound
from live_gateway.models.gemini_live import GeminiLiveModel
from live_gateway.models.gemini_options import GeminiOptions
from live_gateway.models.gemini_profile import GeminiProfile
from live_gateway.models.gemini_wire import audio_message, content_messages, setup_message
from live_gateway.models.live import AudioOut, LiveSetup, TextOut, ToolCalls, Transcript, TurnComplete
from live_gateway.testing import gemini_steps as steps
from live_gateway.testing.fake_gemini import FakeGemini
from live_gateway.testing.gemini_client_wire import Unacceptable, parse, sample
from live_gateway.testing.gemini_scripts import SCRIPTS, scripted_gemini, serve_script
from live_gateway.testing.gemini_steps import Step, call, expect_audio, expect_text, expect_tool_response, go_away, handle, hear, say, send
from live_gateway.testing.recording import Recorder, read_recording, record, replay
from tests.support.gemini import brief, connected, gemini_model, kind, notice, take

SETUP = setup_message("models/m", LiveSetup(), GeminiProfile())
LOUD = (b"\x00\x20\x00\xe0" * 320).ljust(1280, b"\x00")
QUIET = bytes(1280)


@asynccontextmanager
async def raw(gemini: FakeGemini) -> AsyncIterator[ClientConnection]:
    """A bare socket whose set-up is complete."""
    url = gemini.base_url.replace("http", "ws", 1) + "/ws/x"
    async with connect(url, compression=None, ping_interval=None) as socket:
        await socket.send(SETUP, text=True)
        assert json.loads(await socket.recv()) == {"setupComplete": {}}
        yield socket


def problems(gemini: FakeGemini) -> str:
    with pytest.raises(AssertionError) as caught:
        gemini.verify()
    return str(caught.value)


# Strict.


async def test_a_step_that_is_left_is_a_problem() -> None:
    with pytest.raises(AssertionError, match="left  expect text 'hello'"):
        async with FakeGemini([expect_text("hello")]) as gemini, raw(gemini):
            pass


async def test_a_script_that_nobody_connects_to_is_a_problem() -> None:
    with pytest.raises(AssertionError, match="1 scripts were never connected to"):
        async with FakeGemini([expect_text("hello")]):
            pass


async def test_a_connection_too_many_is_refused_and_a_problem() -> None:
    async with FakeGemini([], strict=False) as gemini:
        async with raw(gemini):
            with pytest.raises(InvalidStatus):
                async with raw(gemini):
                    pass
        assert "1 more connections were asked for" in problems(gemini)


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (b'{"clientContent": {"turns": [], "turnComplete": true}}', "expected was text 'hello'"),
        (audio_message(b"\x01\x00"), "expected was text 'hello', sent was audio of 2 bytes"),
        (audio_message(b"\x01"), "whole samples"),
        (b'{"realtimeInput": {"audio": {"data": "AAA=", "mimeType": "audio/pcm"}}}', "wanted is audio/pcm;rate=16000"),
        (b'{"realtimeInput": {"audio": {"data": "AAA="}, "text": "x"}}', "exactly one field"),
        (b'{"realtimeInput": {"mediaChunks": []}}', "of kind 'mediaChunks'"),
        (b'{"realtimeInput": {"invented": 1}}', "not as the service wants it"),
        (b'{"invented": {}}', "exactly one of"),
        (b'{"setup": {}, "toolResponse": {}}', "exactly one of"),
        (SETUP, "the set-up comes first, and once"),
        (b'{"toolResponse": {"functionResponses": [{"id": "a", "response": {}}]}}', "has id and name"),
        (b'{"toolResponse": {"functionResponses": [{"id": "a", "name": "f", "response": {}}]}}', "never made"),
        (b"nonsense", "no JSON"),
    ],
)
async def test_what_the_service_or_the_script_does_not_want_closes_with_1007(message: bytes, problem: str) -> None:
    async with FakeGemini([expect_text("hello")], strict=False) as gemini:
        async with raw(gemini) as socket:
            await socket.send(message, text=True)
            with pytest.raises(ConnectionClosedError) as closed:
                await socket.recv()
        assert closed.value.rcvd
        assert closed.value.rcvd.code == 1007
        assert problem in problems(gemini)


@pytest.mark.parametrize(
    "setup",
    [
        {"model": "m", "invented": 1},
        {"model": "m", "realtimeInputConfig": {"invented": 1}},
        {"model": "m", "generationConfig": {"invented": 1}},
        {"model": "m", "realtimeInputConfig": {"automaticActivityDetection": {"prefixPaddingMs": "soon"}}},
    ],
)
def test_a_set_up_with_a_field_that_there_is_not_is_unacceptable(setup: dict[str, Any]) -> None:
    with pytest.raises(Unacceptable):
        parse(json.dumps({"setup": setup}))


async def test_what_is_allowed_may_come_at_any_time() -> None:
    async with (
        FakeGemini([expect_text("hello"), say("hi", ms=40)], allow=["audio"]) as gemini,
        raw(gemini) as socket,
    ):
        for message in (audio_message(b"\x01\x00"), *content_messages(user_content("hello"), GeminiProfile()), audio_message(b"\x02\x00")):
            await socket.send(message, text=True)
        await gemini.played()


async def test_audio_adds_up() -> None:
    async with FakeGemini([expect_audio(ms=100), hear("ok")]) as gemini, raw(gemini) as socket:
        for _ in range(3):
            await socket.send(audio_message(QUIET), text=True)
        await gemini.played()


def test_a_script_ends_with_what_ends_it() -> None:
    with pytest.raises(ValueError, match="only possible as the last step"):
        FakeGemini([steps.close(1000), hear("x")])


@pytest.mark.parametrize("how", ["text", "binary"])
async def test_framing_and_pace(how: Any) -> None:
    async with FakeGemini([steps.framing(how), steps.slow(0.01), hear("a"), hear("b")]) as gemini, raw(gemini) as socket:
        frames = [await socket.recv(), await socket.recv()]
    assert all(isinstance(frame, str if how == "text" else bytes) for frame in frames)


# The SDK as the oracle.


@asynccontextmanager
async def sdk(gemini: FakeGemini, **config: Any) -> AsyncIterator[AsyncSession]:
    """The vendor's own client on this server, by nothing but its base URL."""
    options = types.HttpOptions(base_url=gemini.base_url, async_client_args={"ssl": gemini.client_tls})
    client = genai.Client(api_key="test-key", http_options=options)
    async with client.aio.live.connect(model="m", config=types.LiveConnectConfig(**config)) as session:
        yield session


async def test_the_sdk_talks_to_it() -> None:
    async with FakeGemini(
        [
            expect_text("hello"),
            say("Hi there", ms=80),
            expect_audio(),
            call("f", {"a_b": 1}),
            expect_tool_response("fc-1"),
            handle("h1"),
            go_away(50),
            steps.cancel("fc-1"),
            steps.interrupted(),
            steps.turn_complete(),
            steps.close(1008, "policy"),
        ],
        tls=True,
    ) as gemini:
        got: list[types.LiveServerMessage] = []
        async with sdk(
            gemini, response_modalities=["AUDIO"], tools=[types.Tool(function_declarations=[FunctionDeclaration(name="f")])]
        ) as session:
            await session.send_client_content(turns=user_content("hello"))
            got += [message async for message in session.receive()]
            await session.send_realtime_input(audio=types.Blob(data=QUIET, mime_type="audio/pcm;rate=16000"))
            async for message in session.receive():
                got.append(message)
                if message.tool_call and message.tool_call.function_calls:
                    await session.send_tool_response(
                        function_responses=[
                            FunctionResponse(id=one.id, name=one.name, response={"ok": True}) for one in message.tool_call.function_calls
                        ]
                    )
            with pytest.raises(errors.APIError) as refused:
                _ = [message async for message in session.receive()]
        assert refused.value.code == 1008
    content = [message.server_content for message in got if message.server_content]
    assert "".join(one.output_transcription.text or "" for one in content if one.output_transcription) == "Hi there"
    assert b"".join(message.data for message in got if message.data) == steps.voice(80)
    assert [message.session_resumption_update.new_handle for message in got if message.session_resumption_update] == ["h1"]
    assert [message.go_away.time_left for message in got if message.go_away] == ["50s"]
    assert [message.tool_call_cancellation.ids for message in got if message.tool_call_cancellation] == [["fc-1"]]
    assert any(one.interrupted for one in content)


EVERYTHING: Sequence[Step] = [
    hear("what "),
    say("words", ms=40, complete=False),
    steps.write("text", complete=False),
    call("f", {"a_b": [1, {"x": None}]}),
    steps.content(modelTurn={"parts": [{"executableCode": {"code": "1", "language": "PYTHON"}}]}),
    send({"usageMetadata": {"responseTokenCount": 2, "totalTokenCount": 3}, "voiceActivity": {"voiceActivityType": "ACTIVITY_START"}}),
    steps.turn_complete(),
]


async def test_our_reading_agrees_with_the_sdks() -> None:
    """The same frames, through the SDK's parser and through ours."""
    async with FakeGemini(EVERYTHING, EVERYTHING, tls=True) as gemini:
        async with sdk(gemini) as session:
            theirs = [message async for message in session.receive()]
        model = GeminiLiveModel("m", api_key="k", base_url=gemini.base_url, options=GeminiOptions(tls=gemini.client_tls))
        async with connected(model) as connection:
            ours = await take(connection, kind(TurnComplete))
    heard = [one.server_content.input_transcription.text for one in theirs if one.server_content and one.server_content.input_transcription]
    assert heard == [one.text for one in ours if isinstance(one, Transcript) and one.role == "user"]
    assert [one.data for one in theirs if one.data] == [one.pcm for one in ours if isinstance(one, AudioOut)]
    assert [one.text for one in theirs if one.text] == [one.text for one in ours if isinstance(one, TextOut)]
    called = [found for one in theirs if one.tool_call for found in one.tool_call.function_calls or []]
    assert called == [found for one in ours if isinstance(one, ToolCalls) for found in one.calls]
    assert [one.server_content.turn_complete for one in theirs if one.server_content].count(True) == 1
    kinds = [word for word in brief(ours) if word not in ("AudioOut",)]
    assert kinds == ["in what ", "out words", "text text", "ToolCalls", "ContentOut", "Usage", "SpeechStarted", "TurnComplete"]


async def test_the_sdks_address_and_credentials_are_ours() -> None:
    async with FakeGemini([hear("x")], [hear("x")], tls=True) as gemini:
        async with sdk(gemini):
            pass
        model = GeminiLiveModel("m", api_key="test-key", base_url=gemini.base_url, options=GeminiOptions(tls=gemini.client_tls))
        async with connected(model) as connection:
            await take(connection, kind(Transcript))
        theirs, ours = gemini.connections
    assert theirs.path == ours.path
    assert theirs.headers["x-goog-api-key"] == ours.headers["x-goog-api-key"]
    assert theirs.setup
    assert ours.setup
    assert theirs.setup["model"] == ours.setup["model"]


# The ready-made scripts.


@pytest.mark.parametrize("name", SCRIPTS)
async def test_each_ready_made_script_answers_speech_and_text(name: str) -> None:
    setup = LiveSetup(
        tools=(
            FunctionDeclaration(
                name="move", parameters_json_schema={"type": "object", "properties": {"to": {"enum": ["left"]}}, "required": ["to"]}
            ),
        )
    )
    async with scripted_gemini(name) as gemini:
        async with connected(gemini_model(gemini), setup) as connection:
            for _ in range(10):
                await connection.send_audio(LOUD)
            for _ in range(15):
                await connection.send_audio(QUIET)
            if name == "tools":
                calls = (await take(connection, kind(ToolCalls)))[-1]
                assert isinstance(calls, ToolCalls)
                assert calls.calls[0].args == {"to": "left"}
                await connection.send_tool_responses([FunctionResponse(id=calls.calls[0].id, name="move", response={})])
            if name == "interruption":
                await take(connection, kind(AudioOut))
                await connection.send_audio(LOUD)
            taken = await take(connection, kind(TurnComplete))
            assert ("Interrupted" in brief(taken)) == (name == "interruption")
            assert "AudioOut" in brief(taken) or name == "interruption"
            if name == "rotations":
                await take(connection, notice("upstream_resumed"))
                assert gemini.setups[-1]["sessionResumption"] == {"handle": "fake-2"}
        assert not [problem for one in gemini.connections for problem in one.problems]


async def test_a_script_is_served_until_it_is_stopped() -> None:
    url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(serve_script("talk", ready=url.set_result))
        port = int((await url).rpartition(":")[2])
        async with connected(gemini_model(port=port)) as connection:
            await connection.send_content(user_content("hi"))
            await take(connection, kind(TurnComplete))
        serving.cancel()
    with pytest.raises(ConfigurationError, match="there is no script 'dance'; there are echo, talk"):
        scripted_gemini("dance")


def test_samples_fit_their_schema() -> None:
    schema = {
        "type": "OBJECT",
        "required": ["a", "b", "c", "d", "e"],
        "properties": {
            "a": {"type": "STRING", "enum": ["x", "y"]},
            "b": {"type": "INTEGER"},
            "c": {"type": "BOOLEAN"},
            "d": {"type": "ARRAY"},
            "e": {"type": "STRING"},
            "f": {"type": "NUMBER"},
        },
    }
    assert sample(schema) == {"a": "x", "b": 1, "c": True, "d": [], "e": "example"}


# Recording.

SESSION: Sequence[Step] = [
    expect_text("hello"),
    say("Hi there", ms=200),
    handle("secret-handle"),
    expect_text("do it"),
    call("f"),
    expect_tool_response("fc-1"),
    say("Done", ms=80),
]


async def converse(connection: Any) -> list[str]:
    await connection.send_content(user_content("hello"))
    taken = await take(connection, kind(TurnComplete))
    await connection.send_content(user_content("do it"))
    taken += await take(connection, kind(ToolCalls))
    await connection.send_tool_responses([FunctionResponse(id="fc-1", name="f", response={"x": 1})])
    taken += await take(connection, kind(TurnComplete))
    return brief(taken)


@pytest.mark.parametrize("shorten_ms", [None, 5])
async def test_a_recording_plays_again(tmp_path: Path, shorten_ms: int | None) -> None:
    path = tmp_path / "session.jsonl"
    async with (
        FakeGemini(SESSION) as gemini,
        Recorder(path, upstream=gemini.base_url, shorten_ms=shorten_ms) as recorder,
    ):
        async with connected(gemini_model(port=int(recorder.base_url.rpartition(":")[2]))) as connection:
            said = await converse(connection)
        assert gemini.connections[0].headers["x-goog-api-key"] == "test-key", "the key is passed on"
        await gemini.until(lambda: gemini.connections[0].closed)
    text = path.read_text()
    assert "test-key" not in text
    assert "secret-handle" not in text
    lines = read_recording(path)
    audio = [
        base64.b64decode(part["inlineData"]["data"])
        for line in lines
        if line.get("from") == "model"
        for part in line["frame"].get("serverContent", {}).get("modelTurn", {}).get("parts", [])
    ]
    assert max(map(len, audio)) == (1920 if shorten_ms is None else 240)

    async with (
        FakeGemini(*replay(path)) as again,
        connected(gemini_model(again)) as connection,
    ):
        assert await converse(connection) == said
        await again.played()


async def test_a_recorder_passes_refusals_and_closes_on(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    async with FakeGemini([steps.refuse(403)], [hear("x"), steps.close(1011, "broken")]) as gemini:
        url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        async with asyncio.TaskGroup() as group:
            recording = group.create_task(record(path, upstream=gemini.base_url, ready=url.set_result))
            base = (await url).replace("http", "ws", 1)
            with pytest.raises(InvalidStatus) as refused:
                async with connect(f"{base}/ws/x"):
                    pass
            assert refused.value.response.status_code == 403
            async with connect(f"{base}/ws/x", compression=None) as socket:
                await socket.send(SETUP, text=True)
                frames = [await socket.recv(), await socket.recv()]
                assert "inputTranscription" in str(frames[1])
                with pytest.raises(ConnectionClosed) as closed:
                    await socket.recv()
            assert closed.value.rcvd
            assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1011, "broken")
            recording.cancel()
    assert read_recording(path)[-1]["close"] == 1011
    assert str(replay(path)[0][-1]) == "close 1011"


def test_what_is_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("{}\n")
    with pytest.raises(ConfigurationError, match="no recording of this version"):
        replay(path)
    path.write_text("hello")
    with pytest.raises(ConfigurationError, match="is no recording"):
        replay(path)


def test_a_decoder_reads_what_it_says() -> None:
    decoder = GeminiInbound(GeminiProfile())
    frames = [frame for step in EVERYTHING if isinstance(step, steps.Send) for frame in step.frames]
    for frame in frames:
        assert decoder.decode(json.dumps(frame).encode())
    assert decoder.skipped == 0
