from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from live_gateway.voice.base import INPUT_HZ, OUTPUT_HZ
from live_gateway.voice.reference import MAX_SECONDS, EchoReference, answer_features


def melody(seed: int, seconds: float, hz: int) -> bytes:
    """Tones of 80 ms whose pitch and loudness follow the seed: the same sound at any rate."""
    choice = np.random.default_rng(seed)
    pieces: list[npt.NDArray[np.float64]] = []
    for _ in range(round(seconds / 0.08)):
        pitch, level = choice.uniform(200, 4_000), choice.uniform(0, 8_000)
        time = np.arange(round(0.08 * hz)) / hz
        pieces.append(level * np.sin(2 * np.pi * pitch * time))
    return np.concatenate(pieces).astype("<i2").tobytes()


def quieter(pcm: bytes, factor: float) -> bytes:
    return (np.frombuffer(pcm, "<i2") * factor).astype("<i2").tobytes()


def reference(*seeds: int) -> EchoReference:
    made = EchoReference()
    for seed in seeds:
        made.add(answer_features(melody(seed, 4.0, OUTPUT_HZ)))
    return made


@pytest.mark.parametrize("factor", [1.0, 0.1, 0.03])
def test_the_answer_is_like_itself_at_any_place_and_loudness(factor: float) -> None:
    answer = reference(1, 2, 3)
    heard = quieter(melody(2, 4.0, INPUT_HZ), factor)
    for start in (0, INPUT_HZ, 3 * INPUT_HZ):
        assert answer.likeness(heard[start : start + 2 * INPUT_HZ]) > 0.8


def test_another_sound_is_less_like_it() -> None:
    answer = reference(1, 2, 3)
    assert answer.likeness(melody(9, 1.6, INPUT_HZ)) < 0.6


def test_only_the_end_of_a_long_piece_is_compared() -> None:
    answer = reference(1)
    assert answer.likeness(melody(9, 4.0, INPUT_HZ) + melody(1, 1.6, INPUT_HZ)) > 0.8


def test_silence_and_nothing_are_like_nothing() -> None:
    assert reference(1).likeness(bytes(2 * INPUT_HZ)) == 0.0
    assert reference(1).likeness(b"") == 0.0
    assert reference(1).likeness(bytes(100)) == 0.0
    assert EchoReference().likeness(melody(1, 1.0, INPUT_HZ)) == 0.0
    silent = EchoReference()
    silent.add(answer_features(bytes(4 * OUTPUT_HZ)))
    assert silent.likeness(melody(1, 1.0, INPUT_HZ)) == 0.0


def test_a_cleared_answer_is_not_recognised_and_the_oldest_part_is_forgotten() -> None:
    answer = reference(1)
    answer.clear()
    assert answer.likeness(melody(1, 1.6, INPUT_HZ)) == 0.0
    answer = reference(1)
    for _ in range(MAX_SECONDS // 4 + 1):
        answer.add(answer_features(melody(2, 4.0, OUTPUT_HZ)))
    assert answer.likeness(melody(1, 1.6, INPUT_HZ)) < 0.6
    assert answer.likeness(melody(2, 1.6, INPUT_HZ)) > 0.8
