"""What a runner looks up in a session's past, kept as an index so that a run need not read the past again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from live_gateway.confirmation import Questions
from live_gateway.content import Content, function_responses
from live_gateway.errors import InvalidInput
from live_gateway.events import Event

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
    """The calls of a session by id (the newest of an id), the scopes that are open, the most recent last, and what a person is asked."""

    callers: dict[str, Caller] = field(default_factory=dict)
    open_scopes: dict[str, None] = field(default_factory=dict)
    questions: Questions = field(default_factory=Questions)
    seen: int = 0

    def follow(self, events: Sequence[Event]) -> None:
        """Take in the events that were not seen yet. `events` is the whole session."""
        for event in events[self.seen :]:
            self.questions.follow(event)
            for call in event.function_calls:
                if call.id:
                    self.callers[call.id] = Caller(event.author, event.invocation_id)
            if event.isolation_scope:
                self.open_scopes.pop(event.isolation_scope, None)
                if not _finishes_task(event):
                    self.open_scopes[event.isolation_scope] = None
        self.seen = len(events)

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


def _finishes_task(event: Event) -> bool:
    return any(
        response.name == FINISH_TASK and (response.response or {}).get("result") == FINISHED for response in event.function_responses
    )
