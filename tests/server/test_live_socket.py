"""`WS /live` against the real runner and a scripted model, on virtual time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from live_gateway.agents.llm import LlmAgent
from live_gateway.errors import UpstreamLost, UpstreamPolicy
from live_gateway.models.live import Activity, ConnectionNotice
from live_gateway.runner import Runner
from live_gateway.server.app import create_app
from live_gateway.server.gateway import ServerConfig
from live_gateway.server.wire import SERVER_KINDS, Codec, Flag, Frame, Kind, pack_frame, unpack_frame
from live_gateway.sessions.memory import InMemorySessionService
from live_gateway.testing.scripted_live import ScriptedLiveModel
from live_gateway.testing.sessions import FaultySessionService
from live_gateway.testing.steps import (
    Step,
    call,
    delay,
    emit,
    expect_activity,
    expect_audio,
    expect_content,
    expect_end_audio,
    expect_image,
    expect_interrupt,
    expect_tool_responses,
    fail,
    hear,
    on_connect,
    pause,
    refuse,
    say,
    wait,
)
from tests.support.asgi_client import AsgiClient
from tests.support.live_app import CHUNK, FINAL, app_of, content, model, runner_of, welcomed

pytestmark = pytest.mark.virtual_time


# contract: GW-01, LIVE-27
# case: K-GW-04
async def test_typed_message_is_acknowledged_shown_and_answered_in_order() -> None:
    with model(expect_content("hello"), say("Hi there!", ms=80)) as scripted:
        app = app_of(scripted)
        async with AsgiClient(app, subprotocols=["live-gateway.v1"]) as client:
            assert client.subprotocol == "live-gateway.v1"
            welcome = await welcomed(client)
            assert welcome["session"]
            assert (welcome["model"], welcome["input_hz"], welcome["output_hz"]) == ("scripted-live", 16000, 24000)
            client.say("content", **content("m-1", "hello"))
            frames = await client.until_all({"type": "ack"}, FINAL)
            messages = [frame for frame in frames if isinstance(frame, dict)]
            typed = next(message for message in messages if message["type"] == "transcript" and message["role"] == "user")
            assert (typed["role"], typed["source"], typed["text"], typed["seq"]) == ("user", "typed", "hello", 1)
            acked = next(message for message in messages if message["type"] == "ack")
            assert acked == {"type": "ack", "message_id": "m-1", "state": "persisted", "seq": 1, "retry": "never"}
            audio = [unpack_frame(frame, SERVER_KINDS) for frame in frames if isinstance(frame, bytes)]
            assert [frame.frame_no for frame in audio] == list(range(len(audio)))
            assert sum(len(frame.payload) for frame in audio) == 2 * 24 * 80
            assert [frame.pos for frame in audio] == [0, 960]
            final = next(message for message in messages if message.get("final") and message["role"] == "model")
            assert final["text"] == "Hi there!"
            assert final["seq"] > typed["seq"]


# contract: GW-01
async def test_session_is_stored_and_model_connected_though_the_client_says_nothing_more() -> None:
    with model() as scripted:
        runner = runner_of(scripted)
        async with AsgiClient(create_app(runner)) as client:
            welcome = await welcomed(client, user="ada")
            session = await runner.session_service.get(app_name="demo", user_id="ada", session_id=welcome["session"])
            assert session.id == welcome["session"]
            assert len(scripted.connections) == 1


# contract: GW-01
async def test_welcome_waits_for_the_model_and_says_what_it_waits_for() -> None:
    gate = asyncio.Event()
    with model(on_connect(emit(ConnectionNotice("loading_voice")), wait(gate))) as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            client.say("hello", v=1, pending=["m-7"])
            client.say("ping", t0=1)
            frames = await client.until_all({"type": "notice", "code": "loading_voice"}, {"type": "pong"})
            assert len(frames) == 2
            gate.set()
            welcome = await client.until("welcome")
            assert welcome["acks"] == [{"type": "ack", "message_id": "m-7", "state": "unknown", "retry": "ask"}]


# case: K-GW-20
async def test_hello_config_reaches_the_model() -> None:
    with model() as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            config = {"modalities": ["TEXT"], "voice": "Kore", "vad": {"silence_ms": 800}, "transcription": {"input": False}}
            await welcomed(client, input="ptt", lang="en", config=config)
    setup = scripted.setups[0]
    assert (setup.modality, setup.voice, setup.language) == ("TEXT", "Kore", "en")
    assert setup.voice_activity.automatic is False
    assert setup.voice_activity.silence_duration_ms == 800
    assert setup.voice_activity.prefix_padding_ms == 300
    assert (setup.input_transcription, setup.output_transcription) == (False, True)


# contract: GW-01
# report: C06
@pytest.mark.parametrize(
    ("hello", "code", "word"),
    [
        ({"v": 2}, 4512, "version_unsupported"),
        ({"v": 1, "app": "other"}, 4504, "session_not_found"),
        ({"v": 1, "session": "../../etc/passwd"}, 4500, "bad_message"),
        ({"v": 1, "user": "a b"}, 4500, "bad_message"),
        ({}, 4500, "bad_message"),
    ],
)
async def test_hello_that_cannot_be_accepted(hello: dict[str, Any], code: int, word: str) -> None:
    app = app_of(ScriptedLiveModel())
    async with AsgiClient(app) as client:
        client.say("hello", **hello)
        frames, closed = await client.rest()
    assert [frame["code"] for frame in frames] == [word]  # type: ignore[call-overload]
    assert frames[0]["fatal"] is True  # type: ignore[call-overload]
    assert (closed.code, closed.reason) == (code, word)


async def test_unknown_session_where_sessions_are_not_made() -> None:
    made = runner_of(ScriptedLiveModel())
    runner = Runner(app_name="demo", agent=made.agent, session_service=made.session_service)
    async with AsgiClient(create_app(runner)) as client:
        client.say("hello", v=1, session="s-404")
        frames, closed = await client.rest()
    assert len(frames) == 1
    assert (closed.code, closed.reason) == (4504, "session_not_found")


# contract: GW-01
@pytest.mark.parametrize(
    ("error", "code", "word"),
    [(UpstreamPolicy("no such model"), 4510, "upstream_policy"), (ValueError("secret words"), 1011, "internal")],
)
async def test_failure_before_welcome_is_one_error_frame_and_a_close_code(error: Exception, code: int, word: str) -> None:
    with model(on_connect(fail(error))) as scripted:
        app = app_of(scripted)
        async with AsgiClient(app) as client:
            client.say("hello", v=1)
            frames, closed = await client.rest()
            await client.finished.wait()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            assert not others
    assert len(frames) == 1
    assert "secret" not in json.dumps(frames)
    assert (closed.code, closed.reason) == (code, word)


async def test_setup_has_a_limit() -> None:
    with model(on_connect(pause(100))) as scripted:
        async with AsgiClient(app_of(scripted, ServerConfig(setup_s=20))) as client:
            began = asyncio.get_running_loop().time()
            client.say("hello", v=1)
            _, closed = await client.rest()
            assert asyncio.get_running_loop().time() - began == pytest.approx(20, abs=1)
    assert (closed.code, closed.reason) == (4007, "setup_timeout")


async def test_hello_is_due_in_ten_seconds() -> None:
    began = asyncio.get_running_loop().time()
    async with AsgiClient(app_of(ScriptedLiveModel())) as client:
        frames, closed = await client.rest()
    assert asyncio.get_running_loop().time() - began == pytest.approx(10, abs=0.5)
    assert [frame["code"] for frame in frames] == ["setup_timeout"]  # type: ignore[call-overload]
    assert closed.code == 4007


BAD = [
    pytest.param("not json", "bad_message", id="no JSON"),
    pytest.param("[1]", "bad_message", id="an array"),
    pytest.param('{"type":"shout"}', "bad_message", id="unknown type"),
    pytest.param('{"type":"ping","t0":NaN}', "bad_message", id="NaN"),
    pytest.param("[" * 100_000, "bad_message", id="depth 100,000"),
    pytest.param(b"", "bad_message", id="empty frame"),
    pytest.param(pack_frame(Frame(Kind.AUDIO_UP, Flag.NONE, Codec.PCM16, 1, 0, 0, 0.0, b"\0\0\0")), "bad_audio_frame", id="odd length"),
    pytest.param(pack_frame(Frame(Kind.AUDIO_UP, Flag.NONE, Codec.PCM16, 1, 0, 0, 0.0, bytes(102_400))), "bad_audio_frame", id="100 KB"),
    pytest.param(b"\x02" + CHUNK, "bad_audio_frame", id="wrong version"),
    pytest.param(b"\x01\x09" + CHUNK, "bad_message", id="unknown kind"),
]


# report: C01, C07
@pytest.mark.parametrize(("bad", "code"), BAD)
@pytest.mark.parametrize("phase", ["before hello", "live"])
async def test_bad_input_is_answered_and_skipped(bad: str | bytes, code: str, phase: str) -> None:
    with model(expect_content("hello"), say("Hi.")) as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            if phase == "live":
                await welcomed(client)
            if isinstance(bad, str):
                client.text(bad)
            else:
                client.data(bad)
            answer = await client.until("error")
            assert (answer["code"], answer["fatal"]) == (code, False)
            if phase == "before hello":
                await welcomed(client)
            client.say("content", **content("m-1", "hello"))
            await client.until_all({"type": "ack", "state": "persisted"}, FINAL | {"text": "Hi."})


# case: K-GW-15
@pytest.mark.parametrize("phase", ["before hello", "live"])
async def test_a_frame_of_a_megabyte_closes_with_1009(phase: str) -> None:
    with ScriptedLiveModel(*[[]] * (phase == "live")) as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            if phase == "live":
                await welcomed(client)
            client.data(bytes(1_000_000))
            _, closed = await client.rest()
    assert (closed.code, closed.reason) == (1009, "message_too_big")


async def test_audio_before_hello_is_refused() -> None:
    with model(allow=()) as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            client.audio(CHUNK)
            assert (await client.until("error"))["code"] == "bad_message"
            await welcomed(client)
    assert scripted.connection.audio == b""


async def test_audio_between_hello_and_welcome_is_kept() -> None:
    gate = asyncio.Event()
    with model(on_connect(wait(gate)), expect_audio(ms=4000), say("Heard.")) as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            client.say("hello", v=1)
            for number in range(100):
                client.audio(number.to_bytes(2, "little") * 640, pos=number * 640)
            client.say("input.end")
            await asyncio.sleep(0.1)
            gate.set()
            await client.until("transcript", role="model", final=True)
    audio = scripted.connection.audio
    assert [int.from_bytes(audio[at : at + 2], "little") for at in range(0, len(audio), 1280)] == list(range(100))


async def test_more_than_ten_seconds_of_early_audio_lose_the_oldest_and_say_so() -> None:
    gate = asyncio.Event()
    with model(on_connect(wait(gate))) as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            client.say("hello", v=1)
            for number in range(300):
                client.audio(CHUNK, pos=number * 640)
                await asyncio.sleep(0.04)
            gate.set()
            gap = await client.until("notice", code="audio_gap")
            assert gap["params"] == {"direction": "up", "dropped_ms": 2000}
            assert len(scripted.connection.audio) == 2 * 10 * 16_000


async def test_uplink_is_acknowledged_every_half_second() -> None:
    with model() as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            await welcomed(client)
            for number in range(25):
                client.audio(CHUNK, pos=number * 640, stream=3)
                await asyncio.sleep(0.04)
            acks = [await client.until("input.ack"), await client.until("input.ack")]
    assert [frame["stream"] for frame in acks] == [3, 3]
    assert acks[0]["pos"] == pytest.approx(8000, abs=1280)
    assert acks[1]["pos"] == pytest.approx(16000, abs=1280)


async def test_muted_for_a_second_ends_the_audio_and_drops_what_still_comes() -> None:
    with model(expect_audio(CHUNK), expect_end_audio(), expect_audio(CHUNK), allow=()) as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            await welcomed(client)
            client.audio(CHUNK)
            client.say("input.mute", muted=True)
            client.audio(b"\x02\x00" * 640)
            await asyncio.sleep(0.5)
            assert [sent.kind for sent in scripted.connection.sent] == ["audio"]
            await asyncio.sleep(0.6)
            assert [sent.kind for sent in scripted.connection.sent] == ["audio", "end_audio"]
            client.say("input.mute", muted=False)
            client.audio(CHUNK)
            await asyncio.sleep(0.1)


async def test_unmuting_within_a_second_ends_nothing() -> None:
    with model(allow=()) as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            await welcomed(client)
            client.say("input.mute", muted=True)
            await asyncio.sleep(0.9)
            client.say("input.mute", muted=False)
            await asyncio.sleep(2)
    assert scripted.connection.sent == []


# case: K-GW-06
async def test_push_to_talk() -> None:
    steps: list[Step] = [expect_activity(Activity.START), expect_audio(CHUNK), expect_activity(Activity.END), say("Yes?")]
    with model(*steps, allow=()) as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            await welcomed(client, input="ptt")
            client.say("input.activity", event="start")
            await asyncio.sleep(0.01)
            client.audio(CHUNK)
            await asyncio.sleep(0.01)
            client.say("input.activity", event="end")
            await client.until("transcript", role="model", final=True)


async def test_the_end_of_a_capture_and_of_the_input_end_the_audio() -> None:
    with model(expect_audio(CHUNK), expect_end_audio(), expect_end_audio(), allow=()) as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            await welcomed(client)
            client.audio(CHUNK, flags=Flag.END)
            client.say("input.end")
            await asyncio.sleep(0.1)


async def test_an_image_in_pieces() -> None:
    with model(expect_image("image/jpeg")) as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            await welcomed(client)
            client.data(pack_frame(Frame(Kind.IMAGE_UP, Flag.START, Codec.JPEG, 1, 0, 0, 0.0, b"abc")))
            client.data(pack_frame(Frame(Kind.IMAGE_UP, Flag.END, Codec.JPEG, 1, 1, 3, 0.0, b"def")))
            client.data(pack_frame(Frame(Kind.IMAGE_UP, Flag.END, Codec.JPEG, 2, 2, 9, 0.0, b"x")))
            assert (await client.until("error"))["code"] == "bad_message"
            await asyncio.sleep(0.1)
    assert scripted.connection.sent[0].value == (b"abcdef", "image/jpeg")


# contract: LIVE-16
async def test_an_answer_is_played_cancelled_and_its_heard_part_recorded() -> None:
    with model(expect_content("go"), say("one two three four", ms=4000, complete=False), expect_interrupt()) as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            await welcomed(client, caps=["playback"])
            client.say("content", **content("m-1", "go"))
            started = await client.until("response.start")
            response = started["response"]
            await asyncio.sleep(0.1)
            client.say("playback", event="start", response=response)
            client.say("playback", event="pos", response=response, played=48_000, heard=48_000)
            client.say("response.cancel", reason="button")
            stopped = await client.until("interrupted")
            assert (stopped["response"], stopped["reason"]) == (response, "cancel")
            client.say("playback", event="flushed", response=response, played=48_000, heard=48_000)
            frames: list[dict[str, Any] | bytes] = []
            while not any(isinstance(frame, dict) and frame.get("revision") == 2 for frame in frames):
                frames.append(await client.receive())
            ended = next(frame for frame in frames if isinstance(frame, dict) and frame["type"] == "response.end")
            assert (ended["status"], ended["heard_ms"]) == ("cancelled", 2000)
            heard = frames[-1]
            assert isinstance(heard, dict)
            assert heard["seq"]
            assert heard["text"].startswith("one two three")
            assert 0 < heard["heard_chars"] < len(heard["text"])


# contract: GW-02
async def test_tool_messages_come_at_once_and_again_with_their_number() -> None:
    steps: list[Step] = [expect_content("on"), call("set_light", {"on": True}, id="c1"), expect_tool_responses("c1"), say("It is on.")]
    with model(*steps) as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            await welcomed(client)
            client.say("content", **content("m-1", "on"))
            messages: list[dict[str, Any]] = []
            while not messages or not (messages[-1]["type"] == "transcript" and messages[-1]["role"] == "model" and messages[-1]["final"]):
                frame = await client.receive()
                messages += [frame] if isinstance(frame, dict) else []
    running = {"type": "tool.update", "call": "c1", "status": "running", "pending": True}
    assert [frame for frame in messages if frame.get("status") == "running"] == [running]
    tools = [frame for frame in messages if frame["type"].startswith("tool.") and frame != running]
    at_once = [frame for frame in tools if frame.get("pending")]
    stored = [frame for frame in tools if "seq" in frame]
    for frames in (at_once, stored):
        assert [frame["type"] for frame in frames] == ["tool.call", "tool.update"]
        assert frames[0]["args"] == {"on": True}
        assert frames[0]["effect"] in {"read", "write"}
        assert frames[1]["status"] == "done"
        assert frames[1]["result"] == {"on": True}
    assert at_once[0]["digest"] == stored[0]["digest"]
    assert [frame["seq"] for frame in stored] == [2, 3]


async def test_events_are_sent_whole_to_a_client_that_asked() -> None:
    with model(hear("good morning"), say("Hello.")) as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            await welcomed(client, caps=["events"])
            event = await client.until("event")
            while "seq" not in event:
                event = await client.until("event")
            assert event["event"]["inputTranscription"]["text"] == "good morning"
            assert event["seq"] == event["event"]["seq"] == 1


# contract: LIVE-07
async def test_a_message_that_the_model_refuses_was_not_delivered() -> None:
    with model(refuse(expect_content("a"), UpstreamLost("gone")), expect_content("b")) as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            await welcomed(client)
            client.say("content", **content("m-1", "a"))
            client.say("content", **content("m-2", "b"))
            problem = await client.until("error")
            assert (problem["ref"], problem["fatal"]) == ("m-1", False)
            assert await client.until("ack") == {"type": "ack", "message_id": "m-1", "state": "not_delivered", "retry": "ok"}
            assert (await client.until("ack", message_id="m-2"))["state"] == "persisted"


# contract: LIVE-07
@pytest.mark.parametrize(("problem", "state", "retry"), [("store", "delivered_not_persisted", "never"), ("wire", "unknown", "ask")])
async def test_a_message_whose_fate_is_bad_or_unknown(problem: str, state: str, retry: str) -> None:
    never = asyncio.Event()
    step = expect_content("a") if problem == "store" else delay(expect_content("a"), never)
    scripted = model(step)
    store = FaultySessionService(InMemorySessionService())
    runner = Runner(app_name="demo", agent=LlmAgent(name="assistant", live_model=scripted), session_service=store, auto_create_session=True)
    async with AsgiClient(create_app(runner)) as client:
        await welcomed(client)
        if problem == "store":
            store.break_down()
        client.say("content", **content("m-1", "a"))
        assert await client.until("ack") == {"type": "ack", "message_id": "m-1", "state": state, "retry": retry}


async def test_a_store_that_is_down_when_a_client_comes() -> None:
    store = FaultySessionService(InMemorySessionService())
    store.break_down()
    runner = Runner(app_name="demo", agent=LlmAgent(name="assistant", live_model=ScriptedLiveModel()), session_service=store)
    async with AsgiClient(create_app(runner)) as client:
        client.say("hello", v=1)
        frames, closed = await client.rest()
    assert len(frames) == 1
    assert (closed.code, closed.reason) == (4004, "storage_unavailable")


# contract: LIVE-06, HITL-07
# report: C07
@pytest.mark.parametrize(
    ("part", "code"),
    [
        ({"functionResponse": {"id": "c1", "name": "set_light", "response": {}}}, "tool_response_not_expected"),
        ({"functionCall": {"name": "set_light", "args": {}}}, "content_refused"),
        ({"fileData": {"fileUri": "gs://other/people", "mimeType": "image/png"}}, "content_refused"),
    ],
)
async def test_forged_content_is_neither_forwarded_nor_stored(part: dict[str, Any], code: str) -> None:
    with model(allow=()) as scripted:
        runner = runner_of(scripted)
        async with AsgiClient(create_app(runner)) as client:
            welcome = await welcomed(client)
            client.say("content", message_id="m-1", content={"role": "user", "parts": [{"text": "x"}, part]})
            problem = await client.until("error")
            assert (problem["code"], problem["ref"]) == (code, "m-1")
            assert (await client.until("ack"))["state"] == "not_delivered"
            session = await runner.session_service.get(app_name="demo", user_id="user", session_id=welcome["session"])
            assert session.events == []
    assert scripted.connection.sent == []


@pytest.mark.parametrize(
    "message",
    [
        {"type": "tool.confirm", "call": "c", "approve": True, "digest": "d", "scope": "session"},
        {"type": "tool.response", "call": "c", "name": "n", "response": {}},
        {"type": "tool.extend", "call": "c"},
        {"type": "auth.refresh", "ticket": "t"},
        {"type": "session.update", "voice": "Puck"},
        {"type": "input.mode", "mode": "ptt"},
    ],
)
async def test_known_requests_that_are_not_carried_out(message: dict[str, Any]) -> None:
    with model() as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            await welcomed(client)
            client.text(json.dumps(message))
            assert (await client.until("error"))["code"] == "not_supported"


async def test_ping_and_a_second_hello() -> None:
    with model() as scripted:
        async with AsgiClient(app_of(scripted)) as client:
            await welcomed(client)
            client.say("ping", t0=12.5)
            client.say("client.stats", rtt_ms=3)
            client.say("input.mode", mode="hands_free")
            client.say("hello", v=1)
            pong = await client.until("pong")
            assert pong["t0"] == 12.5
            assert pong["t1"] <= pong["t2"]
            assert (await client.until("error"))["code"] == "bad_message"
