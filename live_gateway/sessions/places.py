"""The order of what one live session stores: places in a line, some of them kept for later.

Pure: time is an argument (seconds, monotonic), and nothing waits here.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Generic, TypeVar

from live_gateway.errors import StorageError
from live_gateway.events import Event

PlaceT = TypeVar("PlaceT", bound="Place")


class PlaceState(Enum):
    """What has become of a place. Every place leaves the line as `TAKEN`, `RELEASED` or `EXPIRED`."""

    RESERVED = "reserved"
    FILLED = "filled"
    TAKEN = "taken"
    RELEASED = "released"
    EXPIRED = "expired"


class Place:
    """A place in the line. `expires`: the time from which an unfilled place counts as given up."""

    __slots__ = ("event", "expires", "state")

    def __init__(self, expires: float, event: Event | None = None) -> None:
        self.expires = expires
        self.event = event
        self.state = PlaceState.RESERVED if event is None else PlaceState.FILLED

    def fill(self, event: Event) -> None:
        """Put the event into the reserved place. Raises `StorageError` when the place was filled, released or given up."""
        if self.state is not PlaceState.RESERVED:
            raise StorageError(f"the place kept for this event is {self.state.value}; the event is not stored")
        self.event = event
        self.state = PlaceState.FILLED

    def release(self) -> bool:
        """Give the place up; whether it was still reserved."""
        if self.state is not PlaceState.RESERVED:
            return False
        self.state = PlaceState.RELEASED
        return True


class Line(Generic[PlaceT]):
    """At most `capacity` places, served strictly in the order in which they were taken."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._places: deque[PlaceT] = deque()

    def __len__(self) -> int:
        return len(self._places)

    def join(self, place: PlaceT) -> None:
        """Add a place at the end. Raises `StorageError` when the line is full."""
        if len(self._places) >= self._capacity:
            raise StorageError(f"{self._capacity} events of this session wait to be stored already; this one is refused")
        self._places.append(place)

    def take(self, now: float) -> PlaceT | None:
        """The next place to store, out of the line; None when the line is empty or its first place is reserved and not expired yet."""
        while self._places:
            first = self._places[0]
            if first.state is PlaceState.RESERVED and first.expires <= now:
                first.state = PlaceState.EXPIRED
            if first.state is PlaceState.RESERVED:
                return None
            self._places.popleft()
            if first.state is PlaceState.FILLED:
                first.state = PlaceState.TAKEN
                return first
        return None

    def wake_at(self) -> float | None:
        """When the reserved place at the front expires; None when nothing is reserved there."""
        if self._places and self._places[0].state is PlaceState.RESERVED:
            return self._places[0].expires
        return None

    def leave(self) -> list[PlaceT]:
        """Empty the line; the places that were filled and will not be stored. Reserved ones are given up."""
        left = [place for place in self._places if place.state is PlaceState.FILLED]
        for place in self._places:
            place.state = PlaceState.EXPIRED
        self._places.clear()
        return left
