"""What stored events say about calls that a person has to approve, without anything that runs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_gateway.confirmation import (
    CONFIRM,
    INTERRUPTED_S,
    Decision,
    Questions,
    ToolConfirmation,
    decision_id,
    interruption,
    question_parts,
    read_answer,
    was_decided,
)
from live_gateway.content import Content, FunctionCall, FunctionResponse, Part, model_content
from live_gateway.errors import DuplicateEvent, InvalidInput, StorageError, ToolResponseNotExpected
from live_gateway.events import Event, decode_event, encode_event
from tests.support.approvals import answer

CALL = FunctionCall(id="c1", name="pay", args={"amount": 10})


def called(call: FunctionCall = CALL, author: str = "bot") -> Event:
    return Event(author=author, invocation_id="e-1", content=model_content([Part(function_call=call)]))


def asking(call: FunctionCall = CALL, author: str = "bot", **changes: Any) -> Event:
    parts = question_parts([(call.model_copy(update=changes), ToolConfirmation(hint="Pay?"))])
    ids = [part.function_call.id or "" for part in parts if part.function_call is not None]
    return Event(author=author, invocation_id="e-1", content=model_content(parts), long_running_tool_ids=ids)


def result(call_id: str, author: str = "bot") -> Event:
    parts = [Part(function_response=FunctionResponse(id=call_id, name="pay", response={"paid": True}))]
    return Event(author=author, content=Content(role="user", parts=parts))


def after(*events: Event) -> Questions:
    """The questions after these events, as a store gives them back."""
    questions = Questions()
    for event in events:
        questions.follow(decode_event(encode_event(event)))
    return questions


# contract: HITL-04
# case: K-CONF-12
@pytest.mark.parametrize(
    ("body", "confirmed", "payload"),
    [
        ({"confirmed": True}, True, None),
        ({"confirmed": False}, False, None),
        ({"confirmed": True, "payload": {"n": 1}}, True, {"n": 1}),
        ({"hint": "h", "confirmed": True, "payload": None}, True, None),
        ({"response": '{"confirmed": true, "payload": 5}'}, True, 5),
        ({"response": {"confirmed": True, "payload": 5}}, True, 5),
        ({"payload": {"confirmed": True, "payload": 5}}, True, 5),
        ({"response": '{"confirmed": true}', "payload": {"confirmed": False}}, True, None),
        ({"payload": "text"}, False, "text"),
        ({"response": "null"}, False, None),
        ({}, False, None),
        (None, False, None),
    ],
)
def test_the_shapes_of_an_answer(body: Any, confirmed: bool, payload: Any) -> None:
    assert read_answer(body) == ToolConfirmation(confirmed=confirmed, payload=payload)


# contract: HITL-04
# case: K-CONF-12
@pytest.mark.parametrize(
    "body",
    [
        {"response": {"confirmed": "true"}},
        {"response": 1},
        {"response": None},
        {"response": "yes"},
        {"response": "[true]"},
        {"confirmed": 1},
    ],
)
def test_an_answer_that_says_neither_yes_nor_no(body: Any) -> None:
    with pytest.raises(InvalidInput):
        read_answer(body)


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5
)


# contract: HITL-04
@given(st.dictionaries(st.sampled_from(["confirmed", "response", "payload", "x"]), json_values))
def test_nothing_but_true_is_a_yes(body: dict[str, Any]) -> None:
    try:
        said = read_answer(body)
    except InvalidInput:
        return
    assert not said.confirmed or "true" in str(body).lower()


# contract: HITL-06
def test_a_question_is_open_until_it_is_decided_or_its_call_answered() -> None:
    asked = asking()
    question_id = asked.function_calls[0].id or ""
    (decision,) = after(called(), asked).decisions(answer((question_id, True)))
    assert (decision.question.call.args, decision.question.agent, decision.question.asked.hint) == ({"amount": 10}, "bot", "Pay?")
    for then in (decision.event("e-1"), result("c1")):
        with pytest.raises(ToolResponseNotExpected):
            after(called(), asked, then).decisions(answer((question_id, True)))
    assert after(called(), asked, result("c1", author="user")).decisions(answer((question_id, True))), "the user does not answer the call"


# contract: HITL-06
# case: K-CONF-09, K-CONF-10
def test_questions_that_count_for_nothing() -> None:
    asked = asking()
    question_id = asked.function_calls[0].id or ""
    unlisted = Event(author="bot", content=asked.content)
    broken: list[dict[str, Any]] = [
        {},
        {"originalFunctionCall": None},
        {"originalFunctionCall": {"id": 1}},
        {"originalFunctionCall": {"id": "c1"}},
    ]
    odd = [
        Event(author="bot", content=model_content([Part(function_call=FunctionCall(id=question_id, name=CONFIRM, args=args))]))
        for args in broken
    ]
    histories: list[list[Event]] = [
        [asked],
        [called(author="peer"), asked],
        [called(), Event(author="peer", content=asked.content, long_running_tool_ids=[question_id])],
        [called(), asking(args={"amount": 11})],
        [called(), asking(name="refund")],
        [called(), unlisted],
        [called(), asked, Event(author="bot", content=asked.content, long_running_tool_ids=[question_id])],
        *([called(), one] for one in odd),
    ]
    for history in histories:
        questions = after(*history)
        assert questions.open() == []
        with pytest.raises(ToolResponseNotExpected):
            questions.decisions(answer((question_id, True)))


# contract: HITL-06
def test_a_call_that_was_approved_and_has_no_result_is_interrupted_after_a_while() -> None:
    asked = asking()
    (decision,) = after(called(), asked).decisions(answer((asked.function_calls[0].id or "", True)))
    approved = decision.event("e-1", timestamp=1000.0)
    questions = after(called(), asked, approved)
    assert questions.interrupted(1000.0 + INTERRUPTED_S - 1) == []
    (question,) = questions.interrupted(1000.0 + INTERRUPTED_S)
    assert after(called(), asked, approved, interruption(question)).interrupted(1e12) == []
    assert after(called(), asked, approved, result("c1")).interrupted(1e12) == []
    long_running = Event(author="bot", content=called().content, long_running_tool_ids=["c1"])
    assert after(long_running, asked, approved).interrupted(1e12) == []
    denied = Decision(decision.question, ToolConfirmation()).event("e-1", timestamp=1000.0)
    assert after(called(), asked, denied).interrupted(1e12) == []


# contract: EVT-04, HITL-06
def test_all_ways_out_of_a_question_have_one_event_id() -> None:
    asked = asking()
    (question,) = after(called(), asked).open()
    yes, no = (Decision(question, ToolConfirmation(confirmed=said)).event("e") for said in (True, False))
    assert yes.id == no.id == decision_id(question.id)
    assert was_decided(yes, DuplicateEvent("x"))
    assert not was_decided(yes, StorageError("x"))
    assert not was_decided(Event(author="bot"), DuplicateEvent("x"))
