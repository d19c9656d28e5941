"""Memory in this process, searched by words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from live_gateway.content import Content, Part
from live_gateway.events import USER, Event
from live_gateway.memory.base import MemoryEntry

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class _Remembered:
    words: frozenset[str]
    entry: MemoryEntry


class InMemoryMemoryService:
    """A `MemoryService` that finds entries which share a word with the query, whatever their case: those that share most come first,
    newer ones before older ones. Gone when the process ends.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], dict[str, list[_Remembered]]] = {}

    async def add(self, *, app_name: str, user_id: str, session_id: str, events: Sequence[Event]) -> None:
        entries = [_remember(event, session_id) for event in events]
        self._kept.setdefault((app_name, user_id), {})[session_id] = [entry for entry in entries if entry is not None]

    async def search(self, *, app_name: str, user_id: str, query: str, limit: int = 20) -> Sequence[MemoryEntry]:
        wanted = _words(query)
        sessions = self._kept.get((app_name, user_id), {}).values()
        found = [(len(wanted & kept.words), kept.entry) for session in sessions for kept in session if wanted & kept.words]
        found.sort(key=lambda hit: (hit[0], hit[1].timestamp), reverse=True)
        return [entry for _, entry in found[:limit]]


def _remember(event: Event, session_id: str) -> _Remembered | None:
    if event.partial:
        return None
    texts = [part.text for part in (event.content.parts if event.content else None) or () if part.text and not part.thought]
    if not texts and event.transcription is not None and event.transcription.text:
        texts = [event.transcription.text]
    words = _words(" ".join(texts))
    if not words:
        return None
    content = Content(role=USER if event.author == USER else "model", parts=[Part(text=text) for text in texts])
    return _Remembered(words, MemoryEntry(content=content, author=event.author, timestamp=event.timestamp, session_id=session_id))


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))
