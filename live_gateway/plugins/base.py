"""The hooks of a plugin, in the order in which a run calls them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from live_gateway.agents.base import Agent
from live_gateway.agents.context import InvocationContext, ToolContext
from live_gateway.content import Content
from live_gateway.events import Event
from live_gateway.models.base import ModelRequest, ModelResponse
from live_gateway.tools.base import Tool


class Plugin:
    """Override the hooks you need. Every hook of all plugins runs in registration order; the first answer that is not None wins.

    An exception from a hook reaches the caller as `PluginError`, naming plugin and hook. Plugins come before the agent's own callbacks.

    In a live session `before_agent` and `after_agent` are called once, as it begins and as it ends in order. The questions to the model are
    the connection (its contents are the history) and every typed message (its contents are that message); an answer instead is recorded and
    nothing is sent. `after_model` sees what the model answers in words, whole and in pieces.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    async def on_user_message(self, invocation: InvocationContext, content: Content) -> Content | None:
        """Before the user's message is stored, and in live before it is forwarded. A replacement is what everybody sees."""

    async def before_run(self, invocation: InvocationContext) -> Content | None:
        """Before the agent runs. Content answers instead of the agent: one event by the agent, and the run is over."""

    async def before_agent(self, invocation: InvocationContext, agent: Agent) -> Content | None:
        """Before one agent runs. Content becomes its one event, and the agent is skipped."""

    async def after_agent(self, invocation: InvocationContext, agent: Agent) -> Content | None:
        """After one agent ran. Content becomes one more event of the agent."""

    async def before_model(self, invocation: InvocationContext, request: ModelRequest) -> ModelResponse | None:
        """Before the model is asked. A response answers instead of the model."""

    async def after_model(self, invocation: InvocationContext, response: ModelResponse) -> ModelResponse | None:
        """After the model answered; pieces too. A response replaces it."""

    async def on_model_error(self, invocation: InvocationContext, request: ModelRequest, error: Exception) -> ModelResponse | None:
        """The model failed. A response stands for its answer."""

    async def before_tool(self, context: ToolContext, tool: Tool, args: dict[str, Any]) -> Mapping[str, Any] | None:
        """Before a tool runs. A result answers instead of the tool."""

    async def after_tool(
        self, context: ToolContext, tool: Tool, args: dict[str, Any], result: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """After a tool ran. A result replaces its own."""

    async def on_tool_error(
        self, context: ToolContext, tool: Tool | None, args: dict[str, Any], error: Exception
    ) -> Mapping[str, Any] | None:
        """A tool failed, or there is no such tool (None). A result stands for its answer."""

    async def on_event(self, invocation: InvocationContext, event: Event) -> Event | None:
        """Every event of an agent before it is stored and yielded, pieces too, audio not. An event replaces it."""

    async def after_run(self, invocation: InvocationContext) -> None:
        """Exactly once for every run whose `before_run` was called, however it ended."""
