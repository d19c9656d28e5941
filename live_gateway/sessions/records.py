"""What every store does with an event before it takes it, and with a handle afterwards. No I/O here."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec

from live_gateway.errors import InvalidInput, SessionNotFound
from live_gateway.events import Event, decode_event, encode_event, replace
from live_gateway.sessions.base import Session
from live_gateway.sessions.state import StateDelta, check_delta, is_unicode, read_only, split_delta, thaw, without_temp


@dataclass(frozen=True, slots=True)
class Record:
    """An event ready to be stored: `body` is its JSON without `seq`, `event` what a reader of that JSON gets, `delta` its state changes."""

    event: Event
    body: bytes
    delta: StateDelta


MAX_NAME = 200
"""Longest id or name in characters: three of them must fit into one index row of every store."""

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Largest event, as JSON."""


def new_session_id() -> str:
    """A fresh session id: 128 random bits as 32 hex digits."""
    return uuid.uuid4().hex


def is_storable(text: str) -> bool:
    """Whether every store can hold this as a name: neither empty nor long, no NUL, no half of a surrogate pair."""
    return 0 < len(text) <= MAX_NAME and "\x00" not in text and is_unicode(text)


def check_names(**names: str) -> None:
    """Raise `InvalidInput` naming the first of these names that no store can hold."""
    for name, text in names.items():
        if not is_storable(text):
            raise InvalidInput(f"{name.replace('_', ' ')} is empty, longer than {MAX_NAME} characters, or not plain text")


def make_record(event: Event) -> Record:
    """Check an event and take a copy that shares nothing with it.

    The copy went through JSON, so whoever appends sees at once what a reader will see. A number that the event carries is dropped, `temp:`
    keys too. Raises `InvalidState` for a bad delta, `InvalidInput` for anything else that JSON cannot hold.
    """
    given = event.actions.state_delta
    check_delta(given)
    check_names(event_id=event.id, event_author=event.author, invocation_id=event.invocation_id or "none")
    changes: dict[str, Any] = {"seq": 0}
    if given:
        changes["actions"] = msgspec.structs.replace(event.actions, state_delta=thaw(without_temp(given)))
    try:
        body = encode_event(replace(event, **changes))
        copy = decode_event(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"the event cannot be stored as JSON ({type(error).__name__})") from error
    if len(body) > MAX_EVENT_BYTES:
        raise InvalidInput(f"the event has {len(body)} bytes; at most {MAX_EVENT_BYTES} are stored")
    return Record(copy, body, split_delta(copy.actions.state_delta))


def check_same_session(session: Session, stored_head: int) -> None:
    """Raise `SessionNotFound` when the handle knows more than is stored: its session was deleted and its id used anew."""
    if session.head_seq > stored_head:
        raise SessionNotFound(f"session {session.id!r} was deleted and made again; fetch it anew")


def advance(session: Session, events: Iterable[Event]) -> None:
    """Bring a handle up to date with stored events, given in order. What it already holds is skipped.

    The handle's state is that of its fetch with the deltas of the events after it, so it always agrees with `head_seq`.
    """
    delta: dict[str, Any] = {}
    for event in events:
        if event.seq == session.head_seq + 1:
            session.events.append(event)
            session.head_seq = event.seq
            session.last_update_time = event.timestamp
            delta.update(event.actions.state_delta)
    if delta:
        session.state = with_delta(session.state, delta)


def with_delta(state: Mapping[str, Any], delta: Mapping[str, Any]) -> Mapping[str, Any]:
    """A read-only state with these changes, prefixes included."""
    return MappingProxyType({**state, **read_only(delta)})
