"""Synthesis by Hibari (English, one voice, Apache-2.0): model and pronunciation lie inside the package. 30 ms of CPU to the first sound."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from live_gateway.errors import ModelUnavailable
from live_gateway.voice.runtime import INSTALL, package_directory

PACKAGE = "hibari"
GAIN = 2.0
"""The voice is made quiet (peaks of 0.2 to 0.4); it is raised by this, but never into clipping."""
_PEAK = 0.97


class HibariSynthesiser:
    """Text to speech, in English. Several threads may call it. Only the voice inside the package is used: others would be downloaded.

    Raises `ModelUnavailable` when the package is missing.
    """

    def __init__(self) -> None:
        if package_directory(PACKAGE) is None:
            raise ModelUnavailable(f"speech synthesis needs the package hibari-tts 0.2.1. Run: {INSTALL}")
        import hibari

        self._hibari: Any = hibari.Hibari(threads=1)
        self._lock = threading.Lock()

    def synthesize(self, sentence: str) -> Iterator[bytes]:
        with self._lock:  # the dictionary and the tagger keep state while they read
            phonemes = self._hibari.phonemize(sentence)
        for piece in phonemes:
            audio = self._hibari.from_phonemes(piece, seed=0)
            if len(audio):
                yield _to_pcm(audio)


def _to_pcm(audio: Any) -> bytes:
    peak = float(np.abs(audio).max())
    gain = min(GAIN, _PEAK / peak) if peak > 0 else 1.0
    return bytes((audio * (gain * 32_767)).astype("<i2").tobytes())
