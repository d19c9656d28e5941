"""The listener on paper: plays at normal speed, one response after the other, and reports it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from live_gateway.cli.talk_playback import PacedListener

HZ = 24_000
SECOND = bytes(2 * HZ)


def marks(listener: PacedListener) -> list[tuple[str, int, int]]:
    return [(mark.event, mark.response, mark.played) for mark in listener.take()]


def test_a_response_is_played_at_its_own_pace() -> None:
    listener = PacedListener(HZ)
    listener.audio(1, SECOND, 10.0)
    assert marks(listener) == [("start", 1, 0)]
    listener.audio_end(1, 10.1)
    listener.tick(10.5)
    assert marks(listener) == [("pos", 1, 12_000)]
    listener.tick(11.0)
    assert marks(listener) == [("drained", 1, 24_000)]
    assert listener.idle
    assert listener.heard == SECOND


def test_the_deadline_is_the_next_mark_or_the_end() -> None:
    listener = PacedListener(HZ)
    assert listener.deadline() is None
    listener.audio(1, SECOND[: HZ // 5], 0.0)  # 0.1 s
    assert listener.deadline() == 0.1
    listener.audio(1, SECOND, 0.05)
    assert listener.deadline() == 0.2


def test_running_dry_is_reported_once_and_playing_goes_on_with_the_next_piece() -> None:
    listener = PacedListener(HZ)
    listener.audio(1, SECOND, 0.0)
    listener.tick(1.0)
    listener.tick(3.0)
    assert not listener.playing
    listener.audio(1, SECOND, 4.0)
    listener.audio_end(1, 4.0)
    listener.tick(4.5)
    listener.tick(5.0)
    events = marks(listener)
    assert [event for event, _, _ in events if event != "pos"] == ["start", "underrun", "drained"]
    assert events[-1] == ("drained", 1, 48_000)


def test_a_second_response_waits_for_the_first() -> None:
    listener = PacedListener(HZ)
    listener.audio(1, SECOND, 0.0)
    listener.audio(2, SECOND, 0.1)
    listener.audio_end(1, 0.1)
    listener.audio_end(2, 0.1)
    listener.tick(1.0)
    assert [mark for mark in marks(listener) if mark[0] != "pos"] == [("start", 1, 0), ("drained", 1, 24_000), ("start", 2, 0)]
    listener.tick(2.0)
    assert marks(listener)[-1] == ("drained", 2, 24_000)


def test_a_flush_keeps_what_was_heard_and_drops_what_still_comes() -> None:
    listener = PacedListener(HZ)
    listener.audio(1, SECOND, 0.0)
    listener.flush(1, 0.25)
    listener.audio(1, SECOND, 0.3)
    listener.audio_end(1, 0.3)
    listener.flush(1, 0.4)
    assert marks(listener)[-1] == ("flushed", 1, 6_000)
    assert listener.idle
    assert len(listener.heard) == 12_000


def test_the_end_of_a_response_may_be_said_twice() -> None:
    listener = PacedListener(HZ)
    listener.audio(1, SECOND, 0.0)
    listener.audio_end(1, 0.0)
    listener.tick(1.0)
    listener.audio_end(1, 1.5)
    assert [event for event, _, _ in marks(listener)] == ["start", "drained"]
    assert listener.idle


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0.0, 0.5), st.integers(1, 6_000)), max_size=30))
def test_whatever_comes_the_counts_only_grow_and_every_response_ends_once(steps: list[tuple[int, float, int]]) -> None:
    listener = PacedListener(HZ)
    now, newest, sent = 0.0, 1, 0
    for action, wait, samples in steps:
        now += wait
        if action < 2:
            listener.audio(newest, bytes(2 * samples), now)
            sent += 2 * samples
        elif action == 2:
            listener.audio_end(newest, now)
            newest += 1
        else:
            listener.flush(newest, now)
            newest += 1
    listener.audio_end(newest, now)
    while (due := listener.deadline()) is not None:
        listener.tick(due)
    assert listener.idle
    assert len(listener.heard) <= sent
    seen: dict[int, int] = {}
    over: set[int] = set()
    for mark in listener.take():
        assert mark.response not in over
        assert mark.played >= seen.get(mark.response, 0)
        assert mark.queued >= 0
        seen[mark.response] = mark.played
        if mark.event in ("drained", "flushed"):
            over.add(mark.response)
