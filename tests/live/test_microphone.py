"""A microphone that falls silent, and what was said last. On virtual time."""

from __future__ import annotations

import asyncio
import struct

import pytest

from live_gateway.agents.config import LiveRunConfig
from live_gateway.content import Transcription
from live_gateway.events import Event
from live_gateway.live.microphone import Microphone
from live_gateway.models.live import VoiceActivityConfig

pytestmark = pytest.mark.virtual_time

LOUD, QUIET = (struct.pack("<h", level) * 640 for level in (9_000, 20))


def microphone(*, automatic: bool = True, written: bool = True) -> tuple[Microphone, list[float]]:
    """A microphone, and the times at which the model was told that it is off."""
    told: list[float] = []
    loop = asyncio.get_running_loop()
    config = LiveRunConfig(voice_activity=VoiceActivityConfig(automatic=automatic), input_transcription=written)
    return Microphone(lambda: told.append(loop.time()), config), told


def words(text: str, *, partial: bool = False) -> Event:
    return Event(author="user", invocation_id="i", partial=partial, input_transcription=Transcription(text=text, finished=not partial))


# report: A48
async def test_a_second_without_audio_after_speech_is_told_once() -> None:
    mic, told = microphone()
    began = asyncio.get_running_loop().time()
    for _ in range(50):
        mic.took(LOUD)
        await asyncio.sleep(0.04)
    assert told == [], "two seconds of speech without a pause"
    await asyncio.sleep(10)
    assert told == [pytest.approx(began + 49 * 0.04 + 1.0)]
    assert not mic.told_off(), "the client's own mark after that is no news"
    mic.took(QUIET)
    assert mic.told_off()


# report: A48
async def test_a_pause_in_which_audio_goes_on_is_the_models_to_judge() -> None:
    mic, told = microphone()
    mic.took(LOUD)
    for _ in range(100):
        await asyncio.sleep(0.04)
        mic.took(QUIET)
    assert told == []


# report: A48
@pytest.mark.parametrize("case", ["push to talk", "never loud", "empty", "told", "written down", "answered", "closed"])
async def test_what_is_no_silence_after_speech_is_not_told(case: str) -> None:
    mic, told = microphone(automatic=case != "push to talk")
    mic.took({"never loud": QUIET, "empty": b"\x01"}.get(case, LOUD))
    if case == "answered":
        mic.recorded(Event(author="agent", invocation_id="i", turn_complete=True))
    if case == "told":
        assert mic.told_off()
    if case == "written down":
        mic.recorded(words("hello"))
    if case == "closed":
        mic.close()
    await asyncio.sleep(10)
    assert told == []


# report: A27
@pytest.mark.parametrize(
    ("case", "seconds"),
    [
        ("in time", 1.2),
        ("only begun", 2.5),
        ("never", 2.5),
        ("push to talk", 2.5),
        ("closed meanwhile", 1.2),
        ("nothing said", 0),
        ("written before", 0),
        ("not written at all", 0),
    ],
)
async def test_last_words_are_waited_for_only_where_some_are_to_come(case: str, seconds: float) -> None:
    mic, told = microphone(written=case != "not written at all", automatic=case != "push to talk")
    loop = asyncio.get_running_loop()
    if case != "nothing said":
        mic.took(LOUD)
    if case == "written before":
        mic.recorded(words("hello"))
    if case == "in time":
        loop.call_later(1.2, mic.recorded, words("hello"))
    if case == "only begun":
        loop.call_later(1.2, mic.recorded, words("hel", partial=True))
    if case == "closed meanwhile":
        loop.call_later(1.2, mic.close)
    began = loop.time()
    await mic.last_words()
    assert loop.time() - began == pytest.approx(seconds)
    assert told == ([began] if case in {"in time", "only begun", "never", "closed meanwhile"} else []), (
        "at once, and never with push to talk"
    )
    mic.close()
