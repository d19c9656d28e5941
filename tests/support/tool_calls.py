"""Tool calls for tests."""

from __future__ import annotations

from typing import Any

from live_gateway.content import FunctionCall, FunctionResponse
from live_gateway.events import EventActions
from live_gateway.plugins.tool_call import ToolOutcome, merge_outcomes


def outcome(response: dict[str, Any] | None = None, call_id: str = "1", **actions: Any) -> ToolOutcome:
    call = FunctionCall(id=call_id, name="f")
    answer = None if response is None else FunctionResponse(id=call_id, name="f", response=response)
    return ToolOutcome(call=call, response=answer, actions=EventActions(**actions), status="done", error=None, ms=0)


def ids(outcomes: list[ToolOutcome]) -> list[str | None] | None:
    content, _ = merge_outcomes(outcomes)
    if content is None:
        return None
    assert content.role == "user"
    return [part.function_response.id for part in content.parts or () if part.function_response]
