"""Audio that goes to Gemini Live without anybody waiting for it: the same frames in the same order, or none at all."""

from __future__ import annotations

from live_gateway.content import user_content
from live_gateway.models.gemini_socket import MAX_UNSENT
from live_gateway.models.live import Activity, LiveSetup, TakesAudioAtOnce, TurnComplete, VoiceActivityConfig
from live_gateway.testing import gemini_steps as steps
from live_gateway.testing.fake_gemini import FakeGemini
from live_gateway.testing.gemini_steps import expect_text, say
from tests.support.gemini import connected, gemini_model, kind, take

MANUAL = LiveSetup(voice_activity=VoiceActivityConfig(automatic=False))
PCM = b"\x01\x00" * 320


async def test_audio_is_taken_at_once_in_order_and_not_after_the_end() -> None:
    async with FakeGemini([expect_text("hello"), say("Hi", ms=40)], allow=["audio"]) as gemini:
        async with connected(gemini_model(gemini)) as connection:
            assert isinstance(connection, TakesAudioAtOnce)
            pieces = [number.to_bytes(2, "little") * 3200 for number in range(8)]
            assert [connection.take_audio(pcm) for pcm in pieces[:2]] == [True, True]
            for pcm in pieces[2:]:
                if not connection.take_audio(pcm):
                    await connection.send_audio(pcm)
            await connection.send_content(user_content("hello"))
            await take(connection, kind(TurnComplete))
            assert gemini.connections[0].audio == b"".join(pieces)
        assert not connection.take_audio(PCM)


async def test_while_much_waits_to_be_sent_nothing_is_taken() -> None:
    async with (
        FakeGemini([expect_text("hello"), say("Hi", ms=40)], allow=["audio"]) as gemini,
        connected(gemini_model(gemini)) as connection,
    ):
        big = bytes(64 * MAX_UNSENT)
        taken = 0
        while connection.take_audio(big):  # the loop does not run: what the kernel does not take stays
            taken += 1
            assert taken < 100
        assert taken
        await connection.send_content(user_content("hello"))
        await take(connection, kind(TurnComplete))
        assert gemini.connections[0].audio == big * taken
        assert connection.take_audio(PCM)


async def test_before_push_to_talk_is_pressed_nothing_is_taken() -> None:
    async with FakeGemini(
        [steps.expect_activity("start"), steps.expect_activity("end"), expect_text("hello"), say("Hi", ms=40)], allow=["audio"]
    ) as gemini:
        async with connected(gemini_model(gemini), MANUAL) as connection:
            assert not connection.take_audio(PCM)
            await connection.send_activity(Activity.START)
            assert connection.take_audio(PCM)
            await connection.send_activity(Activity.END)
            assert not connection.take_audio(PCM)
            await connection.send_content(user_content("hello"))
            await take(connection, kind(TurnComplete))
        assert gemini.connections[0].audio == PCM
