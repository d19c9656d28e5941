"""Events of live sessions in short notation, for tests of their order."""

from __future__ import annotations

from collections.abc import Callable

from live_gateway.content import Content as ContentOf
from live_gateway.content import FunctionCall, FunctionResponse, Part, Transcription, model_content
from live_gateway.events import Event
from live_gateway.live.ordering import ChronologicalRelease, Direction


def words(direction: Direction, text: str, *, partial: bool, item: str = "") -> Event:
    transcription = Transcription(text=text, finished=not partial)
    return Event(
        author="user" if direction == "input" else "agent",
        id=item or f"{direction} {text}",
        partial=partial,
        input_transcription=transcription if direction == "input" else None,
        output_transcription=transcription if direction == "output" else None,
    )


def piece(direction: Direction, text: str = "x") -> Event:
    return words(direction, text, partial=True)


def whole(direction: Direction, text: str = "X") -> Event:
    return words(direction, text, partial=False)


def call(*ids: str, partial: bool = False) -> Event:
    parts = (Part(function_call=FunctionCall(id=call_id, name="f", args={})) for call_id in ids)
    return Event(author="agent", content=model_content(parts), partial=partial)


def response(*ids: str) -> Event:
    parts = [Part(function_response=FunctionResponse(id=call_id, name="f", response={"r": 1})) for call_id in ids]
    return Event(author="agent", content=ContentOf(role="user", parts=parts))


def mark(*, interrupted: bool = False) -> Event:
    return Event(author="agent", turn_complete=not interrupted, interrupted=interrupted)


def plain() -> Event:
    return Event(author="agent", content=model_content([Part(text="aside")]))


TOKENS: dict[str, Callable[[], Event]] = {
    "in~": lambda: piece("input"),
    "out~": lambda: piece("output"),
    "IN": lambda: whole("input"),
    "OUT": lambda: whole("output"),
    "call": lambda: call("c1"),
    "resp": lambda: response("c1"),
    "call2": lambda: call("c2"),
    "resp2": lambda: response("c2"),
    "done": mark,
    "stop": lambda: mark(interrupted=True),
    "text": plain,
}


OPS = ["in~", "out~", "IN", "OUT", "call", "resp", "both", "text", "done", "stop"]


def feed_all(order: ChronologicalRelease, events: list[Event]) -> list[Event]:
    return [released for event in events for released in order.feed(event)]
