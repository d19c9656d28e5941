from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from live_gateway.content import (
    user_content,
)
from live_gateway.errors import BadAudioFrame, ModelError, UpstreamLost
from live_gateway.models.cascade import CascadeLimits, CascadeLiveModel
from live_gateway.models.live import (
    ConnectionNotice,
    Fault,
    LiveSetup,
    TurnComplete,
)
from live_gateway.testing.scripted_model import ScriptedModel
from tests.support.cascade_talk import play, talk_to
from tests.support.cascades import PAUSE, cascade
from tests.support.fake_voice import FakeDetector, FakeRecogniser, FakeSynthesiser, silence, speech


async def test_a_failing_text_model_is_apologised_for_and_the_conversation_goes_on() -> None:
    model = ScriptedModel([UpstreamLost("gone"), "Back again."])
    async with talk_to(cascade(model)) as talk:
        await talk.connection.send_content(user_content("hello"))
        await talk.turns(1)
        assert talk.of(ConnectionNotice) == [ConnectionNotice("model_stalled", {"code": "upstream_lost"})]
        assert talk.of(TurnComplete) == [TurnComplete("upstream_lost")]
        assert talk.audio
        await talk.connection.send_content(user_content("still there"))
        await talk.turns(2)
        assert talk.said_by_model.endswith("Back again.")


async def test_a_text_model_that_says_nothing_in_time_is_a_failure_too() -> None:
    model = ScriptedModel([(asyncio.Event(),)])
    async with talk_to(cascade(model, limits=CascadeLimits(model_s=0.01))) as talk:
        await talk.connection.send_content(user_content("hello"))
        await talk.turns(1)
        assert talk.of(TurnComplete) == [TurnComplete("model")]


class _Broken:
    def transcribe(self, pcm: bytes) -> str:
        raise RuntimeError("secret words")

    def synthesize(self, sentence: str) -> Iterator[bytes]:
        raise RuntimeError("secret words")


class _Stumbling(FakeRecogniser):
    """Fails at whatever begins with this word."""

    def transcribe(self, pcm: bytes) -> str:
        text = super().transcribe(pcm)
        if text.startswith("mumble"):
            raise RuntimeError("secret words")
        return text


async def test_a_recogniser_that_fails_costs_the_utterance_and_says_so() -> None:
    model = ScriptedModel(["One.", "Two."])
    async with talk_to(cascade(model, stt=_Stumbling())) as talk:
        for failed in (1, 3):
            await play(talk, [speech("mumble there my friend"), PAUSE])
            await talk.turns(failed)
            await play(talk, [speech("hello there my friend"), PAUSE])
            await talk.turns(failed + 1)
        turns = [message.reason for message in talk.messages if isinstance(message, TurnComplete)]
        assert turns == ["not_recognised", None, "not_recognised", None]
        assert talk.said_by_user == ["hello there my friend"] * 2
        faults = [str(message.error) for message in talk.messages if isinstance(message, Fault)]
        assert faults == ["what was said could not be recognised (RuntimeError); say it again"] * 2


async def test_a_broken_recogniser_ends_the_connection_with_a_model_error_that_tells_no_content() -> None:
    live = CascadeLiveModel(vad=FakeDetector, stt=_Broken(), tts=FakeSynthesiser(), model=ScriptedModel([]))
    async with talk_to(live) as talk:
        for _ in range(3):
            assert not talk.ended
            await play(talk, [speech("hello there my friend"), PAUSE])
        await talk.end()
        assert len(talk.of(Fault)) == 2
        assert isinstance(talk.error, ModelError)
        assert "secret" not in str(talk.error)
        with pytest.raises(ModelError):
            await talk.connection.send_content(user_content("hello"))


async def test_a_broken_synthesiser_ends_the_connection_as_well() -> None:
    live = CascadeLiveModel(vad=FakeDetector, stt=FakeRecogniser(), tts=_Broken(), model=ScriptedModel(["Yes."]))
    async with talk_to(live) as talk:
        await talk.connection.send_content(user_content("hello"))
        await talk.end()
        assert isinstance(talk.error, ModelError)


async def test_audio_of_odd_length_is_refused() -> None:
    async with cascade(ScriptedModel([])).connect(LiveSetup()) as connection:
        with pytest.raises(BadAudioFrame):
            await connection.send_audio(b"abc")


class _SlowRecogniser(FakeRecogniser):
    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()
        self.gate = threading.Event()

    def transcribe(self, pcm: bytes) -> str:
        self.entered.set()
        assert self.gate.wait(30)
        return super().transcribe(pcm)


async def test_audio_that_is_not_listened_to_in_time_is_dropped_oldest_first_and_counted() -> None:
    stt = _SlowRecogniser()
    limits = CascadeLimits(input_s=1.024, room_s=0.01)
    async with talk_to(cascade(ScriptedModel(["Yes."]), stt=stt, limits=limits)) as talk:
        await play(talk, [speech("hello my friend")])
        assert await asyncio.to_thread(stt.entered.wait, 10)
        await play(talk, [silence(1_024), silence(1_024), silence(512)])
        stt.gate.set()
        await talk.turns(1)
        gaps = [m.params["dropped_ms"] for m in talk.messages if isinstance(m, ConnectionNotice)]
        assert sum(int(gap) for gap in gaps) >= 1_500
        assert talk.said_by_user == ["hello my friend"]


async def test_leaving_the_connection_leaves_no_task_even_while_everything_waits() -> None:
    before = asyncio.all_tasks()
    model = ScriptedModel([(asyncio.Event(),)])
    async with cascade(model).connect(LiveSetup()) as connection:
        await connection.send_content(user_content("hello"))
        await connection.send_audio(speech("some words here"))
    assert asyncio.all_tasks() == before
    assert await connection.receive() is None
    with pytest.raises(UpstreamLost):
        await connection.send_audio(b"\0\0")
