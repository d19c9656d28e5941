"""Rates: nothing passes that is faster than allowed, and nothing is refused that is not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from live_gateway.server.limits import AudioMeter, EarlyAudio, TokenBucket

steps = st.lists(st.tuples(st.floats(0, 2), st.floats(0, 20)), max_size=50)


@given(steps)
def test_a_bucket_gives_no_more_than_its_rate_and_burst(steps: list[tuple[float, float]]) -> None:
    now, taken = 100.0, 0.0
    bucket = TokenBucket(rate=4, burst=10, now=now)
    for wait, amount in steps:
        now += wait
        if bucket.take(amount, now):
            taken += amount
        assert taken <= 10 + 4 * (now - 100.0) + 1e-6


@given(st.lists(st.floats(0.25, 3), max_size=50))
def test_a_bucket_refuses_nothing_that_keeps_to_the_rate(waits: list[float]) -> None:
    now = 0.0
    bucket = TokenBucket(rate=4, burst=10, now=now)
    for wait in waits:
        now += wait
        assert bucket.take(1, now)


def test_a_bucket_does_not_mind_a_clock_that_goes_back() -> None:
    bucket = TokenBucket(rate=1, burst=1, now=10)
    assert bucket.take(1, 9)
    assert not bucket.take(1, 9.5)


def test_audio_in_real_time_always_passes() -> None:
    meter = AudioMeter(0.0)
    assert all(meter.take(640, 0.04 * number).accepted for number in range(10_000))


def test_a_burst_of_five_seconds_passes_and_no_more() -> None:
    meter = AudioMeter(0.0)
    verdicts = [meter.take(640, 0.0) for _ in range(130)]
    assert [verdict.accepted for verdict in verdicts] == [True] * 125 + [False] * 5
    assert [verdict.announce for verdict in verdicts].count(True) == 1


def test_a_rest_forgives() -> None:
    meter = AudioMeter(0.0)
    for number in range(2000):
        verdict = meter.take(6400, number * 0.02)
        if verdict.over:
            assert number * 0.02 >= 30
            break
    else:
        raise AssertionError("twenty times real time was never too much")
    meter = AudioMeter(0.0)
    now = 0.0
    for _ in range(10):
        for _ in range(1000):
            now += 0.02
            assert not meter.take(6400, now).over
        for _ in range(200):
            now += 0.04
            meter.take(160, now)


@given(st.lists(st.integers(0, 32_000), max_size=30))
def test_early_audio_keeps_the_newest_ten_seconds(sizes: list[int]) -> None:
    early = EarlyAudio()
    frames = [number.to_bytes(2, "little") * size for number, size in enumerate(sizes)]
    for frame in frames:
        early.push(frame)
    kept = [early.pop() for _ in range(len(early))]
    assert kept == frames[len(frames) - len(kept) :]
    assert sum(len(frame) // 2 for frame in kept) <= 160_000
    lost = sum(len(frame) // 2 for frame in frames) - sum(len(frame) // 2 for frame in kept)
    assert early.take_dropped_ms() == lost * 1000 // 16_000
    assert early.take_dropped_ms() == 0
