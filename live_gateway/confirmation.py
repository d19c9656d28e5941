"""Calls that a person has to approve: the question, the decision, and what stored events say about both. Pure.

A tool that asks first is not run. Its agent makes a call of `adk_request_confirmation` instead, with an id of its own, that names the call
it is about; a person answers that one. What runs then is the *stored* call: a question that shows other arguments counts for nothing.

Every way out of a question is one event whose id follows from the question's: the answer, or the record that the call was cancelled. A
store refuses a second event of an id, so of two decisions, made anywhere, one is refused; and since the answer is stored before the tool
starts, a call is started at most once. A process that dies in between leaves an approval without a result, which is never run again.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from live_gateway.content import Content, FunctionCall, FunctionResponse, Part, digest, function_responses
from live_gateway.errors import DuplicateEvent, InvalidInput, ToolResponseNotExpected
from live_gateway.events import USER, Event

CONFIRM = "adk_request_confirmation"
"""The name of the call that asks."""

_DECISION = "decision-"

INTERRUPTED_S = 600.0
"""An approved call without a result is taken for interrupted after so many seconds; until then it may still be running somewhere."""

INTERRUPTED = "interrupted: the call was approved and started, and no result was recorded; it may have taken effect"
"""What is recorded of it, and told to the model."""


@dataclass(frozen=True, slots=True)
class ToolConfirmation:
    """What a person is asked, or answered. hint: words for the person. payload: data that goes with the question, or with the answer."""

    hint: str = ""
    confirmed: bool = False
    payload: Any = None


@dataclass(frozen=True, slots=True)
class Question:
    """A question that waits. id: of the call that asks. call: the stored call it is about. agent: who made both. event_id: what asked."""

    id: str
    call: FunctionCall
    agent: str
    invocation_id: str = ""
    asked: ToolConfirmation = field(default_factory=ToolConfirmation)
    event_id: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's answer to a question."""

    question: Question
    confirmation: ToolConfirmation

    def event(self, invocation_id: str, timestamp: float | None = None) -> Event:
        """The event that records it. Storing it is what decides."""
        return Event(
            author=USER,
            id=decision_id(self.question.id),
            invocation_id=invocation_id,
            timestamp=time.time() if timestamp is None else timestamp,
            content=Content(role=USER, parts=[Part(function_response=self.response())]),
            custom_metadata={"decided": {"call": self.question.call.id or "", "confirmed": self.confirmation.confirmed}},
        )

    def response(self) -> FunctionResponse:
        """The answer to the call that asked."""
        said: dict[str, Any] = {"confirmed": self.confirmation.confirmed}
        if self.confirmation.payload is not None:
            said["payload"] = self.confirmation.payload
        return FunctionResponse(id=self.question.id, name=CONFIRM, response=said)


@dataclass(frozen=True, slots=True)
class Decided:
    """What a message decided. waiting: other questions of the same run are open still, so its model is not asked yet."""

    decisions: tuple[Decision, ...]
    waiting: bool


def interruption(question: Question) -> Event:
    """The record of a call that was approved and came to nothing."""
    response = FunctionResponse(id=question.call.id, name=question.call.name, response={"error": INTERRUPTED})
    return Event(
        author=question.agent,
        id=f"interrupted-{question.id}",
        invocation_id=question.invocation_id,
        content=Content(role=USER, parts=[Part(function_response=response)]),
    )


def decision_id(question_id: str) -> str:
    """Id of the one event that may settle a question."""
    return f"{_DECISION}{question_id}"


def was_decided(event: Event, error: Exception) -> bool:
    """Whether an event was not stored because what it says about a question was said before, by somebody else."""
    return isinstance(error, DuplicateEvent) and event.id.startswith(_DECISION)


def rejected(tool: str | None) -> str:
    """What the model is told when a call of a tool was rejected."""
    return f"the call of tool {tool!r} was rejected by the user"


def question_parts(asks: Iterable[tuple[FunctionCall, ToolConfirmation]], signatures: Mapping[str, bytes] | None = None) -> list[Part]:
    """The calls that ask, one for each call, in this order. signatures: thought signatures by the id of the call."""
    parts: list[Part] = []
    for call, asked in asks:
        args = {
            "originalFunctionCall": {"id": call.id, "name": call.name, "args": dict(call.args or {})},
            "toolConfirmation": {"hint": asked.hint, "confirmed": False, "payload": asked.payload},
        }
        question = FunctionCall(id=f"adk-{uuid.uuid4()}", name=CONFIRM, args=args)
        parts.append(Part(function_call=question, thought_signature=(signatures or {}).get(call.id or "")))
    return parts


def original_call(question: FunctionCall) -> FunctionCall | None:
    """The call that a question says it is about; None where it names none."""
    named = (question.args or {}).get("originalFunctionCall") if question.name == CONFIRM else None
    if not isinstance(named, Mapping) or not isinstance(named.get("id"), str) or not named["id"]:
        return None
    args, name = named.get("args"), named.get("name")
    return FunctionCall(id=named["id"], name=name if isinstance(name, str) else None, args=dict(args) if isinstance(args, Mapping) else {})


def asked_in(question: FunctionCall) -> ToolConfirmation:
    """What a question asks."""
    asked = (question.args or {}).get("toolConfirmation")
    known: Mapping[str, Any] = asked if isinstance(asked, Mapping) else {}
    return ToolConfirmation(hint=str(known.get("hint") or ""), payload=known.get("payload"))


