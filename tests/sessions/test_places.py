"""The line of places against a model that anybody can check by eye."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from live_gateway.errors import StorageError
from live_gateway.events import Event
from live_gateway.sessions.places import Line, Place, PlaceState

CAPACITY = 6


@dataclass
class Model:
    """One place as the model sees it."""

    place: Place
    expires: float | None
    name: str | None
    gone: bool = field(default=False)


# contract: LIVE-15, LIVE-24
class Places(RuleBasedStateMachine):
    """Whatever is done in whatever order: places come out in the order in which they were taken, each once, late or released ones never."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.line: Line[Place] = Line(CAPACITY)
        self.model: list[Model] = []
        self.count = 0

    def _event(self) -> Event:
        self.count += 1
        return Event(author="a", id=str(self.count))

    def _join(self, place: Place, expires: float | None, name: str | None) -> None:
        if len(self.line) >= CAPACITY:
            with pytest.raises(StorageError, match="wait to be stored"):
                self.line.join(place)
            return
        self.line.join(place)
        self.model.append(Model(place, expires, name))

    @rule()
    def put(self) -> None:
        event = self._event()
        self._join(Place(0.0, event), None, event.id)

    @rule(patience=st.integers(1, 10))
    def reserve(self, patience: int) -> None:
        self._join(Place(self.now + patience), self.now + patience, None)

    @rule(seconds=st.integers(1, 6))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule(data=st.data())
    def fill(self, data: st.DataObject) -> None:
        if not self.model:
            return
        entry = data.draw(st.sampled_from(self.model))
        event = self._event()
        if entry.name is not None or entry.gone:
            with pytest.raises(StorageError, match="is not stored"):
                entry.place.fill(event)
        else:
            entry.place.fill(event)
            entry.name = event.id

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        if not self.model:
            return
        entry = data.draw(st.sampled_from(self.model))
        was_reserved = entry.name is None and not entry.gone
        assert entry.place.release() is was_reserved
        entry.gone = entry.gone or was_reserved

    @rule()
    def take(self) -> None:
        expected = None
        waiting = [entry for entry in self.model if entry.place.state is not PlaceState.TAKEN]
        for entry in waiting:
            if entry.name is None and entry.expires is not None and entry.expires <= self.now:
                entry.gone = True
            if entry.name is None and not entry.gone:
                break
            self.model.remove(entry)
            if not entry.gone:
                expected = entry.name
                break
        taken = self.line.take(self.now)
        assert (taken.event.id if taken is not None and taken.event is not None else None) == expected

    @invariant()
    def holds(self) -> None:
        assert len(self.line) == len(self.model) <= CAPACITY
        first = self.model[0] if self.model else None
        reserved = first is not None and first.name is None and not first.gone
        assert self.line.wake_at() == (first.expires if first is not None and reserved else None)


TestPlaces = Places.TestCase
TestPlaces.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)


@given(st.lists(st.booleans(), max_size=5))
def test_leaving_gives_back_what_was_filled(filled: list[bool]) -> None:
    line: Line[Place] = Line(CAPACITY)
    places = [Place(1.0, Event(author="a") if full else None) for full in filled]
    for place in places:
        line.join(place)
    assert line.leave() == [place for place, full in zip(places, filled, strict=True) if full]
    assert len(line) == 0
    for place in places:
        with pytest.raises(StorageError):
            place.fill(Event(author="a"))
