"""Makes events of what the model answered. Pure but for fresh ids; no response is changed."""

from __future__ import annotations

import uuid
from typing import Any

from pydantic import ValidationError

from live_gateway.agents.context import InvocationContext
from live_gateway.agents.llm import LlmAgent
from live_gateway.content import Content, FunctionCall, Part, function_calls, model_content, text_of
from live_gateway.errors import AgentError
from live_gateway.events import Event, EventActions, replace
from live_gateway.flow.rewriting import GENERATED_ID
from live_gateway.models.base import ModelResponse


def is_nothing(response: ModelResponse) -> bool:
    """Whether the response makes no event."""
    return (response.content is None or not response.content.parts) and response.error_code is None


def is_thought_only(event: Event) -> bool:
    """Whether the model only thought in this event, and so has not answered yet."""
    parts = event.content.parts if event.content is not None else None
    return not event.partial and bool(parts) and all(part.thought for part in parts or ())


def event_of(response: ModelResponse, invocation: InvocationContext, agent: LlmAgent) -> Event:
    """The event of a piece or of a whole answer. The whole answer carries what callbacks wrote to the state, and the output key."""
    content = response.content if response.partial else _with_ids(response.content)
    calls = function_calls(content)
    long_running = [call.id or "" for call in calls if _is_long_running(invocation, agent, call)]
    event = Event(
        author=agent.name,
        invocation_id=invocation.invocation_id,
        branch=invocation.branch,
        isolation_scope=invocation.isolation_scope,
        content=content,
        partial=response.partial,
        usage_metadata=response.usage,
        finish_reason=response.finish_reason,
        model_version=response.model_version,
        grounding_metadata=response.grounding_metadata,
        citation_metadata=response.citation_metadata,
        error_code=response.error_code,
        error_message=response.error_message,
        long_running_tool_ids=long_running,
        actions=EventActions() if response.partial else EventActions(state_delta=invocation.take_delta()),
    )
    return event if response.partial else _with_output(event, agent)


def answer_by_tool(answer: str, invocation: InvocationContext, agent: LlmAgent) -> Event:
    """The final event of an agent that gave its answer through `set_model_response`."""
    event = Event(
        author=agent.name,
        invocation_id=invocation.invocation_id,
        branch=invocation.branch,
        isolation_scope=invocation.isolation_scope,
        content=model_content([Part(text=answer)]),
    )
    return _with_output(event, agent)


def _with_output(event: Event, agent: LlmAgent) -> Event:
    """The event with the agent's output, if it is the agent's final answer and holds any text."""
    text = text_of(event.content)
    if not text.strip() or not event.is_final_response() or event.function_calls or event.function_responses:
        return event
    output: Any = text if agent.output_schema is None else _checked(text, agent)
    delta = event.actions.state_delta if agent.output_key is None else {**event.actions.state_delta, agent.output_key: output}
    return replace(event, actions=EventActions(state_delta=delta), output=None if agent.output_schema is None else output)


def _checked(text: str, agent: LlmAgent) -> Any:
    if agent.output_schema is None:
        return text
    try:
        return agent.output_schema.model_validate_json(text).model_dump(mode="json", by_alias=True)
    except ValidationError as error:
        raise AgentError(f"the answer of agent {agent.name!r} does not fit its output_schema ({error.error_count()} errors)") from None


def _with_ids(content: Content | None) -> Content | None:
    """The content with an id of ours where a call has none, or one that another call of the content has."""
    seen: set[str] = set()
    parts: list[Part] = []
    changed = False
    for part in content.parts or () if content is not None else ():
        call = part.function_call
        if call is not None and (not call.id or call.id in seen):
            call = call.model_copy(update={"id": f"{GENERATED_ID}{uuid.uuid4()}"})
            part = part.model_copy(update={"function_call": call})
            changed = True
        if call is not None and call.id:
            seen.add(call.id)
        parts.append(part)
    if content is None or (not changed and content.role):
        return content
    return Content(role=content.role or "model", parts=parts)


def _is_long_running(invocation: InvocationContext, agent: LlmAgent, call: FunctionCall) -> bool:
    tool = agent.find_tool(invocation, call.name)
    return tool is not None and tool.long_running