def read_answer(response: Mapping[str, Any] | None) -> ToolConfirmation:
    """What an answer says: `{"confirmed": true}`, or that under `response`, as JSON text or an object, or as an object under `payload`.
    Nothing at all is no. Raises `InvalidInput`."""
    said: Any = response or {}
    if "response" in said:
        said = _parsed(said["response"])
    elif "confirmed" not in said and isinstance(said.get("payload"), Mapping):
        said = said["payload"]
    if not isinstance(said, Mapping) or not isinstance(said.get("confirmed", False), bool):
        raise InvalidInput('a confirmation is answered with {"confirmed": true} or {"confirmed": false}')
    return ToolConfirmation(confirmed=said.get("confirmed", False), payload=said.get("payload"))


def _parsed(value: object) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value) or {}
    except (ValueError, RecursionError):
        raise InvalidInput("the answer to a confirmation has the key 'response', and its value is not JSON") from None


class Questions:
    """The questions of a session, from its events; `follow` takes each event once, in order."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[str, FunctionCall]] = {}
        self._open: dict[str, Question] = {}
        self._ids: set[str] = set()
        self._later: set[str] = set()
        self._approved: dict[str, tuple[Question, float]] = {}

    def __bool__(self) -> bool:
        return bool(self._open)

    def follow(self, event: Event) -> None:
        """Take in an event."""
        for call in event.function_calls:
            if call.name == CONFIRM and call.id:
                self._ask(event, call, call.id)
            elif call.id:
                self._calls[call.id] = (event.author, call)
                if call.id in event.long_running_tool_ids:
                    self._later.add(call.id)
        for response in event.function_responses:
            if response.id in self._open and event.author == USER:
                self._answer(event, response, self._open.pop(response.id or ""))
            elif response.id in self._calls and event.author != USER:
                self._settle(response.id or "")

    def add(self, question: Question) -> None:
        """A question is open that no event need be read for."""
        self._open[question.id] = question

    def get(self, question_id: str) -> Question | None:
        """The open question of an id."""
        return self._open.get(question_id)

    def remove(self, question_id: str) -> None:
        """A question is open no longer."""
        self._open.pop(question_id, None)

    def remove_about(self, call_ids: Collection[str] | None) -> list[Question]:
        """Close the questions about these calls, or all; those that were open."""
        found = [question for question in self._open.values() if call_ids is None or question.call.id in call_ids]
        for question in found:
            del self._open[question.id]
        return found

    def open(self) -> list[Question]:
        """What waits for a decision, in the order in which it was asked."""
        return list(self._open.values())

    def waiting(self, call_id: str) -> Question | None:
        """The question about a call, while it is open."""
        return next((question for question in self._open.values() if question.call.id == call_id), None)

    def open_besides(self, answered: Collection[str | None], invocation_id: str) -> bool:
        """Whether a run has open questions beside those whose ids, or whose calls' ids, are named."""
        mine = (question for question in self._open.values() if question.invocation_id == invocation_id)
        return any(question.id not in answered and question.call.id not in answered for question in mine)

    def decisions(self, message: Content | None) -> list[Decision]:
        """What a message decides, in the order in which it was asked.

        Raises `ToolResponseNotExpected` for an answer to what was not asked, is decided already, or is forged, `InvalidInput` for an
        answer that says neither yes nor no. Nothing of the message counts then.
        """
        answers = [answer for answer in function_responses(message) if answer.name == CONFIRM or answer.id in self._open]
        found: dict[str, Decision] = {}
        for answer in answers:
            question = self._open.get(answer.id or "")
            if question is None or answer.name not in (None, "", CONFIRM) or question.id in found:
                raise ToolResponseNotExpected(f"no question with the id {answer.id!r} waits for a decision")
            found[question.id] = Decision(question, read_answer(answer.response))
        return [found[question_id] for question_id in self._open if question_id in found]

    def interrupted(self, now: float) -> list[Question]:
        """The questions about calls that were approved long ago and have no result, long-running ones apart: theirs may come at any time.
        now: seconds since the epoch."""
        return [question for question, at in self._approved.values() if now - at >= INTERRUPTED_S]

    def _ask(self, event: Event, call: FunctionCall, question_id: str) -> None:
        """A question counts if its agent's stored call is what it shows; two of one id do not count, neither of them."""
        named = original_call(call)
        if question_id in self._ids:
            self._open.pop(question_id, None)
            return
        self._ids.add(question_id)
        author, stored = self._calls.get(named.id or "", ("", None)) if named is not None else ("", None)
        if named is None or stored is None or author != event.author or question_id not in event.long_running_tool_ids:
            return
        if stored.name == named.name and digest(stored.args) == digest(named.args):
            self._open[question_id] = Question(question_id, stored, author, event.invocation_id, asked_in(call), event.id)

    def _answer(self, event: Event, response: FunctionResponse, question: Question) -> None:
        try:
            said = read_answer(response.response)
        except InvalidInput:
            return
        if said.confirmed and question.call.id not in self._later:
            self._approved[question.call.id or ""] = (question, event.timestamp)

    def _settle(self, call_id: str) -> None:
        self._approved.pop(call_id, None)
        if self._open and (question := self.waiting(call_id)) is not None:
            del self._open[question.id]


def questions_of(events: Sequence[Event]) -> Questions:
    """The questions of a whole session. Most sessions have none, which a short look at each event tells."""
    questions = Questions()
    if any(event.long_running_tool_ids for event in events):
        for event in events:
            questions.follow(event)
    return questions


def as_asked(confirmation: ToolConfirmation, question: Question) -> ToolConfirmation:
    """The answer with the question's words, as the tool sees it."""
    return replace(confirmation, hint=question.asked.hint)
