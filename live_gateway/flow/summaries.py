"""Puts stored summaries in the place of what they cover. Works by sequence number, never by time."""

from __future__ import annotations

from collections.abc import Sequence

from live_gateway.content import Content
from live_gateway.events import Event, EventActions, replace


def apply_summaries(events: Sequence[Event], agent: str) -> list[Event]:
    """The events with every covered range replaced by its summary, as a turn of the agent where the first covered event stood.

    A wider summary replaces a narrower one. An event that a summary's writer did not see stays, and so does a call whose response is
    outside of the range, with everything that answers it.
    """
    records = _widest([event for event in events if event.actions.compaction is not None])
    covered: dict[str, Event] = {}
    for event in events:
        record = next((record for record in records if _covers(record, event)), None)
        if record is not None:
            covered[event.id] = record
    for event in _still_needed(events, covered):
        covered.pop(event.id, None)
    shown: list[Event] = []
    told: set[str] = set()
    for event in events:
        record = covered.get(event.id)
        if record is not None and record.id not in told:
            told.add(record.id)
            shown.append(_summary(record, agent))
        if record is None and event.actions.compaction is None:
            shown.append(event)
    return shown


def _widest(records: list[Event]) -> list[Event]:
    kept: list[Event] = []
    for record in sorted(records, key=lambda event: (_width(event), event.seq), reverse=True):
        if not any(_inside(record, wider) for wider in kept):
            kept.append(record)
    return sorted(kept, key=lambda event: event.seq)


def _width(record: Event) -> int:
    compaction = record.actions.compaction
    return 0 if compaction is None else compaction.last_seq - compaction.first_seq


def _inside(record: Event, wider: Event) -> bool:
    inner, outer = record.actions.compaction, wider.actions.compaction
    if inner is None or outer is None or not _same_place(record, wider):
        return False
    return outer.first_seq <= inner.first_seq and inner.last_seq <= outer.last_seq


def _covers(record: Event, event: Event) -> bool:
    compaction = record.actions.compaction
    if compaction is None or event.actions.compaction is not None or not _same_place(record, event):
        return False
    return compaction.first_seq <= event.seq <= compaction.last_seq and event.seq not in compaction.excluded


def _same_place(one: Event, other: Event) -> bool:
    return (one.branch or "") == (other.branch or "") and (one.isolation_scope or "") == (other.isolation_scope or "")


def _still_needed(events: Sequence[Event], covered: dict[str, Event]) -> list[Event]:
    """The covered calls that an uncovered response answers, and the covered responses to those calls."""
    wanted = {response.id for event in events if event.id not in covered for response in event.function_responses}
    calls = [event for event in events if event.id in covered and any(call.id in wanted for call in event.function_calls)]
    answered = {call.id for event in calls for call in event.function_calls}
    responses = [e for e in events if e.id in covered and any(response.id in answered for response in e.function_responses)]
    return calls + responses


def _summary(record: Event, agent: str) -> Event:
    compaction = record.actions.compaction
    content = compaction.content if compaction is not None else None
    turn = Content(role="model", parts=content.parts) if content is not None else None
    return replace(record, author=agent, content=turn, actions=EventActions())
