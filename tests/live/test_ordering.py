"""The chronological order of a live session's record: the rules as properties, then the contract's examples word for word."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

import pytest

from live_gateway.content import Blob, Part, Transcription, model_content
from live_gateway.events import Event, replace
from live_gateway.live.ordering import MAX_HELD, ChronologicalRelease
from live_gateway.live.transcript import TranscriptBuilder
from live_gateway.models.live import Transcript
from tests.support.ordering import TOKENS, call, feed_all, mark, piece, plain, response, whole, words


def release(script: str, order: ChronologicalRelease | None = None) -> str:
    """What comes out of a script of tokens, as tokens; pieces are left out, as in the contract's examples."""
    order = order or ChronologicalRelease()
    names: dict[int, str] = {}
    released: list[Event] = []
    kept: list[Event] = []  # keeps every event alive, so that no id() is used twice
    for token in script.split():
        event = TOKENS[token]()
        kept.append(event)
        names[id(event)] = token
        released += order.feed(event)
    return " ".join(names[id(event)] for event in released if not names[id(event)].endswith("~"))


# contract: LIVE-10, LIVE-11
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("in~ call resp out~ IN OUT", "IN call resp OUT"),
        ("out~ call OUT", "OUT call"),
        ("in~ out~ call IN OUT", "IN OUT call"),
        ("in~ out~ call OUT IN", "OUT IN call"),
        ("in~ out~ IN call OUT", "IN OUT call"),
        ("out~ in~ IN call OUT", "IN OUT call"),
        ("in~ call out~ IN call2 OUT", "IN call OUT call2"),
        ("in~ call IN resp out~ OUT", "IN call resp OUT"),
    ],
)
def test_examples_of_the_contract(script: str, expected: str) -> None:
    assert release(script) == expected


# contract: LIVE-11
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("in~ call out~ resp IN OUT", "IN call resp OUT"),
        ("in~ call out~ call2 resp resp2 IN OUT", "IN call resp OUT call2 resp2"),
        ("in~ call IN out~ resp OUT", "IN call OUT resp"),
    ],
)
def test_a_response_goes_with_its_call_while_that_is_held(script: str, expected: str) -> None:
    assert release(script) == expected


# contract: LIVE-11
def test_a_response_to_several_held_calls_waits_for_all_of_them() -> None:
    order = ChronologicalRelease()
    first, second, both = call("a"), call("b"), response("a", "b")
    order.feed(piece("input"))
    order.feed(first)
    order.feed(piece("output"))
    order.feed(second)
    order.feed(both)
    done = whole("input")
    assert order.feed(done) == [done, first]
    done = whole("output")
    assert order.feed(done) == [done, second, both]


# case: K-LIVE-05
def test_transcription_before_tool() -> None:
    order = ChronologicalRelease()
    events = [piece("output", "Hello"), call("c1"), whole("output", "Hello there.")]
    assert feed_all(order, events) == [events[0], events[2], events[1]]


# case: K-LIVE-06
# contract: LIVE-12
def test_no_transcription_in_progress() -> None:
    order = ChronologicalRelease()
    events = [call("c1"), response("c1"), plain()]
    assert [order.feed(event) for event in events] == [[event] for event in events]


# case: K-LIVE-08
def test_several_held_events_keep_their_order() -> None:
    order = ChronologicalRelease()
    events = [piece("output", "A"), call("c1"), response("c1"), call("c2"), whole("output", "AB")]
    assert [event for event in feed_all(order, events) if not event.partial] == [events[4], events[1], events[2], events[3]]


# report: C12
def test_a_complete_input_does_not_release_what_waits_for_the_output() -> None:
    order = ChronologicalRelease()
    a, tool, q, b, ab = piece("output", "a"), call("c1"), whole("input", "q"), piece("output", "b"), whole("output", "ab")
    assert feed_all(order, [a, tool, q, b, ab]) == [a, q, b, ab, tool]


# case: K-LIVE-14
def test_a_partial_tool_event_keeps_its_place() -> None:
    order = ChronologicalRelease()
    growing, final = call("c1", partial=True), call("c1")
    done = whole("output")
    assert feed_all(order, [piece("output"), growing, final, done])[1:] == [done, growing, final]


