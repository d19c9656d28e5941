"""`WS /run_live` as clients of google-adk use it: a real server, real sockets, a scripted model."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any
from urllib.parse import urlencode

import pytest
from websockets.asyncio.client import connect

from live_gateway.agents.llm import LlmAgent
from live_gateway.models.live import Activity, AudioOut, GenerationComplete, Transcript, TurnComplete
from live_gateway.runner import Runner
from live_gateway.server.app import create_app
from live_gateway.server.live_request import MAX_PCM
from live_gateway.testing import ScriptedLiveModel
from live_gateway.testing.steps import (
    Step,
    call,
    emit,
    expect_activity,
    expect_audio,
    expect_content,
    expect_end_audio,
    expect_image,
    expect_tool_responses,
    hang,
    hear,
    say,
)
from live_gateway.tools.function import FunctionTool
from tests.support.families import scripted, transfer
from tests.support.live_app import CHUNK, app_of, model, runner_of, set_light
from tests.support.run_live import HERE, blob, in_store, talking, text, until
from tests.support.running_server import RunningServer

PNG = base64.b64decode("iVBORw0KGgo=")


# contract: GW-01
async def test_an_open_socket_means_a_stored_session_and_a_connected_model() -> None:
    with model() as scripted:
        runner = runner_of(scripted)
        async with RunningServer(create_app(runner)) as server, talking(server):
            assert len(scripted.connections) == 1
            assert (await in_store(runner)).id == "s-1"


# case: K-GW-04
async def test_a_conversation_in_events() -> None:
    steps: list[Step] = [expect_content("hi"), hear("what was typed"), say("Hello there.", ms=80)]
    with model(*steps) as scripted:
        async with RunningServer(app_of(scripted)) as server, talking(server) as client:
            await client.send(content=text("hi"))
            await client.until("turnComplete")
    events = client.events
    sound = [part["inlineData"] for event in events if "content" in event for part in event["content"]["parts"] if "inlineData" in part]
    assert {piece["mimeType"] for piece in sound} == {"audio/pcm;rate=24000"}
    assert sum(len(base64.urlsafe_b64decode(piece["data"])) for piece in sound) == 80 * 48
    spoken = [event for event in events if "outputTranscription" in event]
    assert spoken[-1]["outputTranscription"] == {"text": "Hello there.", "finished": True}
    assert "partial" not in spoken[-1]
    assert all(event["partial"] is True and "seq" not in event for event in spoken[:-1])
    assert len({event["invocationId"] for event in events}) == 1
    assert events[-1]["actions"] == {"stateDelta": {}, "artifactDelta": {}, "requestedAuthConfigs": {}, "requestedToolConfirmations": {}}


# report: C10
@pytest.mark.parametrize(("query", "wanted"), [({}, "-__-_w=="), ({"base64": "std"}, "+//+/w==")])
async def test_audio_in_both_alphabets(query: dict[str, str], wanted: str) -> None:
    voice = b"\xfb\xff\xfe\xff"
    with model(expect_content("hi"), emit(AudioOut(voice), GenerationComplete(), TurnComplete())) as scripted:
        async with RunningServer(app_of(scripted)) as server, talking(server, **query) as client:
            await client.send(content=text("hi"))
            event = await client.until("content")
    assert event["content"] == {"role": "model", "parts": [{"inlineData": {"data": wanted, "mimeType": "audio/pcm;rate=24000"}}]}


# contract: GW-02
# report: C12
async def test_tool_events_come_in_held_order_with_the_numbers_of_the_store() -> None:
    steps: list[Step] = [
        expect_content("light on"),
        emit(Transcript("model", "I switch")),
        call("set_light", {"on": True}),
        expect_tool_responses("fc-1"),
        emit(Transcript("user", "light on", finished=True), Transcript("model", "I switch it on.", finished=True, replaces=True)),
        emit(GenerationComplete(), TurnComplete()),
    ]
    with model(*steps) as scripted:
        runner = runner_of(scripted)
        async with RunningServer(create_app(runner)) as server, talking(server) as client:
            await client.send(content=text("light on"))
            await client.until("turnComplete")
        stored = (await in_store(runner)).events
    shown = [event for event in client.events if "seq" in event]
    assert [event["id"] for event in shown] == [event.id for event in stored if event.author != "user" or event.content is None]
    kinds = [kind for event in shown for kind in ("inputTranscription", "outputTranscription") if kind in event]
    calls = [kind for event in shown for part in event.get("content", {}).get("parts", ()) for kind in part if kind.startswith("function")]
    assert kinds == ["inputTranscription", "outputTranscription"]
    assert calls == ["functionCall", "functionResponse"]
    first_call = next(index for index, event in enumerate(shown) if "content" in event)
    assert first_call > max(index for index, event in enumerate(shown) if "outputTranscription" in event)


# case: K-GW-01
@pytest.mark.parametrize("camel", [False, True])
async def test_parameters_in_both_spellings(camel: bool) -> None:
    names = {
        "app_name": "appName",
        "user_id": "userId",
        "session_id": "sessionId",
        "proactive_audio": "proactiveAudio",
        "enable_affective_dialog": "enableAffectiveDialog",
        "enable_session_resumption": "enableSessionResumption",
    }
    values = HERE | {"proactive_audio": "true", "enable_affective_dialog": "1", "enable_session_resumption": "false"}
    query = {(names[name] if camel else name): value for name, value in values.items()}
    with model() as scripted:
        async with RunningServer(app_of(scripted)) as server:
            address = f"{server.url.replace('http', 'ws', 1)}/run_live?{urlencode(query)}&modalities=text"
            async with connect(address):
                setup = scripted.setups[0]
    assert (setup.modality, setup.proactivity, setup.affective_dialog, setup.session_resumption.enabled) == ("TEXT", True, True, False)


async def test_the_voice_is_what_several_modalities_mean_and_none() -> None:
    with ScriptedLiveModel([], [], allow={"audio"}) as scripted:
        async with RunningServer(app_of(scripted)) as server:
            async with talking(server, modalities=["TEXT", "AUDIO"]):
                pass
            async with talking(server):
                pass
    assert [setup.modality for setup in scripted.setups] == ["AUDIO", "AUDIO"]


# report: A43, A44
# case: K-GW-06
async def test_audio_in_every_form_arrives_as_16_khz_pcm() -> None:
    pcm = b"\xfb\xff\xfe\xff" * 160
    url_safe = {"mimeType": "audio/pcm", "data": base64.urlsafe_b64encode(pcm).decode().rstrip("=")}
    with model(expect_audio(ms=80), hear("all of it")) as scripted:
        async with RunningServer(app_of(scripted)) as server, talking(server) as client:
            await client.send(blob=blob(pcm))
            await client.send(blob=url_safe)
            await client.send(blob=blob(pcm, "audio/pcm; rate=16000"))
            await client.socket.send(pcm)
            await client.until("inputTranscription")
        assert scripted.connections[0].audio == pcm * 4


# report: C04, A43, A44, A45
@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (b"\x00" * 641, "bad_audio_frame"),
        (b"", "bad_audio_frame"),
        (b"\x00" * (MAX_PCM + 2), "bad_audio_frame"),
        ({"blob": blob(b"\x00" * 641)}, "bad_audio_frame"),
        ({"blob": {"mime_type": "audio/pcm", "data": ""}}, "bad_audio_frame"),
        ({"blob": blob(b"RIFF\x24\x00\x00\x00WAVEfmt ")}, "bad_audio_frame"),
        ({"blob": blob(CHUNK, "audio/pcm;rate=48000")}, "bad_audio_frame"),
        ({"blob": blob(CHUNK, "audio/wav")}, "content_refused"),
        ({"blob": blob(b"PK", "application/zip")}, "content_refused"),
        ({"blob": {"mime_type": "audio/pcm", "data": "*"}}, "bad_message"),
        ({"blob": {"data": "*"}}, "bad_message"),
        ({"blob": 7}, "bad_message"),
        ({"content": {"parts": [{"inlineData": {"mimeType": "application/zip", "data": "UEs="}}]}}, "content_refused"),
    ],
    ids=str,
)
async def test_bad_audio_is_refused_and_the_session_goes_on(bad: bytes | dict[str, Any], code: str) -> None:
    with model(expect_content("still there?"), say("Yes.")) as scripted:
        async with RunningServer(app_of(scripted)) as server, talking(server) as client:
            await client.socket.send(bad if isinstance(bad, bytes) else json.dumps(bad))
            refusal = await client.error(code)
            assert refusal["customMetadata"]["error"]["fatal"] is False
            await client.send(content=text("still there?"))
            await client.until("turnComplete")
        assert scripted.connections[0].audio == b""


# report: C01
async def test_what_is_no_json_is_answered_and_the_next_frame_is_read() -> None:
    scripted = model(expect_content("hi"), say("Hello."), hang())
    app = app_of(scripted)
    async with RunningServer(app) as server:
        async with talking(server) as client:
            for bad in ("not json", "[]", "{}", '{"content": {}}', "[" * 100_000, '{"state_delta": 1}'):
                await client.socket.send(bad)
                await client.error("bad_message")
            await client.send(content=text("hi"))
            await client.until("turnComplete")
        await until(lambda: not app.state.gateway.sockets, 1.0)


# report: C08
@pytest.mark.parametrize("frame", [{"activtyStart": {}}, {"type": "hello", "v": 1}])
async def test_a_frame_with_unknown_keys_alone_is_answered_with_the_known_ones(frame: dict[str, Any]) -> None:
    with model() as scripted:
        async with RunningServer(app_of(scripted)) as server, talking(server) as client:
            await client.send(**frame)
            refusal = await client.error("bad_message")
    assert all(key in refusal["errorMessage"] for key in ("content", "blob", "activity_start", "activity_end", "audio_stream_end", "close"))


# case: K-GW-06
# report: C08
@pytest.mark.parametrize(
    "spelling", [("activity_start", "activity_end", "audio_stream_end"), ("activityStart", "activityEnd", "audioStreamEnd")]
)
async def test_activity_in_both_spellings(spelling: tuple[str, str, str]) -> None:
    begins, ends, silent = spelling
    steps: list[Step] = [
        expect_activity(Activity.START),
        expect_audio(CHUNK),
        expect_activity(Activity.END),
        expect_end_audio(),
        hear("well"),
    ]
    with ScriptedLiveModel(steps) as scripted:
        async with RunningServer(app_of(scripted)) as server, talking(server) as client:
            await client.send(**{begins: {}})
            await client.send(blob=blob(CHUNK))
            await client.send(**{ends: {}})
            await client.send(**{silent: True})
            await client.until("inputTranscription")


# case: K-GW-06
async def test_of_several_realtime_fields_one_counts_and_a_content_goes_first() -> None:
    steps: list[Step] = [
        expect_content("look"),
        expect_activity(Activity.START),
        expect_activity(Activity.END),
        expect_end_audio(),
        hear("well"),
    ]
    with ScriptedLiveModel(steps) as scripted:
        async with RunningServer(app_of(scripted)) as server, talking(server) as client:
            both = {"activity_end": {}, "blob": blob(CHUNK)}
            await client.send(activity_start={}, content=text("look"), **both)
            await until(lambda: [sent.kind for sent in scripted.connections[0].sent][-1:] == ["activity"])
            await client.send(audio_stream_end=True, **both)
            await client.send(audio_stream_end=True, blob=blob(CHUNK))
            await client.until("inputTranscription")


async def test_images_alone_and_in_a_message() -> None:
    def two_parts(content: Any) -> bool:
        return [part.text or part.inline_data.data for part in content.parts] == [PNG, "what is this"]

    with model(expect_image("image/png"), expect_content(check=two_parts), say("A picture.")) as scripted:
        async with RunningServer(app_of(scripted)) as server, talking(server) as client:
            await client.send(blob=blob(PNG, "image/png"))
            await until(lambda: scripted.connections[0].sent)
            await client.send(content={"parts": [{"inlineData": blob(PNG, "image/png")}, {"text": "what is this"}]})
            await client.until("turnComplete")


async def test_a_state_delta_is_stored_before_the_content_beside_it() -> None:
    with model(expect_content("hi"), say("Hello.")) as scripted:
        runner = runner_of(scripted)
        async with RunningServer(create_app(runner)) as server, talking(server) as client:
            await client.send(stateDelta={"city": "Oslo"}, content=text("hi"))
            await client.until("turnComplete")
        session = await in_store(runner)
    assert session.state["city"] == "Oslo"
    assert session.events[0].actions.state_delta == {"city": "Oslo"}
    assert session.events[1].text == "hi"


# contract: HITL-07
# report: C07
@pytest.mark.parametrize(
    ("part", "code"),
    [
        ({"functionResponse": {"id": "fc-9", "name": "set_light", "response": {"on": True}}}, "tool_response_not_expected"),
        ({"functionCall": {"id": "fc-9", "name": "set_light", "args": {}}}, "content_refused"),
        ({"fileData": {"fileUri": "file:///etc/passwd", "mimeType": "text/plain"}}, "content_refused"),
    ],
)
async def test_a_content_that_is_not_the_clients_to_send(part: dict[str, Any], code: str) -> None:
    with model() as scripted:
        runner = runner_of(scripted)
        async with RunningServer(create_app(runner)) as server, talking(server) as client:
            async with asyncio.timeout(0.5):
                await client.send(content={"role": "model", "parts": [part]})
                await client.error(code)
        assert (await in_store(runner)).events == []
        assert scripted.connections[0].sent == []


# contract: HITL-07
async def test_an_answer_to_a_call_that_waits_is_taken_once() -> None:
    def ask_boss(question: str) -> None:
        """Ask the boss."""

    steps: list[Step] = [call("ask_boss", {"question": "may I?"}), expect_tool_responses("fc-1"), say("You may.")]
    with model(*steps) as scripted:
        agent = LlmAgent(name="assistant", live_model=scripted, tools=[set_light, FunctionTool(ask_boss, long_running=True)])
        answer = {"parts": [{"functionResponse": {"id": "fc-1", "name": "ask_boss", "response": {"answer": "yes"}}}]}
        async with RunningServer(create_app(Runner.in_memory("demo", agent))) as server, talking(server) as client:
            asked = await client.until("longRunningToolIds")
            assert asked["longRunningToolIds"] == ["fc-1"]
            await client.send(content=answer)
            await client.send(content=answer)
            await client.error("tool_response_not_expected")


# contract: LIVE-21
async def test_after_a_transfer_sound_and_events_are_those_of_the_next_agent() -> None:
    bills = scripted("bills", [say("Three.", ms=80), hang()])
    root = scripted("root", [say("I ask.", ms=80, complete=False), *transfer("bills")], sub_agents=[bills])
    async with RunningServer(create_app(Runner.in_memory("demo", root))) as server, talking(server) as client:
        await client.until("turnComplete")
    sound = [event["author"] for event in client.events if "content" in event and "inlineData" in event["content"]["parts"][0]]
    assert list(dict.fromkeys(sound)) == ["root", "bills"]
    notices = [event["customMetadata"]["notice"] for event in client.events if "notice" in event.get("customMetadata", {})]
    assert notices == [{"level": "info", "code": "agent_changed", "params": {"from": "root", "to": "bills"}}]
