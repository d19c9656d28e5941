"""What a voice is made of: three small protocols. Anybody may bring an own recogniser or an own synthesiser.

All audio is int16 little endian, mono. What comes in has 16 kHz, what goes out has 24 kHz. All of them are called in worker threads and may
take their time; none is called on the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

INPUT_HZ = 16_000
"""Sample rate of what is heard."""
OUTPUT_HZ = 24_000
"""Sample rate of what is spoken."""
FRAME_SAMPLES = 512
"""Samples that a detector takes at a time (32 ms)."""
FRAME_BYTES = 2 * FRAME_SAMPLES


class VoiceActivityDetector(Protocol):
    """Tells speech from anything else. One object per audio stream: it remembers what it heard before."""

    def __call__(self, frame: bytes) -> float:
        """Probability, 0 to 1, that these `FRAME_SAMPLES` samples at `INPUT_HZ` are speech."""
        ...

    def reset(self) -> None:
        """Forget what was heard: the stream was cut here."""
        ...


class SpeechToText(Protocol):
    """A recogniser. One object serves all streams, called from several threads at once."""

    def transcribe(self, pcm: bytes) -> str:
        """The words in this audio at `INPUT_HZ`; empty where there are none. At most about 16 s are handed over at a time."""
        ...


class TextToSpeech(Protocol):
    """A synthesiser. One object serves all answers, called from several threads at once."""

    def synthesize(self, sentence: str) -> Iterator[bytes]:
        """Speak one sentence: pieces of any even length at `OUTPUT_HZ`, the first as early as possible."""
        ...


@dataclass(frozen=True, slots=True)
class Voice:
    """A whole voice. `vad` makes a detector for each stream."""

    vad: Callable[[], VoiceActivityDetector]
    stt: SpeechToText
    tts: TextToSpeech