# case: K-LIVE-15
# contract: LIVE-12
def test_everything_else_passes_while_events_are_held() -> None:
    order = ChronologicalRelease()
    order.feed(piece("input"))
    order.feed(call("c1"))
    audio = Event(author="agent", content=model_content([Part(inline_data=Blob(data=b"\0\0", mime_type="audio/pcm;rate=24000"))]))
    for event in (audio, plain(), piece("output"), Event(author="agent", error_code="X")):
        assert order.feed(event) == [event]
    assert order.held == 1


# contract: LIVE-13
# case: K-LIVE-18, K-LIVE-19
@pytest.mark.parametrize("interrupted", [False, True])
def test_a_mark_releases_everything_before_itself(interrupted: bool) -> None:
    order = ChronologicalRelease()
    tool, answer, end = call("c1"), response("c1"), mark(interrupted=interrupted)
    feed_all(order, [piece("input"), piece("output"), tool, answer])
    assert order.feed(end) == [tool, answer, end]
    assert (order.held, order.open) == (0, frozenset())


# case: K-LIVE-13
def test_a_piece_on_the_mark_itself_does_not_hold_up_the_next_turn() -> None:
    order = ChronologicalRelease()
    odd = replace(piece("output", "done."), turn_complete=True)
    feed_all(order, [piece("output", "All "), odd])
    next_call = call("c9")
    assert order.feed(next_call) == [next_call]


# contract: LIVE-13
def test_a_complete_transcription_that_carries_the_mark_comes_before_what_waited() -> None:
    order = ChronologicalRelease()
    tool, end = call("c1"), replace(whole("output"), turn_complete=True)
    feed_all(order, [piece("output"), tool])
    assert order.feed(end) == [end, tool]


# contract: LIVE-13
# case: K-LIVE-10, K-LIVE-12
# report: A28
def test_flush_gives_everything_back_in_order_once() -> None:
    order = ChronologicalRelease()
    tool, answer = call("f"), response("f")
    feed_all(order, [piece("output", "Let me"), tool, answer])
    assert order.flush() == [tool, answer]
    assert order.flush() == []
    assert order.open == frozenset()


# contract: LIVE-13
# report: A29
def test_the_65th_held_event_releases_all_and_the_words_go_on() -> None:
    order = ChronologicalRelease()
    order.feed(piece("output"))
    calls = [call(f"c{n}") for n in range(MAX_HELD + 2)]
    assert feed_all(order, calls[:MAX_HELD]) == []
    assert order.held == MAX_HELD == 64
    assert order.feed(calls[MAX_HELD]) == calls[: MAX_HELD + 1]
    assert order.open == {"output"}
    done = whole("output")
    assert feed_all(order, [calls[-1], done]) == [done, calls[-1]]


# contract: LIVE-13
def test_what_must_not_wait_is_released_and_the_words_go_on() -> None:
    order = ChronologicalRelease()
    first, second, done = call("c1"), call("c2"), whole("output")
    order.feed(piece("output"))
    assert order.feed(first) == []
    assert (order.release(), order.release()) == ([first], [])
    assert feed_all(order, [second, done]) == [done, second]


# case: K-LIVE-22
def test_pieces_without_their_transcription_open_nothing() -> None:
    order = ChronologicalRelease()
    tool = call("c1")
    assert order.feed(replace(piece("output"), output_transcription=None)) != []
    assert order.feed(tool) == [tool]


# case: K-LIVE-22
def test_a_whole_whose_transcription_a_plugin_took_away_still_closes() -> None:
    order = ChronologicalRelease()
    tool = call("c1")
    bare = replace(words("output", "secret", partial=False, item="t1"), output_transcription=None)
    feed_all(order, [words("output", "sec", partial=True, item="t1"), tool])
    assert order.feed(bare) == [bare, tool]


# case: K-LIVE-21
# contract: LIVE-13
@pytest.mark.parametrize("refused", [whole("output"), mark(), mark(interrupted=True)])
def test_what_waited_for_a_refused_event_is_released(refused: Event) -> None:
    order = ChronologicalRelease()
    tool = call("c1")
    feed_all(order, [piece("output"), tool])
    assert order.refused(refused) == [tool]
    assert order.open == frozenset()


# case: K-LIVE-21
def test_a_refused_event_that_nobody_waits_for_releases_nothing() -> None:
    order = ChronologicalRelease()
    feed_all(order, [piece("output"), call("c1")])
    assert order.refused(plain()) == []
    assert order.refused(whole("input")) == []
    assert order.held == 1


# report: A36
def test_empty_pieces_open_nothing() -> None:
    order = ChronologicalRelease()
    tool = call("c1")
    assert feed_all(order, [piece("output", ""), tool])[1:] == [tool]


