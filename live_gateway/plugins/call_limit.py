"""A limit to what one run may ask of models and tools."""

from __future__ import annotations

from collections import Counter
from typing import Any

from live_gateway.agents.context import InvocationContext, ToolContext
from live_gateway.errors import AgentError, ConfigurationError
from live_gateway.models.base import ModelRequest
from live_gateway.plugins.base import Plugin
from live_gateway.tools.base import Tool


class CallLimitPlugin(Plugin):
    """At most so many questions to models and so many tool calls in one invocation, all of its agents together; None is no limit.

    A question too many ends the run with a `PluginError`. A tool call too many is not carried out: the model is told so, and can answer
    with what it has. A live session is one invocation: its questions are the connection and each typed message (one too many raises
    `NotDelivered` and the session goes on), not what is spoken. Raises `ConfigurationError` for a negative number.
    """

    def __init__(self, *, model_calls: int | None = None, tool_calls: int | None = None, name: str = "call_limit") -> None:
        super().__init__(name)
        for limit in (model_calls, tool_calls):
            if limit is not None and limit < 0:
                raise ConfigurationError(f"a limit of calls is not negative, as {limit} is")
        self._limits = {"model": model_calls, "tool": tool_calls}
        self._used: dict[str, Counter[str]] = {}

    async def before_run(self, invocation: InvocationContext) -> None:
        self._used[invocation.invocation_id] = Counter()

    async def before_model(self, invocation: InvocationContext, request: ModelRequest) -> None:
        if not self._allows(invocation, "model"):
            raise AgentError(f"the run would ask a model more than {self._limits['model']} times")

    async def before_tool(self, context: ToolContext, tool: Tool, args: dict[str, Any]) -> dict[str, Any] | None:
        if context.confirmation is not None or self._allows(context.invocation, "tool"):  # a call that was approved is no further one
            return None
        return {"error": f"no more than {self._limits['tool']} tool calls are allowed here; answer with what you have"}

    async def after_run(self, invocation: InvocationContext) -> None:
        self._used.pop(invocation.invocation_id, None)

    def _allows(self, invocation: InvocationContext, kind: str) -> bool:
        used, limit = self._used.setdefault(invocation.invocation_id, Counter()), self._limits[kind]
        used[kind] += 1
        return limit is None or used[kind] <= limit
