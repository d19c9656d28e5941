"""Gemini Live as a live model, over real sockets to a scripted server."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import threading
from typing import Any

import pytest

from live_gateway.content import FunctionResponse, Part, user_content
from live_gateway.errors import (
    ModelError,
    ModelUnavailable,
    SetupTimeout,
    UpstreamLost,
    UpstreamPolicy,
    UpstreamQuota,
)
from live_gateway.models.gemini_live import GeminiLiveModel
from live_gateway.models.gemini_options import GeminiOptions
from live_gateway.models.live import (
    Activity,
    AudioOut,
    ConnectionNotice,
    History,
    LiveConnection,
    LiveSetup,
    SessionResumption,
    ToolCalls,
    ToolCallsCancelled,
    TurnComplete,
    VoiceActivityConfig,
)
from live_gateway.testing import gemini_steps as steps
from live_gateway.testing.fake_gemini import FakeGemini
from live_gateway.testing.gemini_steps import (
    call,
    cancel,
    close,
    drop,
    expect_content,
    expect_setup,
    expect_text,
    expect_tool_response,
    go_away,
    handle,
    mute,
    ready,
    refuse,
    say,
    send,
    turn_complete,
    write,
)
from tests.support.gemini import brief, connected, gemini_model, kind, notice, rest, take, told, written

MANUAL = LiveSetup(voice_activity=VoiceActivityConfig(automatic=False))


def tones(number: int) -> list[bytes]:
    return [index.to_bytes(2, "little") * 640 for index in range(number)]


def answer(call_id: str, result: Any = 1) -> FunctionResponse:
    return FunctionResponse(id=call_id, name="f", response={"result": result})


async def test_a_conversation() -> None:
    async with FakeGemini([expect_text("hello"), say("Hi there", ms=80)], allow=["audio"]) as gemini:
        async with connected(gemini_model(gemini)) as connection:
            typed: LiveConnection = connection
            await typed.send_audio(b"\x01\x00" * 640)
            await typed.send_content(user_content("hello"))
            taken = await take(connection, kind(TurnComplete))
            typed.set_playing(True)
            await typed.interrupt()
        assert brief(taken) == ["out Hi ", "AudioOut", "out there", "AudioOut", "GenerationComplete", "TurnComplete"]
        await gemini.until(lambda: gemini.connections[0].closed)
        assert gemini.connections[0].audio == b"\x01\x00" * 640
        assert gemini.connections[0].closed_with == 1000
        assert gemini.connections[0].headers["x-goog-api-key"] == "test-key"


# Opening.


# case: K-LCON-11
# report: A11
async def test_a_policy_refusal_while_opening_is_not_tried_again() -> None:
    async with FakeGemini([expect_setup(), close(1008, "API key not valid")]) as gemini:
        with pytest.raises(UpstreamPolicy, match="API key not valid"):
            async with connected(gemini_model(gemini)):
                pass
        assert gemini.dials == 1


@pytest.mark.parametrize(("status", "error"), [(401, UpstreamPolicy), (403, UpstreamPolicy), (404, UpstreamPolicy), (429, UpstreamQuota)])
async def test_an_http_refusal_is_not_tried_again(status: int, error: type[Exception]) -> None:
    async with FakeGemini([refuse(status)]) as gemini:
        with pytest.raises(error):
            async with connected(gemini_model(gemini)):
                pass
        assert gemini.dials == 1


# report: A12
async def test_an_error_that_names_the_quota_is_not_tried_again() -> None:
    error = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota"}}
    async with FakeGemini([expect_setup(), send(error), close(1011)]) as gemini:
        with pytest.raises(UpstreamQuota):
            async with connected(gemini_model(gemini)):
                pass
    async with FakeGemini([handle("h1"), send(error)]) as gemini:
        async with connected(gemini_model(gemini)) as connection:
            with pytest.raises(UpstreamQuota):
                await rest(connection)
        assert gemini.dials == 1


async def test_a_model_that_is_never_ready_is_asked_twice() -> None:
    async with FakeGemini([mute()], [mute()]) as gemini:
        with pytest.raises(SetupTimeout):
            async with connected(gemini_model(gemini, setup_s=0.1)):
                pass
        assert gemini.dials == 2


async def test_a_service_that_is_away_for_a_moment_is_waited_for() -> None:
    notices: list[ConnectionNotice] = []
    async with (
        FakeGemini([refuse(503)], [write("hi")]) as gemini,
        connected(gemini_model(gemini), LiveSetup(notify=notices.append)) as connection,
    ):
        await take(connection, written("hi"))
    assert [one.code for one in notices] == ["upstream_reconnecting"]


async def test_nobody_there() -> None:
    async with FakeGemini([write("x")]) as gemini:
        port = gemini.port
        async with connected(gemini_model(gemini)) as connection:
            await take(connection, written("x"))
    with pytest.raises(UpstreamLost, match="3 tries"):
        async with connected(gemini_model(port=port)):
            pass


async def test_a_set_up_that_is_answered_by_nonsense() -> None:
    async with FakeGemini([expect_setup(), send(b"\x00\x01")]) as gemini:
        with pytest.raises(UpstreamLost, match="no JSON"):
            async with connected(gemini_model(gemini)):
                pass


def test_without_a_key_there_is_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ModelUnavailable, match="no API key"):
        GeminiLiveModel("m")
    with pytest.raises(ModelUnavailable, match="belong to vertexai"):
        GeminiLiveModel("m", project="p")
    monkeypatch.setenv("GEMINI_API_KEY", "secret")
    assert "secret" not in repr(GeminiLiveModel("m").access)


# History.


# contract: LIVE-18
# report: A57
@pytest.mark.parametrize("unanswered", [False, True])
async def test_on_connect_the_model_is_told_what_was_said(unanswered: bool) -> None:
    contents = ["q", "a", "and?"] if unanswered else ["q", "a"]

    def matches(value: Any) -> bool:
        return [(turn["role"], turn["parts"][0]["text"]) for turn in value["turns"]] == list(
            zip(["user", "model", "user"], contents, strict=False)
        )

    async with (
        FakeGemini([expect_content(matches, turn_complete=unanswered)]) as gemini,
        connected(gemini_model(gemini), told(*contents, unanswered=unanswered)),
    ):
        await gemini.played()


# contract: LIVE-18
# report: A13
async def test_nothing_is_told_when_resuming_with_a_handle() -> None:
    setup = dataclasses.replace(told("q", "a"), session_resumption=SessionResumption(handle="h0"))
    async with (
        FakeGemini([expect_setup(sessionResumption__handle="h0"), ready(), expect_text("hi")]) as gemini,
        connected(gemini_model(gemini), setup) as connection,
    ):
        await connection.send_content(user_content("hi"))
        await gemini.played()


# case: K-LCON-06
async def test_a_history_that_cannot_be_sent() -> None:
    async with FakeGemini() as gemini:
        bad = user_content("x").model_copy(update={"parts": [Part(text="\ud800")]})
        with pytest.raises(ModelError, match="history"):
            async with connected(gemini_model(gemini), told(bad)):
                pass


# Reconnecting.


# contract: LIVE-19
# report: A10
# report: A13
# case: K-LCON-12
@pytest.mark.parametrize("fault", [drop("fin"), drop("rst"), close(1001), close(1006 + 5), close(1012), close(1013)])
async def test_a_drop_is_resumed_with_the_handle(fault: steps.Fault) -> None:
    async with (
        FakeGemini(
            [write("1"), handle("h1"), handle(None), fault],
            [expect_setup(sessionResumption__handle="h1"), ready(), steps.expect_audio(), write("2")],
        ) as gemini,
        connected(gemini_model(gemini), told("never told")) as connection,
    ):
        taken = await take(connection, notice("upstream_resumed"))
        await connection.send_audio(b"\x01\x00")
        taken += await take(connection, written("2"))
    assert [word for word in brief(taken) if "upstream" in word] == ["upstream_reconnecting", "upstream_resumed"]
    resumed = next(message for message in taken if notice("upstream_resumed")(message))
    assert isinstance(resumed, ConnectionNotice)
    assert resumed.params == {"state_restored": True}


# case: K-LCON-12
# report: A18
# report: A54
async def test_without_a_handle_the_history_goes_first_and_then_what_waited() -> None:
    said: list[str] = []

    async def history() -> History:
        return History([user_content(text).model_copy(update={"role": ("user", "model")[at % 2]}) for at, text in enumerate(said)])

    gate = asyncio.Event()
    async with (
        FakeGemini(
            [expect_text("q"), write("a"), steps.wait(gate), drop("rst")],
            [
                expect_content(lambda value: len(value["turns"]) == 2, turn_complete=False),
                expect_text("next"),
                steps.expect_audio(),
                write("b"),
            ],
        ) as gemini,
        connected(gemini_model(gemini), LiveSetup(history=history)) as connection,
    ):
        await connection.send_content(user_content("q"))
        await take(connection, written("a"))
        said += ["q", "a"]
        gate.set()
        await take(connection, notice("upstream_reconnecting"))
        await connection.send_audio(b"\x05\x00")
        await connection.send_content(user_content("next"))
        taken = await take(connection, written("b"))
    (resumed,) = [message for message in taken if isinstance(message, ConnectionNotice)]
    assert (resumed.code, resumed.params) == ("upstream_resumed", {"state_restored": False})


# contract: LIVE-19
# case: K-LCON-02, K-LCON-28
@pytest.mark.parametrize("with_handle", [True, False])
async def test_a_message_that_a_dying_socket_took_is_delivered_once(with_handle: bool) -> None:
    """The server takes it and dies without a word; the model that goes on does not know it."""
    first: list[steps.Step] = [*([handle("h1")] if with_handle else []), expect_text("m1"), drop("rst")]
    async with FakeGemini(first, [expect_text("m1"), write("pong")]) as gemini:
        async with connected(gemini_model(gemini)) as connection:
            await connection.send_content(user_content("m1"))
            await take(connection, written("pong"))
        assert [len(one.of_kind("content")) for one in gemini.connections] == [1, 1]


# contract: LIVE-19
# report: A57
async def test_an_answer_that_had_begun_is_not_asked_for_again() -> None:
    async with (
        FakeGemini(
            [handle("h1"), expect_text("m1"), write("half", complete=False), drop("rst")], [expect_text("m2"), write("ok")]
        ) as gemini,
        connected(gemini_model(gemini)) as connection,
    ):
        await connection.send_content(user_content("m1"))
        taken = await take(connection, notice("upstream_resumed"))
        await connection.send_content(user_content("m2"))
        await take(connection, written("ok"))
    assert brief(taken) == ["text half", "TurnComplete", "upstream_reconnecting", "upstream_resumed"]
    assert TurnComplete("UPSTREAM_LOST") in taken, "the turn that cannot go on is closed"


# contract: LIVE-19
async def test_what_was_sent_in_a_gap_arrives_in_order_and_audio_within_its_bound() -> None:
    gate = asyncio.Event()
    async with FakeGemini(
        [handle("h1"), steps.wait(gate), drop("rst")],
        [
            expect_text("1"),
            expect_text("2"),
            *[steps.expect_audio() for _ in range(24)],
            steps.expect_activity("start"),
            *[steps.expect_audio() for _ in range(26)],
            steps.expect_activity("end"),
            steps.expect_audio_end(),
            write("ok"),
        ],
    ) as gemini:
        async with connected(gemini_model(gemini)) as connection:
            gate.set()
            await take(connection, notice("upstream_reconnecting"))
            audio = tones(76)
            for pcm in audio[:50]:
                await connection.send_audio(pcm)
            await connection.send_content(user_content("1"))
            await connection.send_activity(Activity.START)
            for pcm in audio[50:]:
                await connection.send_audio(pcm)
            await connection.send_activity(Activity.END)
            await connection.send_content(user_content("2"))
            await connection.send_image(b"old news", "image/jpeg")
            await connection.end_audio()
            taken = await take(connection, written("ok"))
        assert gemini.connections[1].audio == b"".join(audio[-50:])
    (gap,) = [message for message in taken if notice("audio_gap")(message)]
    assert isinstance(gap, ConnectionNotice)
    assert gap.params == {"direction": "up", "dropped_ms": 26 * 40}


# case: K-LCON-10
# contract: LIVE-19
async def test_an_outage_is_over_after_eight_dials() -> None:
    gate = asyncio.Event()
    async with FakeGemini([handle("h1"), steps.wait(gate), drop()], *[[refuse(503)] for _ in range(8)]) as gemini:
        async with connected(gemini_model(gemini)) as connection:
            gate.set()
            connection._policy._outage.tries = 0  # as after 30 s
            loop = asyncio.get_running_loop()
            began = loop.time()
            sleeps: list[float] = []

            async def no_sleep(seconds: float) -> None:
                sleeps.append(seconds)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("live_gateway.models.gemini_connection.asyncio.sleep", no_sleep)
                with pytest.raises(UpstreamLost, match="8 tries"):
                    await rest(connection)
            assert sleeps == [0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0]
            assert loop.time() - began < 5
            with pytest.raises(UpstreamLost):
                await connection.send_content(user_content("too late"))
        assert gemini.dials == 9


# report: A01
# report: A05
# case: K-LCON-05
async def test_our_own_close_is_the_end_even_with_a_handle() -> None:
    async with FakeGemini([handle("h1"), write("x")]) as gemini:
        async with connected(gemini_model(gemini)) as connection:
            await take(connection, written("x"))
        await rest(connection)
        await gemini.until(lambda: gemini.connections[0].closed)
        assert gemini.dials == 1
        with pytest.raises(UpstreamLost, match="closed"):
            await connection.send_audio(b"\x00\x00")


# report: A02
# report: A04
async def test_a_clean_end_by_the_model_is_the_end_without_a_handle() -> None:
    async with FakeGemini([write("bye"), close(1000)]) as gemini:
        async with connected(gemini_model(gemini)) as connection:
            assert brief(await rest(connection)) == ["text bye", "GenerationComplete", "TurnComplete"]
        assert gemini.dials == 1
    async with (
        FakeGemini([write("bye"), handle("h1"), close(1000)], [expect_setup(sessionResumption__handle="h1"), ready()]) as gemini,
        connected(gemini_model(gemini)) as connection,
    ):
        await take(connection, notice("upstream_resumed"))


# case: K-LCON-04
async def test_a_close_that_would_come_again_is_the_end() -> None:
    async with FakeGemini([handle("h1"), close(1002)]) as gemini:
        async with connected(gemini_model(gemini)) as connection:
            with pytest.raises(UpstreamLost, match="1002"):
                await rest(connection)
        assert gemini.dials == 1


# report: A06
async def test_a_peer_that_ignores_the_close_is_not_waited_for() -> None:
    async with FakeGemini([write("x"), steps.stall()]) as gemini:
        loop = asyncio.get_running_loop()
        async with connected(gemini_model(gemini)) as connection:
            await take(connection, written("x"))
            began = loop.time()
        assert loop.time() - began < 2


# report: A03
async def test_pings_are_answered_while_nobody_receives() -> None:
    async with FakeGemini([handle("h1"), say("a long answer", ms=8000)]) as gemini, connected(gemini_model(gemini)) as connection:
        await gemini.played()
        pong = await gemini.connections[0].ping()
        async with asyncio.timeout(5):
            await pong
        await take(connection, kind(TurnComplete))


# Rotation.


# contract: LIVE-19
async def test_a_rotation_between_turns_is_silent() -> None:
    async with FakeGemini(
        [expect_text("1"), handle("h1"), go_away(50), write("a"), handle("h2")],
        [expect_setup(sessionResumption__handle="h2"), ready(), expect_text("2"), write("b")],
    ) as gemini:
        async with connected(gemini_model(gemini)) as connection:
            await connection.send_content(user_content("1"))
            taken = await take(connection, notice("upstream_resumed"))
            await connection.send_content(user_content("2"))
            taken += await take(connection, written("b"))
        assert gemini.connections[0].closed_with == 1000, "the old socket is closed before the new one is dialled"
    assert brief(taken) == ["text a", "GenerationComplete", "TurnComplete", "upstream_resumed", "text b"]


# contract: LIVE-19
async def test_a_rotation_never_happens_in_the_middle_of_a_call() -> None:
    async with (
        FakeGemini(
            [handle("h1"), expect_text("go"), call("f"), go_away(50), expect_tool_response("fc-1"), write("done"), handle("h2")],
            [expect_setup(sessionResumption__handle="h2"), ready()],
        ) as gemini,
        connected(gemini_model(gemini)) as connection,
    ):
        await connection.send_content(user_content("go"))
        await take(connection, kind(ToolCalls))
        await connection.send_tool_responses([answer("fc-1")])
        await take(connection, notice("upstream_resumed"))


# contract: LIVE-19
# report: A56
async def test_an_end_in_the_middle_of_a_call_is_told_in_words() -> None:
    def told_answer(value: Any) -> bool:
        return bool(value["turnComplete"]) and steps.text_of(value) == '`f` answered: {"result":7}'

    async with (
        FakeGemini(
            [expect_content(), handle("h1"), expect_text("go"), call("f"), drop("rst")],
            [
                expect_setup(lambda setup: setup["sessionResumption"] == {}),
                ready(),
                expect_content(turn_complete=False),
                expect_content(told_answer),
                write("seven"),
            ],
        ) as gemini,
        connected(gemini_model(gemini), told("go", "[agent] called `f`")) as connection,
    ):
        await connection.send_content(user_content("go"))
        await take(connection, notice("upstream_resumed"))
        await connection.send_tool_responses([answer("fc-1", 7)])
        await take(connection, written("seven"))


# contract: LIVE-17, LIVE-19
async def test_an_answer_that_was_lost_with_its_socket_is_sent_again_where_the_call_is_known() -> None:
    async with (
        FakeGemini(
            [expect_text("go"), call("f"), handle("h1"), expect_tool_response("fc-1"), drop("rst")],
            [expect_setup(sessionResumption__handle="h1"), ready(), expect_tool_response("fc-1"), write("done")],
        ) as gemini,
        connected(gemini_model(gemini)) as connection,
    ):
        await connection.send_content(user_content("go"))
        await take(connection, kind(ToolCalls))
        await connection.send_tool_responses([answer("fc-1")])
        await take(connection, written("done"))


# report: A33
async def test_a_cancelled_call_is_not_open_any_more() -> None:
    async with (
        FakeGemini([handle("h1"), call("f"), cancel("fc-1"), turn_complete(), go_away(50)], [ready_again()]) as gemini,
        connected(gemini_model(gemini)) as connection,
    ):
        taken = await take(connection, notice("upstream_resumed"))
    assert ToolCallsCancelled(("fc-1",)) in taken


def ready_again() -> steps.Step:
    return write("again")


# Silence and nonsense.


async def test_a_model_that_says_nothing_is_left_and_asked_again_once() -> None:
    async with (
        FakeGemini(
            [handle("h1"), expect_text("hello?")],
            [expect_setup(sessionResumption__handle="h1"), ready(), expect_text("hello?"), write("yes")],
        ) as gemini,
        connected(gemini_model(gemini, stalled_after_s=0.2)) as connection,
    ):
        await connection.send_content(user_content("hello?"))
        taken = await take(connection, written("yes"))
    assert brief(taken) == ["model_stalled", "upstream_reconnecting", "upstream_resumed", "text yes"]


async def test_a_turn_without_anything_in_it_is_reported() -> None:
    async with FakeGemini([expect_text("hello?"), turn_complete()]) as gemini, connected(gemini_model(gemini)) as connection:
        await connection.send_content(user_content("hello?"))
        assert brief(await take(connection, notice("model_stalled"))) == ["TurnComplete", "model_stalled"]
    async with (
        FakeGemini([expect_text("hello?"), turn_complete(), write("x")]) as gemini,
        connected(gemini_model(gemini), LiveSetup(proactivity=True)) as connection,
    ):
        await connection.send_content(user_content("hello?"))
        assert "model_stalled" not in brief(await take(connection, written("x")))


async def test_odd_frames_are_passed_over_and_many_of_them_are_a_fault() -> None:
    odd = [b"\xff\xfe", b"[]", b"not json"]
    async with (
        FakeGemini(
            [steps.framing("text"), handle("h1"), send(*odd), write("a"), send(*odd * 4)],
            [expect_setup(sessionResumption__handle="h1"), ready(), steps.framing("binary"), write("b")],
        ) as gemini,
        connected(gemini_model(gemini)) as connection,
    ):
        taken = await take(connection, written("b"))
    assert "upstream_resumed" in brief(taken)


# Push to talk.


# report: A47
async def test_push_to_talk() -> None:
    audio = tones(4)
    async with FakeGemini(
        [
            expect_setup(realtimeInputConfig__automaticActivityDetection={"disabled": True}),
            ready(),
            steps.expect_activity("start"),
            *[steps.expect_audio() for _ in range(4)],
            steps.expect_activity("end"),
            write("ok"),
        ]
    ) as gemini:
        async with connected(gemini_model(gemini), MANUAL) as connection:
            for pcm in audio[:3]:
                await connection.send_audio(pcm)
            await connection.send_activity(Activity.START)
            await connection.send_audio(audio[3])
            await connection.send_activity(Activity.END)
            await connection.send_audio(audio[0])
            await take(connection, written("ok"))
        assert gemini.connections[0].audio == b"".join(audio)


# contract: LIVE-19
async def test_speech_that_was_cut_by_a_drop_is_begun_again() -> None:
    gate = asyncio.Event()
    async with (
        FakeGemini(
            [handle("h1"), steps.expect_activity("start"), steps.expect_audio(), steps.wait(gate), drop("rst")],
            [steps.expect_activity("start"), steps.expect_audio(), steps.expect_activity("end"), write("ok")],
        ) as gemini,
        connected(gemini_model(gemini), MANUAL) as connection,
    ):
        await connection.send_activity(Activity.START)
        await connection.send_audio(b"\x01\x00")
        gate.set()
        await take(connection, notice("upstream_reconnecting"))
        await connection.send_audio(b"\x02\x00")
        await connection.send_activity(Activity.END)
        await take(connection, written("ok"))


# Handles across conversations.


# report: A14
# contract: LIVE-18
async def test_a_conversation_that_goes_on_resumes_the_one_before() -> None:
    async with FakeGemini(
        [handle("h1"), write("x")],
        [expect_setup(sessionResumption__handle="h1"), ready(), write("y")],
        [expect_setup(lambda setup: setup["sessionResumption"] == {}), ready(), expect_content(), write("z")],
    ) as gemini:
        model = gemini_model(gemini)
        for conversation, continues, words in (("a", None, "x"), ("b", "a", "y"), ("c", "somebody", "z")):
            setup = told("q", "a") if words != "x" else LiveSetup()
            setup = dataclasses.replace(setup, conversation=conversation, continues=continues)
            async with connected(model, setup) as connection:
                await take(connection, written(words))


# report: A14
async def test_a_handle_from_before_an_open_call_is_not_remembered() -> None:
    async with FakeGemini([handle("h1"), call("f")], [expect_setup(lambda setup: setup["sessionResumption"] == {}), ready()]) as gemini:
        model = gemini_model(gemini)
        async with connected(model, LiveSetup(conversation="a")) as connection:
            await take(connection, kind(ToolCalls))
        async with connected(model, LiveSetup(conversation="b", continues="a")):
            pass


# Who we are.


class Credentials:
    """As `google.auth` has them, with the thread that refreshed them."""

    def __init__(self) -> None:
        self.token: str | None = None
        self.valid = False
        self.quota_project_id = "payer"
        self.thread = ""

    def refresh(self, request: object) -> None:
        self.thread = threading.current_thread().name
        self.token, self.valid = "bearer-token", True


async def test_vertex_credentials_are_refreshed_in_a_thread() -> None:
    credentials = Credentials()
    async with FakeGemini([write("x")]) as gemini:
        model = GeminiLiveModel(
            "gemini-live", vertexai=True, project="p", location="us-central1", credentials=credentials, base_url=gemini.base_url
        )
        async with connected(model) as connection:
            await take(connection, written("x"))
    one = gemini.connections[0]
    assert one.headers["Authorization"] == "Bearer bearer-token"
    assert one.headers["x-goog-user-project"] == "payer"
    assert one.path == "/ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent"
    assert gemini.setups[0]["model"] == "projects/p/locations/us-central1/publishers/google/models/gemini-live"
    assert credentials.thread != threading.current_thread().name


async def test_an_ephemeral_token_goes_to_the_constrained_method() -> None:
    async with FakeGemini([write("x")]) as gemini:
        model = GeminiLiveModel("gemini-live", api_key="auth_tokens/abc", base_url=gemini.base_url)
        async with connected(model) as connection:
            await take(connection, written("x"))
    assert gemini.connections[0].headers["Authorization"] == "Token auth_tokens/abc"
    assert gemini.connections[0].path.endswith("v1alpha.GenerativeService.BidiGenerateContentConstrained")


async def test_tls_and_options() -> None:
    async with FakeGemini([write("x")], tls=True) as gemini:
        options = GeminiOptions(tls=gemini.client_tls, headers={"x-extra": "1"}, api_version="v9")
        model = GeminiLiveModel("gemini-live", api_key="k", base_url=gemini.base_url, options=options)
        async with connected(model) as connection:
            await take(connection, written("x"))
    assert gemini.connections[0].headers["x-extra"] == "1"
    assert "v9" in gemini.connections[0].path
    async with FakeGemini([write("x")], tls=True) as gemini:
        with pytest.raises(UpstreamLost, match="not trusted"):
            async with connected(GeminiLiveModel("gemini-live", api_key="k", base_url=gemini.base_url)):
                pass
        gemini._scripts.clear()


async def test_a_conversation_leaves_nothing_behind() -> None:
    before = len(asyncio.all_tasks())
    async with FakeGemini([handle("h1"), AUDIO, drop("rst")], [AUDIO]) as gemini, connected(gemini_model(gemini)) as connection:
        await take(connection, notice("upstream_resumed"))
        await take(connection, kind(AudioOut))
        assert len(asyncio.all_tasks()) <= before + 4, "those of the server's one open connection"
    gc.collect()
    assert len(asyncio.all_tasks()) == before


AUDIO = steps.audio(40)
