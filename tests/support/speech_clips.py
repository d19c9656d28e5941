"""Real speech for tests, and how wrong a recogniser was."""

from __future__ import annotations

import json
import wave
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soxr

from live_gateway.voice.base import INPUT_HZ, OUTPUT_HZ
from live_gateway.voice.numbers import spell_digits

DIRECTORY = Path(__file__).parent.parent / "fixtures" / "speech"


@dataclass(frozen=True)
class Clip:
    """A recording at the input's rate, and its words."""

    name: str
    text: str
    pcm: bytes

    @property
    def seconds(self) -> float:
        return len(self.pcm) / 2 / INPUT_HZ


def clips() -> list[Clip]:
    """All clips of the manifest."""
    entries = json.loads((DIRECTORY / "manifest.json").read_text("utf-8"))
    return [clip(entry["name"], entry["text"]) for entry in entries]


def clip(name: str, text: str = "") -> Clip:
    """One clip."""
    with wave.open(str(DIRECTORY / f"{name}.wav")) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (INPUT_HZ, 1, 2)
        return Clip(name, text, file.readframes(file.getnframes()))


def word_errors(expected: str, heard: str) -> int:
    """Words to change, add or leave out; lower case, without punctuation and hyphens, digits as words."""
    wanted, got = spell_digits(expected).split(), spell_digits(heard).split()
    row = list(range(len(got) + 1))
    for index, word in enumerate(wanted, 1):
        before, row[0] = row[0], index
        for column, other in enumerate(got, 1):
            before, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, before + (word != other))
    return row[-1]


def through_the_room(pcm: bytes, gain_db: float, *, reverb: bool = True) -> npt.NDArray[np.float64]:
    """An answer as a microphone catches it: at the input's rate, quieter, with the room around it."""
    samples = soxr.resample(np.frombuffer(pcm, "<i2").astype(np.float64), OUTPUT_HZ, INPUT_HZ)
    if reverb:
        noise = np.random.default_rng(7).standard_normal(3_700)
        room = np.zeros(4_000)
        room[160] = 1.0  # 10 ms of distance
        room[300:] = noise * np.exp(-np.arange(3_700) / 900) * 0.08
        samples = np.convolve(samples, room)
    scaled: npt.NDArray[np.float64] = samples * 10 ** (gain_db / 20)
    return scaled


def to_pcm(samples: npt.NDArray[np.float64]) -> bytes:
    """With the faint noise of every microphone."""
    noise = np.random.default_rng(11).standard_normal(samples.size) * 8
    return np.clip(samples + noise, -32_768, 32_767).astype("<i2").tobytes()
