"""Sound files: any format that libsndfile reads, any sample rate, any number of channels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile
import soxr

from live_gateway.cli.problems import CommandError

LONGEST_S = 600
"""A recording is read into memory as a whole; ten minutes are more than one turn of a conversation."""


def read_clip(path: Path, hz: int = 16_000) -> bytes:
    """The recording as int16 mono at `hz`. Raises `CommandError` for a file that is not there, not audio, empty or too long."""
    if not path.is_file():
        raise CommandError(f"there is no file {str(path)!r}" if not path.exists() else f"{str(path)!r} is not a file")
    try:
        with soundfile.SoundFile(path) as file:
            seconds = file.frames / file.samplerate
            if seconds > LONGEST_S:
                raise CommandError(f"{str(path)!r} is {seconds / 60:.0f} minutes long; at most {LONGEST_S // 60} can be sent")
            samples = file.read(dtype="float32", always_2d=True)
            rate = file.samplerate
    except (soundfile.LibsndfileError, TypeError, OSError) as error:  # TypeError: a headerless format, known by its name only
        raise CommandError(f"{str(path)!r} is not a sound file that can be read: {_reason(error)}") from None
    if not len(samples):
        raise CommandError(f"{str(path)!r} holds no sound: it has no samples")
    mono = soxr.resample(samples.mean(axis=1), rate, hz)
    pcm: bytes = np.clip(np.rint(mono * 32_767), -32_768, 32_767).astype("<i2").tobytes()
    return pcm


def write_answer(path: Path, pcm: bytes, hz: int) -> None:
    """Write int16 mono as a 16-bit WAV file. Raises `CommandError` where that is not possible."""
    try:
        soundfile.write(path, np.frombuffer(pcm, dtype="<i2"), hz, format="WAV", subtype="PCM_16")
    except (soundfile.LibsndfileError, OSError) as error:
        raise CommandError(f"{str(path)!r} cannot be written: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    if isinstance(error, soundfile.LibsndfileError):
        return str(error.error_string).rstrip(". ").lower()
    return "it has no header that says what it holds" if isinstance(error, TypeError) else str(error)


def last_sound_s(pcm: bytes, hz: int) -> float:
    """Where the last sound of a recording ends, in seconds: the last 20 ms that are not 20 dB below the loudest 20 ms."""
    width = hz // 50
    samples = np.frombuffer(pcm, dtype="<i2").astype(np.float64)
    frames = np.resize(np.append(samples, np.zeros(-len(samples) % width)), (-(-len(samples) // width), width))
    loudness = np.sqrt(np.mean(frames**2, axis=1))
    loud = np.flatnonzero(loudness > loudness.max(initial=0.0) / 10)
    return float((loud[-1] + 1) * width / hz) if len(loud) else 0.0
