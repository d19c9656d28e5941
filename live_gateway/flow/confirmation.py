"""The questions of a text turn: the event that asks, and what is told of calls whose approval led to nothing."""

from __future__ import annotations

from collections.abc import Sequence

from live_gateway.agents.context import InvocationContext
from live_gateway.agents.llm import LlmAgent
from live_gateway.confirmation import Decision, question_parts
from live_gateway.content import Content, model_content
from live_gateway.events import Event
from live_gateway.plugins.tool_call import ToolOutcome, merge_outcomes


def decisions_for(invocation: InvocationContext, agent: LlmAgent) -> tuple[Decision, ...]:
    """What the user's message decided about this agent's calls."""
    if invocation.decided is None:
        return ()
    return tuple(decision for decision in invocation.decided.decisions if decision.question.agent == agent.name)


def asking_event(outcomes: Sequence[ToolOutcome], asked_by: Content | None, invocation: InvocationContext, agent: LlmAgent) -> Event | None:
    """The event that asks for what waits, in the order of the calls; None where nothing waits. asked_by: the content with the calls."""
    waiting = [outcome for outcome in outcomes if outcome.asks is not None]
    if not waiting:
        return None
    signatures = {
        part.function_call.id or "": part.thought_signature
        for part in (asked_by.parts or () if asked_by is not None else ())
        if part.function_call is not None and part.thought_signature is not None
    }
    parts = question_parts(((outcome.call, outcome.asks) for outcome in waiting if outcome.asks is not None), signatures)
    return Event(
        author=agent.name,
        invocation_id=invocation.invocation_id,
        branch=invocation.branch,
        isolation_scope=invocation.isolation_scope,
        content=model_content(parts),
        long_running_tool_ids=[part.function_call.id or "" for part in parts if part.function_call is not None],
        actions=merge_outcomes(waiting)[1],
    )
