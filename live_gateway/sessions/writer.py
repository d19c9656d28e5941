"""The one writer of a live session: everything that is stored goes through it, in the order in which places were taken.

A user's message takes its place before it is forwarded to the model and fills it after, so no answer stands before the message it answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator

from live_gateway.cancellation import ForeignCancellation, foreign_code
from live_gateway.errors import LiveSessionClosed, StorageError
from live_gateway.events import Event
from live_gateway.sessions.base import Session, SessionService
from live_gateway.sessions.places import Line, Place

CAPACITY = 1024
"""Most events that may wait to be stored, reserved places included."""

PATIENCE = 5.0
"""Seconds that a reserved place is kept unless its owner says otherwise."""


class Storing:
    """What becomes of one event: awaiting it gives the stored event or raises the store's error. It may be awaited never or often."""

    __slots__ = ("_future",)

    def __init__(self) -> None:
        self._future: asyncio.Future[Event] = asyncio.get_running_loop().create_future()

    def __await__(self) -> Generator[None, None, Event]:
        return asyncio.shield(self._future).__await__()

    def done(self) -> bool:
        """Whether it is decided."""
        return self._future.done()

    def settle(self, result: Event | Exception) -> None:
        """For the writer: decide it."""
        if isinstance(result, Event):
            self._future.set_result(result)
            return
        self._future.set_exception(result)
        self._future.exception()  # counts as seen, since nobody has to await it


class _Entry(Place):
    __slots__ = ("storing",)

    def __init__(self, expires: float, event: Event | None = None) -> None:
        super().__init__(expires, event)
        self.storing = Storing()


class Slot:
    """A place in the session's order, kept for an event that does not exist yet. Its owner fills or releases it in time."""

    __slots__ = ("_entry", "_wake")

    def __init__(self, entry: _Entry, wake: Callable[[], None]) -> None:
        self._entry = entry
        self._wake = wake

    def fill(self, event: Event) -> Storing:
        """Store the event at this place. Raises `StorageError` when the place was filled, released, or given up as too late."""
        self._entry.fill(event)
        self._wake()
        return self._entry.storing

    def release(self) -> None:
        """Give the place up; what stands behind it goes on. Does nothing when it is filled or gone."""
        if self._entry.release():
            self._wake()


class SessionWriter:
    """Appends to one session, one event after the other, through one handle.

    `put`, `reserve`, `Slot.fill` and `Slot.release` never wait. `run` does the work; start it in a task group. For every event exactly one
    of `on_stored(stored event)` and `on_failed(event, error)` is called, in order, before whoever awaits the `Storing` goes on. A failure
    concerns its event only.
    """

    def __init__(
        self,
        service: SessionService,
        session: Session,
        *,
        on_stored: Callable[[Event], None] = lambda event: None,
        on_failed: Callable[[Event, Exception], None] = lambda event, error: None,
        capacity: int = CAPACITY,
    ) -> None:
        self.session = session
        self._service = service
        self._on_stored = on_stored
        self._on_failed = on_failed
        self._line: Line[_Entry] = Line(capacity)
        self._joined = 0
        self._storing: _Entry | None = None
        self._closed = False
        self._changed = asyncio.Event()
        self._drains: list[tuple[int, asyncio.Future[None]]] = []

    def __len__(self) -> int:
        """How many events and reserved places are not decided yet."""
        return len(self._line) + (self._storing is not None)

    def put(self, event: Event) -> Storing:
        """Store the event after everything that has a place already. Raises `StorageError` when full, `LiveSessionClosed` when closed."""
        return self._join(0.0, event).storing

    def reserve(self, patience: float = PATIENCE) -> Slot:
        """Take the next place now and fill it later, within `patience` seconds; then it counts as released and a late fill raises.

        Raises `StorageError` when full, `LiveSessionClosed` when closed.
        """
        return Slot(self._join(asyncio.get_running_loop().time() + patience, None), self._changed.set)

    def close(self) -> None:
        """Take no more; `run` ends when everything that has a place is decided. Reserved places can still be filled."""
        self._closed = True
        self._changed.set()

    async def drain(self, within: float = 10.0) -> None:
        """Wait until everything that has a place now is stored, failed or given up. Raises `StorageError` after `within` seconds."""
        if not len(self):
            return
        drained: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._drains.append((self._joined, drained))
        try:
            async with asyncio.timeout(within):
                await drained
        except TimeoutError:
            raise StorageError(f"the store did not take everything within {within:g} s") from None

    async def run(self) -> None:
        """Store what has a place until closed and empty. Cancelled, it fails what is left."""
        try:
            while not (self._closed and not len(self._line)):
                self._storing = self._line.take(asyncio.get_running_loop().time())
                if self._storing is not None:
                    await self._store(self._storing)
                    self._storing = None
                else:
                    self._tell_drains()
                    await self._wait()
        finally:
            self._give_up()

    def _join(self, expires: float, event: Event | None) -> _Entry:
        if self._closed:
            raise LiveSessionClosed("the live session is closed; nothing more is stored")
        entry = _Entry(expires, event)
        self._line.join(entry)
        self._joined += 1
        self._changed.set()
        return entry

    async def _store(self, entry: _Entry) -> None:
        event = entry.event
        if event is None:
            raise AssertionError("a place that was taken out of the line is filled")
        try:
            with foreign_code("append_event"):
                stored = await self._service.append_event(self.session, event)
        except ForeignCancellation as error:
            self._failed(entry, event, StorageError(f"the store gave up: {error}"))
        except Exception as error:  # the edge to a store that may be anybody's; the next event may well succeed
            self._failed(entry, event, error)
        else:
            self._on_stored(stored)
            entry.storing.settle(stored)
        self._tell_drains()

    def _failed(self, entry: _Entry, event: Event, error: Exception) -> None:
        self._on_failed(event, error)
        entry.storing.settle(error)

    async def _wait(self) -> None:
        """Wait for a change, at most until the reserved place at the front expires."""
        self._changed.clear()
        if self._closed and not len(self._line):
            return
        try:
            async with asyncio.timeout_at(self._line.wake_at()):
                await self._changed.wait()
        except TimeoutError:
            pass  # the loop looks again and finds the place expired

    def _tell_drains(self) -> None:
        decided = self._joined - len(self._line)
        while self._drains and self._drains[0][0] <= decided:
            waiter = self._drains.pop(0)[1]
            if not waiter.done():
                waiter.set_result(None)

    def _give_up(self) -> None:
        self._closed = True
        left = [self._storing, *self._line.leave()]
        for entry in left:
            if entry is not None and entry.event is not None and not entry.storing.done():
                self._failed(entry, entry.event, StorageError("the live session ended before this was stored"))
        self._storing = None
        self._tell_drains()
