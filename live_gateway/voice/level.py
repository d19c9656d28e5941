"""How loud a piece of audio is."""

from __future__ import annotations

import numpy as np


def loudness(pcm: bytes) -> float:
    """Mean absolute sample, 0 to 32768, of int16 audio; 0 for none."""
    samples = np.frombuffer(pcm, "<i2")
    return float(np.abs(samples.astype(np.int32)).mean()) if samples.size else 0.0
