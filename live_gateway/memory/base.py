"""What every memory can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from live_gateway.content import Content
from live_gateway.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEntry:
    """Something that was said. `timestamp`: seconds since the Unix epoch."""

    content: Content
    author: str
    timestamp: float
    session_id: str


class MemoryService(Protocol):
    """Remembers sessions of a user and finds what was said in them. A program adds sessions; no run does so by itself."""

    async def add(self, *, app_name: str, user_id: str, session_id: str, events: Sequence[Event]) -> None:
        """Remember a session; what was remembered of it before is replaced. What was said aloud counts like what was written."""
        ...

    async def search(self, *, app_name: str, user_id: str, query: str, limit: int = 20) -> Sequence[MemoryEntry]:
        """What fits the query best, best first; only this user's sessions of this app."""
        ...
