"""A store of sessions that fails, waits or is slow when the test wants it to."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from live_gateway.errors import StorageError
from live_gateway.events import Event
from live_gateway.sessions.base import Session, SessionService


class FaultySessionService:
    """Wraps a `SessionService`; without orders it does what the wrapped one does.

    appends: every event that was given to be stored, whether or not it was. stored: those that were. Partial events do not count.
    """

    def __init__(self, inner: SessionService) -> None:
        self._inner = inner
        self.appends: list[Event] = []
        self.stored: list[Event] = []
        self._failures: dict[int, tuple[Exception, bool]] = {}
        self._gate: asyncio.Event | None = None
        self._delay_s = 0.0
        self._broken: Exception | None = None

    def fail_append(self, nth: int = 1, error: Exception | None = None, *, after_storing: bool = False) -> None:
        """Let the n-th append from now on fail (1 is the next), once. With `after_storing` the event is in the store all the same: the
        answer was lost, not the event."""
        if nth < 1:
            raise ValueError(f"the next append is number 1; there is no number {nth}")
        self._failures[len(self.appends) + nth] = (error or StorageError("the store failed, as the test wanted"), after_storing)

    def block_appends(self, gate: asyncio.Event) -> None:
        """Let appends wait until the gate is open."""
        self._gate = gate

    def slow_appends(self, seconds: float) -> None:
        """Let every append take this long."""
        self._delay_s = seconds

    def break_down(self, error: Exception | None = None) -> None:
        """Let everything fail from now on, until `repair`."""
        self._broken = error or StorageError("the store is down, as the test wanted")

    def repair(self) -> None:
        """Take back every order."""
        self._broken = None
        self._failures.clear()
        self._gate = None
        self._delay_s = 0.0

    async def create(
        self, *, app_name: str, user_id: str, session_id: str | None = None, state: Mapping[str, Any] | None = None
    ) -> Session:
        self._check()
        return await self._inner.create(app_name=app_name, user_id=user_id, session_id=session_id, state=state)

    async def get(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        recent: int | None = None,
        after: float | None = None,
        after_seq: int | None = None,
    ) -> Session:
        self._check()
        return await self._inner.get(
            app_name=app_name, user_id=user_id, session_id=session_id, recent=recent, after=after, after_seq=after_seq
        )

    async def list(self, *, app_name: str, user_id: str | None = None) -> Sequence[Session]:
        self._check()
        return await self._inner.list(app_name=app_name, user_id=user_id)

    async def delete(self, *, app_name: str, user_id: str, session_id: str) -> None:
        self._check()
        await self._inner.delete(app_name=app_name, user_id=user_id, session_id=session_id)

    async def append_event(self, session: Session, event: Event) -> Event:
        if event.partial:
            return await self._inner.append_event(session, event)
        self.appends.append(event)
        failure, after_storing = self._failures.pop(len(self.appends), (None, False))
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        if self._gate is not None:
            await self._gate.wait()
        self._check()
        if failure is not None and not after_storing:
            raise failure
        stored = await self._inner.append_event(session, event)
        self.stored.append(stored)
        if failure is not None:
            raise failure
        return stored

    def _check(self) -> None:
        if self._broken is not None:
            raise self._broken
