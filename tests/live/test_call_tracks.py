"""Where the sound of a recorded call stands."""

from __future__ import annotations

import array
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from live_gateway.live.call_tracks import AHEAD_S, GAP_S, HOLD_S, LEAD_S, CallTracks

FRAME_S = 0.02


def sound(value: int, samples: int) -> bytes:
    return array.array("h", [value] * samples).tobytes()


def user(value: int, seconds: float = FRAME_S) -> bytes:
    return sound(value, round(seconds * 16_000))


def agent(value: int, seconds: float = FRAME_S) -> bytes:
    return sound(value, round(seconds * 24_000))


def sides(pieces: Any) -> tuple[list[int], list[int]]:
    """All that was taken, as samples of the user and of the agent."""
    left, right = array.array("h"), array.array("h")
    for of_user, of_agent in pieces:
        assert len(of_user) * 3 == len(of_agent) * 2
        left.frombytes(of_user)
        right.frombytes(of_agent)
    return left.tolist(), right.tolist()


def runs(samples: list[int], hz: int) -> list[tuple[int, int, int]]:
    """Value, first and end in milliseconds of everything that is not silence."""
    found: list[tuple[int, int, int]] = []
    for place, value in enumerate([*samples, 0]):
        if found and found[-1][2] == -1 and value != found[-1][0]:
            found[-1] = (found[-1][0], found[-1][1], place * 1000 // hz)
        if value and (not found or found[-1][2] != -1):
            found.append((value, place * 1000 // hz, -1))
    return found


def left_of(tracks: CallTracks, now: float) -> list[tuple[int, int, int]]:
    return runs(sides(tracks.finish(now))[0], 16_000)


def right_of(tracks: CallTracks, now: float) -> list[tuple[int, int, int]]:
    return runs(sides(tracks.finish(now))[1], 24_000)


def test_the_user_stands_where_it_arrived_and_a_pause_is_silence() -> None:
    tracks = CallTracks()
    for tick in range(10):
        tracks.heard(user(500), 1 + tick * FRAME_S)
    tracks.heard(user(600), 3.0)
    assert left_of(tracks, 4) == [(500, 980, 1180), (600, 2980, 3000)]


def test_frames_that_come_unevenly_stay_together() -> None:
    tracks = CallTracks()
    for tick in range(50):
        tracks.heard(user(500), 1 + tick * FRAME_S + (0.15 if tick % 7 == 3 else 0))
    ((value, first, end),) = left_of(tracks, 4)
    assert (value, end - first) == (500, 1000)


def test_what_a_network_held_back_is_moved_to_where_it_was_spoken() -> None:
    tracks = CallTracks()
    tracks.heard(user(500), 1.0)
    for _ in range(40):
        tracks.heard(user(600), 1.8)  # 0.8 s that stood in the network
    tracks.heard(user(700), 1.82)
    assert left_of(tracks, 2) == [(500, 980, 1000), (600, 1000, 1800), (700, 1800, 1820)]


def test_a_clock_that_is_fast_gives_the_time_back_in_pauses() -> None:
    tracks = CallTracks()
    tracks.heard(user(500, 2.0), 0.0)  # runs two seconds ahead
    now = 0.0
    for _ in range(200):
        now += FRAME_S
        tracks.heard(user(1), now)
        sides(tracks.take(now))
    assert tracks.user.end / 16_000 - now <= LEAD_S + FRAME_S
    tracks.heard(user(700), now + FRAME_S)
    (value, first, _) = left_of(tracks, 9)[-1]
    assert value == 700
    assert first / 1000 - now <= LEAD_S + 2 * FRAME_S


@pytest.mark.parametrize("value", [500, -500])
def test_a_clock_that_is_fast_costs_no_speech(value: int) -> None:
    tracks = CallTracks()
    tracks.heard(user(value, 2.0), 0.0)
    for tick in range(50):
        tracks.heard(user(value), tick * FRAME_S)
    assert sum(sample == value for sample in sides(tracks.finish(9))[0]) == 3 * 16_000


def test_no_drift_adds_up_in_an_hour() -> None:
    tracks = CallTracks()
    worst, frames = 0.0, 180_000
    for tick in range(frames):
        now = (tick + 1) * FRAME_S * 1.0001  # a microphone that is 100 ppm slow
        tracks.heard(user(500), now)
        if tick % 50 == 0:
            for _ in tracks.take(now):
                pass
        worst = max(worst, abs(now - tracks.user.end / 16_000))
    assert worst <= GAP_S + FRAME_S


def test_answers_queue_behind_each_other_from_when_they_came() -> None:
    tracks = CallTracks()
    tracks.spoken(1, 0, agent(1, 0.5), 1.0)
    tracks.spoken(1, 12_000, agent(2, 0.5), 1.01)
    tracks.spoken(2, 0, agent(3, 0.5), 1.02)
    tracks.spoken(3, 0, agent(4, 0.5), 4.0)
    assert right_of(tracks, 5) == [(1, 1000, 1500), (2, 1500, 2000), (3, 2000, 2500), (4, 4000, 4500)]


def test_dropped_sound_of_the_agent_keeps_its_place() -> None:
    tracks = CallTracks()
    tracks.spoken(1, 0, agent(1, 0.5), 1.0)
    tracks.spoken(1, 24_000, agent(2, 0.5), 1.0)
    assert right_of(tracks, 5) == [(1, 1000, 1500), (2, 2000, 2500)]


def test_an_interrupted_answer_ends_where_it_was_heard_and_the_next_moves_up() -> None:
    tracks = CallTracks()
    tracks.spoken(1, 0, agent(1, 10), 1.0)
    tracks.spoken(2, 0, agent(2, 0.5), 3.2)
    tracks.ended(1, 2 * 24_000)
    assert right_of(tracks, 5) == [(1, 1000, 3000), (2, 3200, 3700)]


def test_an_answer_stands_where_the_listener_says_that_it_played() -> None:
    tracks = CallTracks()
    tracks.spoken(1, 0, agent(1, 1), 1.0)
    tracks.mark(1, 0, 1.3)
    tracks.mark(1, 12_000, 1.85)  # within what a network may do
    assert right_of(tracks, 5) == [(1, 1300, 2300)]


def test_a_player_that_ran_dry_leaves_silence_there() -> None:
    tracks = CallTracks()
    tracks.spoken(1, 0, agent(1, 1), 1.0)
    tracks.mark(1, 0, 1.0)
    tracks.mark(1, 12_000, 2.0)  # half a second late
    assert right_of(tracks, 5) == [(1, 1000, 1500), (1, 2000, 2500)]


def test_a_mark_moves_nothing_that_was_taken() -> None:
    tracks = CallTracks()
    tracks.spoken(1, 0, agent(1, 3), 1.0)
    before = sides(tracks.take(3.0))
    tracks.mark(1, 0, 3.0)
    tracks.ended(1, 24_000 // 2)
    after = sides(tracks.finish(4.0))
    assert runs(before[1] + after[1], 24_000) == [(1, 1000, 2000)]


def test_what_there_is_no_room_for_is_silence_in_its_place_and_counted() -> None:
    tracks = CallTracks()
    for second in range(AHEAD_S + 20):  # nothing is taken: the disk hangs
        tracks.heard(user(500, 1), second + 1.0)
        tracks.spoken(1, second * 24_000, agent(1, 1), float(second))
    assert tracks.user.kept == AHEAD_S * 32_000
    assert tracks.agent.kept == AHEAD_S * 48_000
    assert tracks.lost_ms == 40_000
    assert sum(len(left) for left, _ in tracks.take(AHEAD_S + 21.0)) == (AHEAD_S + 20) * 32_000
    tracks.heard(user(700, 1), AHEAD_S + 22.0)
    assert left_of(tracks, AHEAD_S + 22.0) == [(700, 1000, 2000)]  # from second 320, up to which was taken


step = st.one_of(
    st.tuples(st.just("heard"), st.integers(0, 800)),
    st.tuples(st.just("spoken"), st.integers(0, 1200)),
    st.tuples(st.just("mark"), st.integers(0, 5000)),
    st.tuples(st.just("ended"), st.one_of(st.none(), st.integers(0, 5000))),
    st.tuples(st.just("take"), st.none()),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 3), step), max_size=60))
def test_whatever_comes_both_sides_are_as_long_as_the_call_and_nothing_overlaps(steps: list[tuple[float, tuple[str, Any]]]) -> None:
    tracks, now, response, pos = CallTracks(), 0.0, 1, 0
    left: list[int] = []
    right: list[int] = []
    for value, (pause, (what, count)) in enumerate(steps, start=1):
        now += pause
        match what:
            case "heard":
                tracks.heard(sound(value, count), now)
            case "spoken":
                tracks.spoken(response, pos, sound(value, count), now)
                pos += count
            case "mark":
                tracks.mark(response, min(count, pos), now)
            case "ended":
                tracks.ended(response, count)
                response, pos = response + 1, 0
            case _:
                pieces = sides(tracks.take(now))
                left += pieces[0]
                right += pieces[1]
                assert len(left) <= max(0, now - HOLD_S) * 16_000 + 2
    pieces = sides(tracks.finish(now))
    left += pieces[0]
    right += pieces[1]
    assert len(left) * 3 == len(right) * 2
    assert len(left) >= int(now * 8000) * 2
    for samples in (left, right):
        assert (values := [value for value in samples if value]) == sorted(values)
    assert (tracks.user.kept, tracks.agent.kept) == (0, 0)
