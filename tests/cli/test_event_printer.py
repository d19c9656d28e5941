"""What the console shows of a run: every kind of event, and nothing twice."""

from __future__ import annotations

import io

import pytest

from live_gateway.cli.event_printer import EventPrinter, printable
from live_gateway.content import Blob, FunctionCall, FunctionResponse, Part, model_content
from live_gateway.events import Event, EventActions


def said(text: str, *, author: str = "agent", partial: bool = False) -> Event:
    return Event(author=author, content=model_content([Part(text=text)]), partial=partial)


def shown(*events: Event) -> str:
    stream = io.StringIO()
    printer = EventPrinter(stream)
    for event in events:
        printer.show(event)
    printer.finish()
    return stream.getvalue()


# contract: CLI-01
def test_pieces_are_shown_as_they_come_and_the_whole_not_again() -> None:
    assert shown(said("Once ", partial=True), said("upon.", partial=True), said("Once upon.")) == "agent      Once upon.\n"


# contract: CLI-01
def test_equal_texts_of_two_answers_are_both_shown() -> None:
    assert shown(said("Yes."), said("Yes.")) == "agent      Yes.\nagent      Yes.\n"
    again = shown(said("Yes.", partial=True), said("Yes."), said("Yes."))
    assert again == "agent      Yes.\nagent      Yes.\n"


def test_two_agents_that_speak_at_once() -> None:
    events = [
        said("a", author="one", partial=True),
        said("b", author="two", partial=True),
        said("a", author="one"),
        said("b", author="two"),
    ]
    assert shown(*events) == "one        a\ntwo        b\n"


def test_answer_that_was_stopped_ends_its_line_and_the_next_begins_anew() -> None:
    stream = io.StringIO()
    printer = EventPrinter(stream)
    printer.show(said("Once ", partial=True))
    printer.finish()
    printer.show(said("Fine."))
    assert stream.getvalue() == "agent      Once \nagent      Fine.\n"


# contract: EVT-06
def test_calls_responses_side_effects_and_control() -> None:
    call = Part(function_call=FunctionCall(id="1", name="move", args={"to": "Oslo"}))
    response = Part(function_response=FunctionResponse(id="1", name="move", response={"ok": True}))
    actions = EventActions(state_delta={"at": "Oslo"}, artifact_delta={"map": 0}, transfer_to_agent="pilot", escalate=True)
    events = [
        Event(author="agent", content=model_content([Part(text="I move."), call])),
        Event(author="agent", content=model_content([response]), actions=actions),
        Event(author="agent", content=model_content([Part(inline_data=Blob(data=b"abc", mime_type="image/png"))])),
        Event(author="agent", error_code="SAFETY", error_message="blocked"),
        Event(author="agent"),
    ]
    assert shown(*events).splitlines() == [
        "agent      I move.",
        'call       move(to="Oslo")',
        'result     move: {"ok": true}',
        'state      at="Oslo"',
        "artifact   map, version 0",
        "transfer   to pilot",
        "escalate   agent",
        "file       image/png, 3 bytes",
        "error      blocked (SAFETY)",
    ]


def test_thoughts_are_not_shown() -> None:
    thought = Event(author="agent", content=model_content([Part(text="hm", thought=True)]), partial=True)
    assert shown(thought) == ""


@pytest.mark.parametrize(
    ("text", "harmless"), [("a\x1b[2Jb", "a\ufffd[2Jb"), ("a\r\x07b", "a\ufffd\ufffdb"), ("a\n\tb é 你", "a\n\tb é 你")]
)
def test_nothing_steers_the_terminal(text: str, harmless: str) -> None:
    assert printable(text) == harmless
    assert shown(said(text)) == f"agent      {harmless}\n"
