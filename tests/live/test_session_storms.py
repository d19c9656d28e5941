"""Random interleavings of everything that can happen to a live session. `LIVE_GATEWAY_STORMS=5000` plays more of them."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from live_gateway.content import user_content
from live_gateway.live.items import PlaybackMark
from live_gateway.models.live import (
    Activity,
    AudioOut,
    ContentOut,
    GenerationComplete,
    Interrupted,
    SpeechEnded,
    SpeechStarted,
    TextOut,
    Transcript,
    TurnComplete,
)
from live_gateway.testing.virtual_time import run
from tests.support.storm import TOOL_NAMES, Gust, check, weather

STORMS = int(os.environ.get("LIVE_GATEWAY_STORMS", "250"))

words = st.sampled_from(["one ", "two ", "three "])
messages: st.SearchStrategy[Any] = st.one_of(
    st.builds(Transcript, st.sampled_from(["user", "model"]), words, finished=st.booleans()),
    st.builds(Transcript, st.sampled_from(["user", "model"]), words),
    st.builds(lambda ms: AudioOut(bytes(48 * ms)), st.sampled_from([0, 40, 40, 2000])),
    st.builds(TextOut, words, thought=st.booleans()),
    st.just(ContentOut(user_content("picture"))),
    st.sampled_from([SpeechStarted(), SpeechEnded(500), Interrupted(), GenerationComplete(), TurnComplete(), TurnComplete()]),
)
marks = st.builds(
    PlaybackMark,
    st.sampled_from(["start", "pos", "drained", "flushed", "underrun"]),
    st.integers(0, 4),
    st.sampled_from([0, 480, 10**9]),
    st.sampled_from([0, 480, 10**9]),
)
gusts: st.SearchStrategy[Gust] = st.one_of(
    st.tuples(st.just("say"), st.lists(messages, min_size=1, max_size=6)),
    st.tuples(st.just("say"), st.lists(messages, min_size=1, max_size=6)),
    st.tuples(st.just("call"), st.lists(st.tuples(st.sampled_from(TOOL_NAMES), st.sampled_from([0, 0, 0, 1])), min_size=1, max_size=4)),
    st.tuples(st.just("uncall"), st.integers(0, 2)),
    st.tuples(st.just("send"), st.sampled_from([60.0, 60.0, 0.5, 0.001])),
    st.tuples(st.just("answer"), st.integers(0, 2)),
    st.tuples(st.just("audio"), st.integers(1, 100)),
    st.tuples(st.just("activity"), st.sampled_from(Activity)),
    st.tuples(st.just("interrupt"), st.none()),
    st.tuples(st.just("mark"), marks),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.0, 0.01, 0.3, 1.0, 3.0, 7.0])),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.0, 0.01, 0.3])),
    st.tuples(st.just("store"), st.sampled_from(["fail", "fail late", "quit", "slow", "block", "repair"])),
    st.tuples(st.just("plugin"), st.sampled_from([-1.0, -3.0, 0.0, 0.05, 2.0, 100.0])),
    st.tuples(st.just("uplink"), st.sampled_from(["slow", "stuck", "fine"])),
)
endings = st.sampled_from(["close", "leave", "raise", "cancelled", "model ends", "model fails", "model quits"])
STORM = settings(max_examples=STORMS, deadline=None, suppress_health_check=[HealthCheck.too_slow])


# contract: LIVE-10, LIVE-13, LIVE-15, LIVE-16, LIVE-17, LIVE-23, LIVE-24, LIVE-25, PLUG-06
@STORM
@given(st.lists(gusts, max_size=25), endings, st.booleans(), st.booleans())
def test_whatever_happens_nothing_is_lost_doubled_or_left_behind(storm: list[Gust], ending: str, with_plugin: bool, listens: bool) -> None:
    note(f"{storm}, then {ending}; plugin: {with_plugin}, listens: {listens}")
    check(run(weather(storm, ending, with_plugin=with_plugin, listens=listens)))


calm = gusts.filter(lambda gust: gust[0] not in {"store", "plugin", "uplink"})


# contract: LIVE-13, LIVE-16, LIVE-17
@STORM
@given(st.lists(calm, max_size=25), endings, st.booleans())
def test_where_nothing_fails_everything_is_recorded(storm: list[Gust], ending: str, with_plugin: bool) -> None:
    note(f"{storm}, then {ending}; plugin: {with_plugin}")
    seen = run(weather(storm, ending, with_plugin=with_plugin, listens=True))
    check(seen)
    assert [event.id for event in seen.sessions.appends] == [event.id for event in seen.kept]


moves: st.SearchStrategy[Gust] = st.one_of(
    st.tuples(st.just("transfer"), st.sampled_from(["other", "agent"])),
    st.tuples(st.just("transfer"), st.sampled_from(["other", "agent"])),
    st.tuples(st.just("opening"), st.sampled_from([0.0, 0.3, 2.0, 30.0])),
    gusts,
)


# contract: LIVE-17, LIVE-21, LIVE-23, LIVE-24, PLUG-06
# report: A58
@STORM
@given(st.lists(moves, max_size=20), st.sampled_from(["close", "leave", "raise", "cancelled"]), st.booleans())
def test_the_same_holds_while_the_session_moves_from_one_agent_to_the_other(storm: list[Gust], ending: str, with_plugin: bool) -> None:
    note(f"{storm}, then {ending}; plugin: {with_plugin}")
    check(run(weather(storm, ending, with_plugin=with_plugin, listens=True)))
