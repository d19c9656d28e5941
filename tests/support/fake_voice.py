"""A voice made of numbers: every word is a stretch of one constant sample value, so that detector, recogniser and synthesiser are exact.

It takes no time, so tests that count time in samples run as fast as the loop.
"""

from __future__ import annotations

import array
import threading
from collections.abc import Iterator

from live_gateway.voice.base import FRAME_SAMPLES, INPUT_HZ, OUTPUT_HZ

WORD_MS = 256
"""Duration of a word: eight frames."""
_FIRST = 1_000
_MIN_SAMPLES = 600
"""Less of a word than this (about 40 ms at the input's rate) is not recognised."""


class Vocabulary:
    """Words and the sample values that stand for them."""

    def __init__(self) -> None:
        self._words: list[str] = []
        self._lock = threading.Lock()

    def value(self, word: str) -> int:
        with self._lock:
            if word not in self._words:
                self._words.append(word)
            return _FIRST + 10 * self._words.index(word)

    def word(self, value: int) -> str:
        with self._lock:
            return self._words[(value - _FIRST) // 10]


VOCABULARY = Vocabulary()


def silence(ms: int, hz: int = INPUT_HZ) -> bytes:
    """Silence of this length."""
    return bytes(2 * (ms * hz // 1000))


def speech(text: str, hz: int = INPUT_HZ) -> bytes:
    """The words of the text, without pauses."""
    samples = array.array("h")
    for word in text.split():
        samples.extend([VOCABULARY.value(word)] * (WORD_MS * hz // 1000))
    return samples.tobytes()


def echo_of(pcm: bytes) -> bytes:
    """What a microphone catches of an answer at the output's rate: the same at the input's rate."""
    samples = array.array("h", pcm)
    return array.array("h", [samples[index * 3 // 2] for index in range(len(samples) * 2 // 3)]).tobytes()


class FakeDetector:
    """Certain about everything: a frame is speech when most of its samples are not zero. `calls` counts frames."""

    def __init__(self) -> None:
        self.calls = 0
        self.resets = 0

    def __call__(self, frame: bytes) -> float:
        assert len(frame) == 2 * FRAME_SAMPLES
        self.calls += 1
        samples = array.array("h", frame)
        return 1.0 if sum(sample != 0 for sample in samples) > FRAME_SAMPLES // 2 else 0.0

    def reset(self) -> None:
        self.resets += 1


class FakeRecogniser:
    """Reads the words off the samples. `heard`: all that it was given, in order."""

    def __init__(self, misheard: dict[str, str] | None = None) -> None:
        self.heard: list[bytes] = []
        self.misheard = misheard or {}

    def transcribe(self, pcm: bytes) -> str:
        self.heard.append(pcm)
        words: list[str] = []
        run, before = 0, 0
        for sample in (*array.array("h", pcm), 0):
            if sample == before:
                run += 1
                continue
            if before >= _FIRST and run >= _MIN_SAMPLES:
                words += [VOCABULARY.word(before)] * max(1, round(run / (WORD_MS * INPUT_HZ / 1000)))
            run, before = 1, sample
        text = " ".join(words)
        return self.misheard.get(text, text)


class FakeSynthesiser:
    """Speaks the words of a sentence, punctuation left out, in pieces of about a word. `sentences`: what it was asked for."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def synthesize(self, sentence: str) -> Iterator[bytes]:
        self.sentences.append(sentence)
        for word in sentence.split():
            yield speech(word.strip(".,!?").lower(), OUTPUT_HZ)
