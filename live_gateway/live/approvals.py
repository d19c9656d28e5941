"""The calls of a live session that wait for a person. They wait for nobody else: the conversation goes on, and the model hears nothing of
the call until it is decided, and then exactly one answer.

A decision takes effect when the store has it (`stored`). What the store refused as a second decision was made elsewhere, by a text run or
another process, and its result is recorded there; the model is told only that. A call that the model cancels, or that the end of the
session finds waiting, is recorded as cancelled at once, under the id that a decision would have, so that a late one is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from live_gateway.confirmation import CONFIRM, Decision, Question, Questions, asked_in, decision_id, question_parts
from live_gateway.content import Content, FunctionCall, Part, digest, function_responses
from live_gateway.errors import DuplicateEvent, ToolResponseNotExpected
from live_gateway.plugins.tool_call import ToolOutcome

MAX_QUESTIONS = 64
"""So many calls of a session may wait; one more fails."""


@dataclass(frozen=True, slots=True)
class Outs:
    """What becomes of a call that is not to run. cancelled: record it, under this event id unless that is taken. elsewhere: tell the model
    that somebody else decided."""

    cancelled: Callable[[FunctionCall, str | None], None]
    elsewhere: Callable[[FunctionCall], None]


@dataclass(slots=True)
class _Deciding:
    """A decision on its way to the store. handed_in: the store has been asked. cancelled: the model does not want the call any more."""

    decision: Decision
    handed_in: bool = False
    cancelled: bool = False


class Approvals:
    """The open questions of one live session, and the decisions that are on their way to the store."""

    def __init__(self, agent: str, invocation_id: str, outs: Outs) -> None:
        self._agent = agent
        self._invocation_id = invocation_id
        self._outs = outs
        self._questions = Questions()
        self._deciding: dict[str, _Deciding] = {}

    @property
    def room(self) -> int:
        """How many more calls may wait."""
        return MAX_QUESTIONS - len(self._questions.open()) - len(self._deciding)

    def ask(self, outcomes: Sequence[ToolOutcome]) -> tuple[Part, ...]:
        """The calls that ask for what waits in these outcomes, in their order. They are open from now on."""
        waiting = [outcome for outcome in outcomes if outcome.asks is not None]
        parts = question_parts((outcome.call, outcome.asks) for outcome in waiting if outcome.asks is not None)
        for outcome, part in zip(waiting, parts, strict=True):
            if (asking := part.function_call) is not None and asking.id:
                self._questions.add(Question(asking.id, outcome.call, self._agent, self._invocation_id, asked_in(asking)))
        return tuple(parts)

    def concerns(self, content: Content) -> bool:
        """Whether a message answers a question, of this session or not."""
        return any(
            response.name == CONFIRM or self._questions.get(response.id or "") is not None for response in function_responses(content)
        )

    def answered(self, content: Content) -> list[Decision]:
        """What a message decides. Raises as `Questions.decisions`, and `ToolResponseNotExpected` where something else is in it."""
        decisions = self._questions.decisions(content)
        if len(decisions) != len(content.parts or ()):
            raise ToolResponseNotExpected("decisions about calls and other content are sent in messages of their own")
        return decisions

    def waiting(self, call_id: str, shown: str) -> Question:
        """The open question about a call. shown: digest of the arguments that the person saw. Raises `ToolResponseNotExpected`."""
        question = self._questions.waiting(call_id)
        if question is None:
            raise ToolResponseNotExpected("no call of that id waits for a decision")
        if digest(question.call.args) != shown:
            raise ToolResponseNotExpected("the call that waits has other arguments than those that were shown")
        return question

    def take(self, decisions: Sequence[Decision]) -> None:
        """These are being decided: nobody else here decides about them."""
        for decision in decisions:
            self._questions.remove(decision.question.id)
            self._deciding[decision_id(decision.question.id)] = _Deciding(decision)

    def hand_in(self, decisions: Sequence[Decision]) -> None:
        """The store is about to get these. Raises `ToolResponseNotExpected` where a call was cancelled meanwhile."""
        deciding = [self._deciding.get(decision_id(decision.question.id)) for decision in decisions]
        if None in deciding:
            raise ToolResponseNotExpected("the call was cancelled")
        for one in deciding:
            if one is not None:
                one.handed_in = True

    def give_back(self, decisions: Sequence[Decision]) -> None:
        """Those that were not handed in are open again, unless their calls were cancelled meanwhile."""
        for decision in decisions:
            event_id = decision_id(decision.question.id)
            if (deciding := self._deciding.get(event_id)) is not None and not deciding.handed_in:
                del self._deciding[event_id]
                self._questions.add(decision.question)

    def stored(self, event_id: str) -> Decision | None:
        """The decision that takes effect now that this event is stored."""
        deciding = self._deciding.pop(event_id, None)
        if deciding is not None and deciding.cancelled:
            self._outs.cancelled(deciding.decision.question.call, None)
            return None
        return deciding.decision if deciding is not None else None

    def not_stored(self, event_id: str, error: Exception) -> None:
        """This event was not stored."""
        deciding = self._deciding.pop(event_id, None)
        if deciding is None:
            return
        question = deciding.decision.question
        if isinstance(error, DuplicateEvent):
            if not deciding.cancelled:
                self._outs.elsewhere(question.call)
        elif deciding.cancelled:
            self._outs.cancelled(question.call, event_id)
        else:
            self._questions.add(question)

    def cancel(self, call_ids: Collection[str] | None) -> None:
        """These calls are not wanted any more; None: no call is. One whose decision is on its way to the store is cancelled when that has
        arrived."""
        for question in self._questions.remove_about(call_ids):
            self._outs.cancelled(question.call, decision_id(question.id))
        for event_id, deciding in list(self._deciding.items()):
            call = deciding.decision.question.call
            if call_ids is not None and call.id not in call_ids:
                continue
            if deciding.handed_in:
                deciding.cancelled = True
            else:
                del self._deciding[event_id]
                self._outs.cancelled(call, event_id)

    def end(self) -> None:
        """Cancel all, and wait for no decision that is still on its way."""
        self.cancel(None)
        for deciding in self._deciding.values():
            self._outs.cancelled(deciding.decision.question.call, None)
        self._deciding.clear()
