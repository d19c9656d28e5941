"""Real speech for tests of sound, and how alike two signals are."""

from __future__ import annotations

import wave
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import soxr

Signal: TypeAlias = npt.NDArray[np.float64]

SPEECH = Path(__file__).parents[1] / "fixtures" / "speech"
SPEECH_HZ = 16_000


def speech(name: str, hz: int = SPEECH_HZ) -> Signal:
    """A recording of a person, full scale being 1, at this rate."""
    with wave.open(str(SPEECH / f"{name}.wav")) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768
    return resample(samples, SPEECH_HZ, hz)


def resample(signal: Signal, from_hz: int, to_hz: int) -> Signal:
    """The signal at another rate, by a resampler that is not ours."""
    if from_hz == to_hz:
        return signal
    resampled: Signal = soxr.resample(signal, from_hz, to_hz, quality="VHQ")
    return resampled


def pcm16(signal: Signal) -> bytes:
    """int16 little endian."""
    return np.clip(np.round(signal * 32768), -32768, 32767).astype("<i2").tobytes()


def from_pcm16(pcm: bytes) -> Signal:
    """Full scale is 1."""
    return np.frombuffer(pcm, "<i2") / 32768


def long_speech(seconds: float, hz: int) -> Signal:
    """Recordings one after the other until they are this long."""
    once = np.concatenate([speech(name, hz) for name in ("librivox_0920", "librivox_0880", "librivox_0930")])
    return np.resize(once, round(seconds * hz))


def write_wave(path: Path, signal: Signal, hz: int) -> Signal:
    """Write a WAV file, mono, and return what is in it."""
    pcm = pcm16(signal)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(hz)
        file.writeframes(pcm)
    return from_pcm16(pcm)


def write_microphone(path: Path, pieces: Sequence[str | float], hz: int = 48_000) -> Signal:
    """Write what a fake microphone is to hear, and return it: names of recordings, and numbers for seconds of silence."""
    parts = [speech(piece, hz) if isinstance(piece, str) else np.zeros(round(piece * hz)) for piece in pieces]
    return write_wave(path, np.concatenate(parts), hz)


def snr_db(reference: Signal, recorded: Signal, hz: int, band: tuple[float, float] = (100, 6500)) -> float:
    """How far the recording's difference from the reference lies below the reference, in a band of frequencies.

    The recording may begin earlier or later, be louder or quieter, and be late by a fraction of a sample; anything else counts as noise.
    """
    size = 1 << int(np.ceil(np.log2(len(reference) + len(recorded))))
    frequencies = np.fft.rfftfreq(size)
    window = (frequencies * hz >= band[0]) & (frequencies * hz <= band[1])
    wanted = np.fft.rfft(reference, size) * window
    got = np.fft.rfft(recorded, size) * window
    lag = int(np.argmax(np.fft.irfft(got * np.conj(wanted), size)))
    delay = float(lag if lag < size // 2 else lag - size)
    inside = slice(max(0, round(delay)) + 200, min(round(delay) + len(reference), len(recorded)) - 200)
    have = np.fft.irfft(got, size)[inside]
    error, gain, want = have, 1.0, have
    for _ in range(4):  # Newton: the slope of the reference tells how much later or earlier it fits better
        shifted = wanted * np.exp(-2j * np.pi * frequencies * delay)
        want = np.fft.irfft(shifted, size)[inside]
        slope = np.fft.irfft(shifted * 2j * np.pi * frequencies, size)[inside]
        (gain, lead), *_ = np.linalg.lstsq(np.stack([want, slope], axis=1), have)
        error = have - gain * want
        delay -= float(lead / gain)
    return 10 * float(np.log10(gain**2 * (want @ want) / (error @ error)))
