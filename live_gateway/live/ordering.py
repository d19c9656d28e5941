"""The order of the record: events in the order in which the conversation was heard.

A model calls a tool while the words around the call are still coming in. Recorded as it arrives, the call would stand before the words it
followed. So calls and responses are held while a transcription is open. Pure: an event goes in, the events that may be recorded and yielded
now come out. Nothing is ever lost, nothing comes out twice.

Rules, each a property in the tests (`~` partial, capitals complete):

* A partial transcription opens its direction, input or output; a complete one closes it. An empty partial opens nothing; a partial that
  says it is finished takes its transcription back and closes it without a record.
* An event with a call or a response that arrives while a direction is open is held, and waits for exactly the directions open when it
  arrived. One that opens later does not delay it: `in~ call resp out~ IN OUT` gives `IN call resp OUT`.
* A response whose call is still held waits for what its call waits for, so that it goes with its call.
* A complete transcription comes out first, then the held events that waited for nothing else, as they arrived:
  `in~ out~ call IN OUT` gives `IN OUT call`.
* A mark (turn complete, interrupted) and `flush` release everything, oldest first, and leave nothing open; the 65th held event and
  `release` (a person decided about a call) release everything too, but the words go on.
* Everything else passes straight through.

Two held events leave in the order in which they came, since a later one waits for at least as much as an earlier one. The one exception
is a response that goes with its call, past a call that came in between and waits for more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from live_gateway.content import Transcription
from live_gateway.events import Event

Direction = Literal["input", "output"]

MAX_HELD = 64
"""So many events are held at most; one more releases all of them."""


@dataclass(slots=True)
class _Held:
    event: Event
    calls: frozenset[str]
    waits_for: set[Direction]


class ChronologicalRelease:
    """Feed it every event of a live session, after the plugins and before the store, and record what it gives back, in that order.

    What becomes of a released event is not its business: one that cannot be stored holds up none of the others.
    """

    def __init__(self) -> None:
        self._open: dict[Direction, str] = {}
        self._held: list[_Held] = []

    @property
    def held(self) -> int:
        """How many events are held; never above `MAX_HELD`."""
        return len(self._held)

    @property
    def open(self) -> frozenset[Direction]:
        """The directions in which a transcription is forming."""
        return frozenset(self._open)

    def feed(self, event: Event) -> list[Event]:
        """The events that may be recorded and yielded now, in order. Empty when the event is held."""
        if event.turn_complete or event.interrupted:
            return self._mark(event)
        if closing := self._closed_by(event):
            return [event, *self._close(closing)]
        self._open_for(event)
        if self._open and (event.function_calls or event.function_responses):
            return self._hold(event)
        return [event]

    def release(self) -> list[Event]:
        """All held events, oldest first; the words that are open go on. For what must not wait for them."""
        return self._release_all()

    def refused(self, event: Event) -> list[Event]:
        """A plugin refused this event, so it is not recorded. What waited for it waits no longer and is given back."""
        if event.turn_complete or event.interrupted:
            return self.flush()
        return self._close(self._closed_by(event))

    def flush(self) -> list[Event]:
        """All held events, oldest first; nothing is open afterwards. For the end, the failure and the closing of the stream."""
        self._open.clear()
        return self._release_all()

    def _mark(self, event: Event) -> list[Event]:
        released = self.flush()
        return [event, *released] if event.transcription is not None and not event.partial else [*released, event]

    def _open_for(self, event: Event) -> None:
        if not event.partial:
            return
        if _has_text(event.input_transcription):
            self._open.setdefault("input", event.id)
        if _has_text(event.output_transcription):
            self._open.setdefault("output", event.id)

    def _closed_by(self, event: Event) -> set[Direction]:
        """By its transcription, or by its id where a plugin took the transcription away: pieces and whole have one id."""
        closed: set[Direction] = set()
        if _closes(event.input_transcription, event.partial):
            closed.add("input")
        if _closes(event.output_transcription, event.partial):
            closed.add("output")
        if not event.partial:
            closed.update(direction for direction, opener in self._open.items() if opener == event.id)
        return closed

    def _close(self, directions: set[Direction]) -> list[Event]:
        for direction in directions:
            self._open.pop(direction, None)
        for held in self._held:
            held.waits_for -= directions
        released = [held.event for held in self._held if not held.waits_for]
        self._held = [held for held in self._held if held.waits_for]
        return released

    def _hold(self, event: Event) -> list[Event]:
        calls = frozenset(call.id for call in event.function_calls if call.id)
        self._held.append(_Held(event, calls, self._waits_of(event)))
        return self._release_all() if len(self._held) > MAX_HELD else []

    def _waits_of(self, event: Event) -> set[Direction]:
        if not event.function_calls:
            answered = {response.id for response in event.function_responses}
            calls = [held.waits_for for held in self._held if not answered.isdisjoint(held.calls)]
            if calls:
                return set().union(*calls)
        return set(self._open)

    def _release_all(self) -> list[Event]:
        released = [held.event for held in self._held]
        self._held = []
        return released


def _has_text(transcription: Transcription | None) -> bool:
    return transcription is not None and bool(transcription.text)


def _closes(transcription: Transcription | None, partial: bool) -> bool:
    return transcription is not None and (not partial or bool(transcription.finished))
