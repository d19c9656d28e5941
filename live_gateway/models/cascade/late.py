"""Answers to calls that nobody waits for any more: after an interruption, after too long, or more of a call that was answered already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from live_gateway.content import FunctionCall, FunctionResponse, FunctionResponseScheduling
from live_gateway.models.cascade.history import PENDING, History, with_end

_MAX = 64


class LateAnswers:
    """Which calls were left, and the answers to them that are still to be spoken about: of each call the newest, the oldest call first."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._left: dict[str, None] = {}
        self._waiting: dict[str, FunctionResponse] = {}

    def leave(self, calls: Sequence[FunctionCall], responses: Mapping[str, FunctionResponse]) -> None:
        """Nobody waits for these calls any more. They are told with the answers that they have; the others count as pending."""
        self._left |= dict.fromkeys(call.id or "" for call in calls if call.id not in responses)
        self._history.answered(calls, responses, PENDING)
        _shorten(self._left)

    def answer(self, response: FunctionResponse) -> None:
        """The answer to a call, which is dropped unless the call was left without one."""
        if response.id in self._left:
            del self._left[response.id or ""]
            self.add(response)

    def add(self, response: FunctionResponse) -> None:
        """Keep it to be spoken about, or, if it is a silent one, let it just be known."""
        call_id = response.id or ""
        waiting = self._waiting.pop(call_id, None)
        if response.scheduling != FunctionResponseScheduling.SILENT:
            self._waiting[call_id] = response
        elif response.will_continue is not False or "error" in (response.response or {}):
            self._history.answered_late([response])
        elif waiting is not None:
            self._waiting[call_id] = with_end(waiting, response)
        else:
            self._history.ended(response)
        _shorten(self._waiting)

    def tell(self) -> bool:
        """Put what waits at the end of the history, to be spoken about now; whether there was anything."""
        if not self._waiting:
            return False
        self._history.answered_late(self._waiting.values())
        self._waiting.clear()
        return True


def _shorten(entries: dict[str, FunctionResponse] | dict[str, None]) -> None:
    while len(entries) > _MAX:
        del entries[next(iter(entries))]