# contract: LIVE-13
def test_a_transcription_that_is_taken_back_holds_up_nothing() -> None:
    order = ChronologicalRelease()
    tool = call("c1")
    gone = replace(piece("input"), input_transcription=Transcription(text="", finished=True))
    feed_all(order, [piece("input", "hm"), tool])
    assert order.feed(gone) == [gone, tool]


# case: K-LIVE-24, K-LIVE-25
# contract: LIVE-15
def test_a_failed_append_of_the_releasing_transcription_does_not_stick_the_held_events() -> None:
    stored: list[Event] = []
    order = ChronologicalRelease()

    def append(event: Event) -> None:
        if event.output_transcription is not None:
            raise OSError("disk full")
        stored.append(event)

    failures = 0
    tool = call("test_func")
    for event in [piece("output", "Hello"), tool, whole("output", "Hello there."), response("test_func")]:
        for released in order.feed(event):
            try:
                if not released.partial:
                    append(released)
            except OSError:
                failures += 1
    assert failures == 1
    assert stored[0] == tool
    assert len(stored) == 2


class Session:
    """The builder and the order, put together as a live session does."""

    def __init__(self) -> None:
        ids = count(1)
        self.builder = TranscriptBuilder(agent="agent", invocation_id="i", new_id=lambda: f"t{next(ids)}", wall=lambda: 0.0)
        self.order = ChronologicalRelease()
        self.out: list[str] = []

    def say(self, role: str, text: str, *, finished: bool = False) -> None:
        self.feed(event for event, _ in self.builder.feed(Transcript("user" if role == "in" else "model", text, finished), 1))

    def mark(self, *, interrupted: bool = False) -> None:
        built = self.builder.interrupted() if interrupted else self.builder.turn_complete()
        self.feed([*(event for event, _ in built), mark(interrupted=interrupted)])

    def end(self) -> None:
        self.feed(event for event, _ in self.builder.end())
        self.out += map(describe, self.order.flush())

    def feed(self, events: Iterable[Event]) -> None:
        for event in events:
            self.out += map(describe, self.order.feed(event))


def describe(event: Event) -> str:
    if event.turn_complete or event.interrupted:
        return "done" if event.turn_complete else "stop"
    if event.function_calls:
        return f"call {event.function_calls[0].id}"
    if event.function_responses:
        return f"resp {event.function_responses[0].id}"
    side = "in" if event.input_transcription else "out"
    flag = "!" if event.custom_metadata.get("live", {}).get("incomplete") else ""
    text = event.transcription.text if event.transcription else None
    return f"{side}{'~' if event.partial else ''}{flag}:{text}"


# case: K-LIVE-13
def test_turn_complete_with_the_last_chunk() -> None:
    session = Session()
    session.say("out", "All ")
    session.say("out", "done.")
    session.mark()
    session.feed([call("c9")])
    assert session.out == ["out~:All ", "out~:done.", "out:All done.", "done", "call c9"]


# case: K-LIVE-19
# contract: LIVE-16
def test_interruption_completes_what_was_said_first() -> None:
    session = Session()
    session.say("out", "one ")
    session.say("out", "two")
    session.feed([call("c1")])
    session.mark(interrupted=True)
    assert session.out == ["out~:one ", "out~:two", "out:one two", "call c1", "stop"]


# case: K-LIVE-10
# report: A28
# contract: LIVE-13
def test_the_end_of_the_stream_loses_neither_words_nor_calls() -> None:
    session = Session()
    session.say("out", "Let me")
    session.feed([call("f"), response("f")])
    session.end()
    assert session.out == ["out~:Let me", "out!:Let me", "call f", "resp f"]


# report: A20
# contract: LIVE-16
def test_finished_is_never_waited_for() -> None:
    session = Session()
    session.say("in", "a")
    session.say("in", "b")
    session.mark()
    assert session.out == ["in~:a", "in~:b", "in:ab", "done"]


# report: A29, C12
def test_a_call_during_a_long_answer_is_recorded_after_it() -> None:
    session = Session()
    for n in range(300):
        session.say("out", f"{n} ")
        if n == 10:
            session.feed([call("c1"), response("c1")])
    assert session.order.held == 2
    session.say("in", "q", finished=True)
    assert session.order.held == 2
    session.mark()
    assert session.out[-4:] == [f"out:{''.join(f'{n} ' for n in range(300))}", "call c1", "resp c1", "done"]
