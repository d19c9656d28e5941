"""What a runner looks up in a session's past, kept as an index so that a run need not read the past again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from live_gateway.content import Content, function_responses
from live_gateway.errors import InvalidInput
from live_gateway.events import Event
from live_gateway.sessions.base import Session

FINISH_TASK = "finish_task"
FINISHED = "Task completed."
"""What the response of `finish_task` says when the task is done."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose call it was, and in which invocation."""

    agent: str
    invocation_id: str


@dataclass(slots=True)
class History:
    """The calls of a session by id (the newest of an id), and the scopes that are open, the most recent last."""

    callers: dict[str, Caller] = field(default_factory=dict)
    open_scopes: dict[str, None] = field(default_factory=dict)
    seen: int = 0
    last_id: str = ""

    def follow(self, events: Sequence[Event]) -> None:
        """Take in the events that were not seen yet. `events` is the whole session."""
        for event in events[self.seen :]:
            for call in event.function_calls:
                if call.id:
                    self.callers[call.id] = Caller(event.author, event.invocation_id)
            if event.isolation_scope:
                self.open_scopes.pop(event.isolation_scope, None)
                if not _finishes_task(event):
                    self.open_scopes[event.isolation_scope] = None
        if events:
            self.seen, self.last_id = len(events), events[-1].id

    def fits(self, events: Sequence[Event]) -> bool:
        """Whether these events go on where the index stands."""
        return self.seen <= len(events) and (self.seen == 0 or events[self.seen - 1].id == self.last_id)

    @property
    def open_scope(self) -> str | None:
        """The most recent scope that no `finish_task` closed."""
        return next(reversed(self.open_scopes), None)

    def caller(self, message: Content | None) -> Caller | None:
        """Who asked for the function responses in a message; None if nobody in this session did.

        Raises `InvalidInput` where they belong to calls of different agents or invocations.
        """
        ids = [response.id for response in function_responses(message) if response.id in self.callers]
        callers = {self.callers[call_id or ""] for call_id in ids}
        if len(callers) > 1:
            whose = ", ".join(f"{call_id}: {self.callers[call_id or ''].agent}" for call_id in ids)
            raise InvalidInput(f"answers to calls of different agents or invocations need a message each ({whose})")
        return next(iter(callers), None)


class Histories:
    """The histories of the sessions that ran lately: at most `limit`, the longest unused is forgotten first."""

    def __init__(self, limit: int = 1024) -> None:
        self._limit = limit
        self._kept: OrderedDict[tuple[str, str], History] = OrderedDict()

    def of(self, session: Session) -> History:
        """The history of a session that holds all of its events, brought up to date."""
        key = (session.user_id, session.id)
        history = self._kept.get(key)
        if history is None or not history.fits(session.events):
            history = self._kept[key] = History()
        self._kept.move_to_end(key)
        history.follow(session.events)
        if len(self._kept) > self._limit:
            self._kept.popitem(last=False)
        return history


def _finishes_task(event: Event) -> bool:
    return any(
        response.name == FINISH_TASK and (response.response or {}).get("result") == FINISHED for response in event.function_responses
    )
