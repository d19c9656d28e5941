"""The ordering rule as properties: nothing lost, nothing twice, each held event waits for what was open when it arrived."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from live_gateway.events import Event
from live_gateway.live.ordering import MAX_HELD, ChronologicalRelease
from tests.support.ordering import OPS, TOKENS, call, response


@dataclass
class Trace:
    """What was fed and when each event came out. A step is one `feed`; the last one is the flush."""

    events: list[Event] = field(default_factory=list)
    ops: list[str] = field(default_factory=list)
    released_at: dict[int, int] = field(default_factory=dict)
    output: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)


def run(ops: list[tuple[str, int]]) -> Trace:
    order, trace, calls = ChronologicalRelease(), Trace(), 0
    index: dict[int, int] = {}

    def note(released: list[Event], step: int) -> None:
        for event in released:
            assert index[id(event)] not in trace.released_at, "came out twice"
            trace.released_at[index[id(event)]] = step
            trace.output.append(index[id(event)])

    for step, (op, choice) in enumerate(ops):
        if op == "call":
            event = call(f"c{calls}")
            calls += 1
        elif op == "resp":
            event = response(f"c{choice % (calls + 1)}")
        elif op == "both":
            event = response(f"c{choice % (calls + 1)}", f"c{choice // 7 % (calls + 1)}")
        else:
            event = TOKENS[op]()
        trace.events.append(event)
        trace.ops.append(op)
        index[id(event)] = step
        note(order.feed(event), step)
        trace.held.append(order.held)
    note(order.flush(), len(ops))
    return trace


def closing_step(trace: Trace, start: int, direction: str) -> int:
    """When the transcription of this direction that is open after step `start` closes."""
    closers = {"in": "IN", "out": "OUT"}
    for step in range(start + 1, len(trace.ops)):
        if trace.ops[step] in (closers[direction], "done", "stop"):
            return step
    return len(trace.ops)


def open_before(trace: Trace, step: int) -> set[str]:
    opened: set[str] = set()
    for op in trace.ops[:step]:
        if op in ("in~", "out~"):
            opened.add(op[:-1])
        elif op in ("IN", "OUT"):
            opened.discard(op.lower())
        elif op in ("done", "stop"):
            opened.clear()
    return opened


def due_steps(trace: Trace) -> list[int]:
    """When each event has to come out, by the words of LIVE-10 to 13, from the whole script at once."""
    due: list[int] = []
    for step, event in enumerate(trace.events):
        opened = open_before(trace, step)
        answered = {r.id for r in event.function_responses}
        its_calls = [
            due[earlier]
            for earlier, other in enumerate(trace.events[:step])
            if due[earlier] >= step and any(c.id in answered for c in other.function_calls)
        ]
        if not (event.function_calls or event.function_responses) or not opened:
            due.append(step)
        elif its_calls:
            due.append(max(its_calls))
        else:
            due.append(max(closing_step(trace, step, direction) for direction in opened))
    return due


scripts = st.lists(st.tuples(st.sampled_from(OPS), st.integers(0, 1000)), max_size=40)


# contract: LIVE-10, LIVE-11, LIVE-12, LIVE-13
@given(scripts)
def test_each_event_comes_out_exactly_when_what_it_waited_for_is_over(ops: list[tuple[str, int]]) -> None:
    trace = run(ops)
    assert [trace.released_at[step] for step in range(len(ops))] == due_steps(trace)


# contract: LIVE-11, LIVE-13
@given(scripts)
def test_nothing_is_lost_and_held_events_keep_their_order(ops: list[tuple[str, int]]) -> None:
    trace = run(ops)
    assert sorted(trace.output) == list(range(len(ops)))
    held = [step for step in trace.output if trace.events[step].function_calls or trace.events[step].function_responses]
    calls = [step for step in held if trace.events[step].function_calls]
    assert calls == sorted(calls)
    for place, later in enumerate(held):
        overtaken = [step for step in held[place + 1 :] if step < later]
        if overtaken:  # only a response with its call, past what waits for more
            assert trace.events[later].function_responses
            assert all(trace.released_at[step] > trace.released_at[later] for step in overtaken)


# contract: LIVE-11, LIVE-16
@given(scripts)
def test_the_words_come_before_the_calls_that_waited_and_those_before_the_mark(ops: list[tuple[str, int]]) -> None:
    trace = run(ops)
    place = {step: n for n, step in enumerate(trace.output)}
    for step, released in trace.released_at.items():
        if released in (step, len(ops)):
            continue
        if trace.ops[released] in ("IN", "OUT"):
            assert place[released] < place[step]
        else:
            assert place[step] < place[released]


# contract: LIVE-13
@given(st.lists(st.tuples(st.sampled_from([op for op in OPS if op != "text"]), st.integers(1, 40)), max_size=12))
def test_the_hold_is_bounded_and_still_loses_nothing(bursts: list[tuple[str, int]]) -> None:
    trace = run([(op, n) for op, times in bursts for n in range(times)])
    assert max(trace.held, default=0) <= MAX_HELD
    assert sorted(trace.output) == list(range(len(trace.events)))
    calls = [step for step in trace.output if trace.events[step].function_calls]
    assert calls == sorted(calls)
