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


@dataclass(frozen=True, slots=True)
class Outs:
    """What becomes of a call that is not to run. cancelled: record it, under this event id unless that is taken. elsewhere: tell the model
    that somebody else decided."""

    cancelled: Callable[[FunctionCall, str | None], None]
    elsewhere: Callable[[FunctionCall], None]


class Approvals:
    """The open questions of one live session, and the decisions that are on their way to the store."""

    def __init__(self, agent: str, invocation_id: str, outs: Outs) -> None:
        self._agent = agent
        self._invocation_id = invocation_id
        self._outs = outs
        self._questions = Questions()
        self._deciding: dict[str, Decision] = {}
        self._handed_in: set[str] = set()

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
            self._deciding[decision_id(decision.question.id)] = decision

    def hand_in(self, decisions: Sequence[Decision]) -> None:
        """The store is about to get these. Raises `ToolResponseNotExpected` where a call was cancelled meanwhile."""
        ids = {decision_id(decision.question.id) for decision in decisions}
        if not ids <= self._deciding.keys():
            raise ToolResponseNotExpected("the call was cancelled")
        self._handed_in |= ids

    def give_back(self, decisions: Sequence[Decision]) -> None:
        """Those that were not handed in are open again, unless their calls were cancelled meanwhile."""
        for decision in decisions:
            event_id = decision_id(decision.question.id)
            if event_id not in self._handed_in and self._drop(event_id) is not None:
                self._questions.add(decision.question)

    def stored(self, event_id: str) -> Decision | None:
        """The decision that takes effect now that this event is stored."""
        return self._drop(event_id)

    def not_stored(self, event_id: str, error: Exception) -> None:
        """This event was not stored."""
        decision = self._deciding.get(event_id)
        if decision is None:
            return
        if isinstance(error, DuplicateEvent):
            self._drop(event_id)
            self._outs.elsewhere(decision.question.call)
        else:
            self._handed_in.discard(event_id)
            self.give_back([decision])

    def cancel(self, call_ids: Collection[str] | None = None) -> None:
        """The calls of these ids, or all, are no longer to run."""
        for question in self._questions.remove_about(call_ids):
            self._outs.cancelled(question.call, decision_id(question.id))
        for event_id, decision in list(self._deciding.items()):
            if call_ids is None or decision.question.call.id in call_ids:
                free = event_id not in self._handed_in
                self._drop(event_id)
                self._outs.cancelled(decision.question.call, event_id if free else None)

    def _drop(self, event_id: str) -> Decision | None:
        self._handed_in.discard(event_id)
        return self._deciding.pop(event_id, None)
