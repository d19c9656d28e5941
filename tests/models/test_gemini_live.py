"""Gemini Live as a live model, over real sockets to a scripted server."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from live_gateway.content import FunctionResponse, user_content
from live_gateway.errors import (
    UpstreamLost,
)
from live_gateway.models.live import (
    Activity,
    AudioOut,
    ConnectionNotice,
    History,
    LiveConnection,
    LiveSetup,
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
# report: A66
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


# report: A73
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


async def test_a_conversation_leaves_nothing_behind() -> None:
    before = len(asyncio.all_tasks())
    async with FakeGemini([handle("h1"), AUDIO, drop("rst")], [AUDIO]) as gemini, connected(gemini_model(gemini)) as connection:
        await take(connection, notice("upstream_resumed"))
        await take(connection, kind(AudioOut))
        assert len(asyncio.all_tasks()) <= before + 4, "those of the server's one open connection"
    gc.collect()
    assert len(asyncio.all_tasks()) == before


AUDIO = steps.audio(40)
