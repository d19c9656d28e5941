"""State inside an invocation: what a tool writes, who reads it, and when it is gone."""

from __future__ import annotations

import pytest

from live_gateway.agents.context import InvocationContext, ToolContext
from live_gateway.agents.llm import LlmAgent
from live_gateway.confirmation import ToolConfirmation
from live_gateway.errors import AgentError, InvalidState, ToolError
from live_gateway.events import Event
from live_gateway.tools.base import ToolCallContext
from tests.support.invocations import make_invocation


def _invocation() -> InvocationContext:
    return make_invocation(LlmAgent(name="agent"), {"k": "stored", "list": [1]})


# contract: STATE-03
def test_a_write_is_readable_at_once_by_later_tools_and_not_yet_stored() -> None:
    invocation = _invocation()
    first, second = ToolContext(invocation, "1"), ToolContext(invocation, "2")
    first.state["k"] = "dirty"
    assert (first.state["k"], second.state["k"], invocation.state["k"]) == ("dirty", "dirty", "dirty")
    assert invocation.session.state["k"] == "stored"
    assert (first.actions.state_delta, second.actions.state_delta) == ({"k": "dirty"}, {})


# contract: STATE-03
def test_a_write_is_gone_once_its_event_is_settled_and_was_not_stored() -> None:
    invocation = _invocation()
    context = ToolContext(invocation, "1")
    context.state["k"] = "dirty"
    invocation.settle(Event(author="agent", actions=context.actions))
    assert invocation.state["k"] == "stored"


# contract: STATE-03
def test_temp_keys_are_shared_by_the_invocation_and_stay() -> None:
    invocation = _invocation()
    context = ToolContext(invocation, "1")
    context.state["temp:t"] = 1
    invocation.settle(Event(author="agent", actions=context.actions))
    assert ToolContext(invocation, "2").state["temp:t"] == 1
    child = InvocationContext(
        app_name="app",
        user_id="user-1",
        session=invocation.session,
        agent=LlmAgent(name="child"),
        invocation_id=invocation.invocation_id,
        pending=invocation.pending,
    )
    assert ToolContext(child, "3").state["temp:t"] == 1


# contract: STATE-03
def test_a_discarded_call_leaves_nothing_and_takes_no_more_writes() -> None:
    invocation = _invocation()
    context = ToolContext(invocation, "1")
    context.state["k"] = "dirty"
    context.discard()
    assert invocation.state["k"] == "stored"
    with pytest.raises(InvalidState, match="after the call was over"):
        context.state["k"] = "late"
    assert invocation.state["k"] == "stored"


def test_a_closed_call_keeps_what_it_wrote() -> None:
    invocation = _invocation()
    context = ToolContext(invocation, "1")
    context.state["k"] = "dirty"
    context.close()
    with pytest.raises(InvalidState):
        context.state["k"] = "late"
    assert (invocation.state["k"], context.actions.state_delta) == ("dirty", {"k": "dirty"})


# contract: STATE-05
def test_changing_a_value_that_was_read_changes_nothing() -> None:
    invocation = _invocation()
    context = ToolContext(invocation, "1")
    context.state["list"].append(2)
    assert context.state["list"] == [1]
    assert context.actions.state_delta == {}


# contract: HITL-08
def test_the_idempotency_key_is_equal_on_every_attempt_and_differs_between_calls() -> None:
    invocation = _invocation()
    context: ToolCallContext = ToolContext(invocation, "fc-1")
    assert context.idempotency_key == ToolContext(_invocation(), "fc-1").idempotency_key == "s-1:fc-1"
    assert ToolContext(invocation, "fc-2").idempotency_key != context.idempotency_key


def test_skip_summarization_travels_with_the_response() -> None:
    context = ToolContext(_invocation(), "1")
    assert not context.actions.skip_summarization
    context.skip_summarization = True
    assert context.actions.skip_summarization


# contract: HITL-06
# case: K-TOOL-11
def test_only_a_call_that_waits_for_its_answer_can_ask() -> None:
    invocation = _invocation()
    over = ToolContext(invocation, "1")
    over.close()
    for context in (ToolContext(invocation, ""), ToolContext(invocation, "1", may_ask=False), over):
        with pytest.raises(AgentError):
            context.request_confirmation(hint="Really?")
        assert context.requested is None
    approved = ToolContext(invocation, "1", confirmation=ToolConfirmation(confirmed=True))
    with pytest.raises(ToolError):
        approved.request_confirmation()
    asking = ToolContext(invocation, "1")
    asking.request_confirmation(hint="Really?", payload={"nan": float("nan")})
    assert asking.actions.requested_tool_confirmations == {"1": {"hint": "Really?", "confirmed": False, "payload": {"nan": None}}}
