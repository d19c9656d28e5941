"""The cascade with the embedded models and real speech."""

from __future__ import annotations

import time

import numpy as np
import pytest

from live_gateway.content import FunctionDeclaration, FunctionResponse, user_content
from live_gateway.models.cascade import CascadeLimits, CascadeLiveModel
from live_gateway.models.keyword import KeywordModel
from live_gateway.models.live import (
    Activity,
    AudioOut,
    Interrupted,
    LiveSetup,
    SpeechEnded,
    SpeechStarted,
    ToolCalls,
    VoiceActivityConfig,
)
from live_gateway.testing.scripted_model import ScriptedModel
from live_gateway.voice.local import LocalVoice, available
from live_gateway.voice.numbers import normalise
from tests.support.cascade_talk import Talk, play, talk_to
from tests.support.fake_voice import silence
from tests.support.speech_clips import clip, clips, through_the_room, to_pcm, word_errors

pytestmark = [pytest.mark.voice, pytest.mark.skipif(not available().ok, reason=str(available()))]

PAUSE = silence(800)
ANSWER = "The weather in Hangzhou is sunny, with twenty one degrees Celsius and a light wind. The sun sets at half past six this evening."
MOVE = FunctionDeclaration(
    name="move",
    description="Move the robot in a direction.",
    parameters_json_schema={
        "type": "object",
        "properties": {
            "direction": {"type": "string", "enum": ["forward", "backward", "left", "right"]},
            "distance_m": {"type": "number", "description": "How far, in metres."},
        },
        "required": ["direction", "distance_m"],
    },
)


def live(model: ScriptedModel | KeywordModel) -> CascadeLiveModel:
    return CascadeLiveModel(model=model, limits=CascadeLimits(room_s=60))


async def test_the_clips_are_understood_faster_than_real_time() -> None:
    LocalVoice.shared().load()
    recordings = clips()
    errors = words = 0
    async with talk_to(live(ScriptedModel(["Yes."] * len(recordings)))) as talk:
        began = time.perf_counter()
        for number, recording in enumerate(recordings, 1):
            await play(talk, [PAUSE, recording.pcm, PAUSE])
            await talk.turns(number)
            words += len(recording.text.split())
            errors += word_errors(recording.text, talk.said_by_user[-1])
        took = time.perf_counter() - began
        assert len(talk.said_by_user) == len(recordings)
    assert words == 41
    assert errors / words <= 0.05, talk.said_by_user
    assert took < sum(recording.seconds for recording in recordings)


async def test_push_to_talk_understands_as_well() -> None:
    recording = clip("cmd_goforward", "go forward ten meters")
    setup = LiveSetup(voice_activity=VoiceActivityConfig(automatic=False))
    async with talk_to(live(ScriptedModel(["Yes."])), setup) as talk:
        await play(talk, [PAUSE])
        await talk.connection.send_activity(Activity.START)
        await play(talk, [recording.pcm])
        await talk.connection.send_activity(Activity.END)
        await talk.turns(1)
        assert word_errors(recording.text, talk.said_by_user[0]) == 0


async def test_a_spoken_command_calls_its_tool_and_the_spoken_result_is_understood() -> None:
    async with talk_to(live(KeywordModel()), LiveSetup(tools=(MOVE,))) as talk:
        await play(talk, [PAUSE, clip("cmd_goforward").pcm, PAUSE])
        await talk.until(lambda: bool(talk.of(ToolCalls)))
        (made,) = talk.of(ToolCalls)
        assert isinstance(made, ToolCalls)
        (call,) = made.calls
        assert (call.name, call.args) == ("move", {"direction": "forward", "distance_m": 10})
        summary = "The robot moved ten meters forward."
        await talk.connection.send_tool_responses([FunctionResponse(id=call.id, name="move", response={"summary": summary})])
        await talk.turns(1)
        assert talk.said_by_model == summary
        heard = LocalVoice.shared().load().stt.transcribe(to_pcm(through_the_room(talk.audio, 0, reverb=False)))
        assert "10 meters forward" in normalise(heard)


async def answered(talk: Talk) -> bytes:
    """Have the answer spoken; its audio. The listener hears it from now on."""
    await talk.connection.send_content(user_content("tell me about the weather"))
    await talk.turns(1)
    talk.connection.set_playing(True)
    return talk.audio


@pytest.mark.parametrize("gain_db", [0, -10, -20])
async def test_the_own_answer_heard_again_neither_interrupts_nor_becomes_a_turn(gain_db: float) -> None:
    recording = clip("cards_001", "ten of clubs")
    async with talk_to(live(ScriptedModel([ANSWER, "Yes."]))) as talk:
        audio = await answered(talk)
        await play(talk, [silence(192), to_pcm(through_the_room(audio, gain_db))])
        talk.connection.set_playing(False)
        await play(talk, [silence(1_500), recording.pcm, PAUSE])
        await talk.turns(2)
        assert len(talk.said_by_user) == 1, talk.said_by_user
        assert word_errors(recording.text, talk.said_by_user[0]) == 0
        assert len(talk.of(SpeechStarted)) == len(talk.of(SpeechEnded)) == 1
        assert talk.of(Interrupted) == []


@pytest.mark.parametrize("name", ["librivox_0920", "librivox_0930", "cmd_goforward"])
@pytest.mark.parametrize("echo_db", [-30.0, None])
async def test_the_users_speech_over_a_playing_answer_interrupts_it(name: str, echo_db: float | None) -> None:
    recording = clip(name)
    async with talk_to(live(ScriptedModel([ANSWER, "Yes."]))) as talk:
        audio = await answered(talk)
        before = len(talk.messages)
        user = np.frombuffer(silence(1_000) + recording.pcm + PAUSE, "<i2").astype(np.float64)
        if echo_db is not None:
            echo = through_the_room(audio, echo_db)
            user[: echo.size] += echo[: user.size]
        await play(talk, [to_pcm(user)])
        await talk.turns(2)
        assert isinstance(talk.messages[before], SpeechStarted)
        assert len(talk.said_by_user) == 1


async def test_speech_while_an_answer_is_being_made_stops_it() -> None:
    async with talk_to(live(ScriptedModel([" ".join([ANSWER] * 10), "Yes."]))) as talk:
        await talk.connection.send_content(user_content("tell me about the weather"))
        await talk.until(lambda: bool(talk.of(AudioOut)))
        talk.flow.clear()
        talk.connection.set_playing(True)
        await play(talk, [silence(500), clip("librivox_0930").pcm, PAUSE])
        talk.flow.set()
        await talk.turns(1)
        assert len(talk.of(Interrupted)) == 1
        assert len(talk.said_by_user) == 1
