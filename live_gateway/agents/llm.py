"""An agent with a model, instructions and tools."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel

from live_gateway.agents.base import Agent
from live_gateway.agents.context import InvocationContext, ToolContext
from live_gateway.agents.overlay import RESERVED
from live_gateway.content import Content, GenerateContentConfig
from live_gateway.errors import ConfigurationError
from live_gateway.events import USER
from live_gateway.models.base import Model, ModelRequest, ModelResponse
from live_gateway.models.live import LiveModel
from live_gateway.tools.base import Tool
from live_gateway.tools.function import as_tool
from live_gateway.tools.set_model_response import SetModelResponse
from live_gateway.tools.streaming import StopStreaming, Streaming

Instruction: TypeAlias = str | Callable[[InvocationContext], str | Awaitable[str]]
BeforeTool: TypeAlias = Callable[[ToolContext, Tool, dict[str, Any]], Awaitable[Mapping[str, Any] | None]]
AfterTool: TypeAlias = Callable[[ToolContext, Tool, dict[str, Any], Mapping[str, Any]], Awaitable[Mapping[str, Any] | None]]
OnToolError: TypeAlias = Callable[[ToolContext, Tool | None, dict[str, Any], Exception], Awaitable[Mapping[str, Any] | None]]
AgentCallback: TypeAlias = Callable[[InvocationContext], Awaitable[Content | None]]
BeforeModel: TypeAlias = Callable[[InvocationContext, ModelRequest], Awaitable[ModelResponse | None]]
AfterModel: TypeAlias = Callable[[InvocationContext, ModelResponse], Awaitable[ModelResponse | None]]
OnModelError: TypeAlias = Callable[[InvocationContext, ModelRequest, Exception], Awaitable[ModelResponse | None]]


@dataclass(frozen=True, kw_only=True, eq=False)
class LlmAgent:
    """An agent with a model.

    model answers text; live_model holds a live conversation. Either may be missing where it is not used: the gateway puts in what the
    machine has. tools: functions, or `Tool` objects; a function becomes a `FunctionTool`, an async generator
    function a `StreamingTool`, which in live comes with `stop_streaming`. instruction: a text, or a callable that makes it
    for each run. output_key: the state key that receives the agent's whole answer. output_schema: what the answer must be, as JSON; an
    agent that also has tools gives it by the tool `set_model_response`. include_contents: `none` shows the model the current turn only.
    mode: `chat` where undeclared; only a chat agent may be the root. disallow_transfer_to_parent, disallow_transfer_to_peers: whom it may
    not hand the conversation to, beside its sub-agents; an agent that may not hand back to its parent is not picked for the next message.

    Raises `ConfigurationError` for an illegal name, two tools of one name, or a tool with one of the gateway's own names.
    """

    name: str
    description: str = ""
    model: Model | None = None
    live_model: LiveModel | None = None
    instruction: Instruction = ""
    tools: Sequence[Tool | Callable[..., Any]] = ()
    sub_agents: Sequence[Agent] = ()
    config: GenerateContentConfig | None = None
    output_key: str | None = None
    output_schema: type[BaseModel] | None = None
    include_contents: Literal["default", "none"] = "default"
    mode: Literal["chat", "task", "single_turn"] | None = None
    disallow_transfer_to_parent: bool = False
    disallow_transfer_to_peers: bool = False
    before_agent: AgentCallback | None = None
    after_agent: AgentCallback | None = None
    before_model: BeforeModel | None = None
    after_model: AfterModel | None = None
    on_model_error: OnModelError | None = None
    before_tool: BeforeTool | None = None
    after_tool: AfterTool | None = None
    on_tool_error: OnToolError | None = None
    toolbox: Mapping[str, Tool] = field(init=False, repr=False)
    """The tools by name, made once from `tools`."""

    def __post_init__(self) -> None:
        check_agent_name(self.name)
        if len({id(child) for child in self.sub_agents}) != len(self.sub_agents):
            raise ConfigurationError(f"agent {self.name!r} lists the same sub-agent twice")
        toolbox: dict[str, Tool] = {}
        for tool in self._all_tools():
            if tool.name in toolbox:
                raise ConfigurationError(f"agent {self.name!r} has two tools named {tool.name!r}: duplicate tool")
            if tool.name in RESERVED:
                raise ConfigurationError(f"agent {self.name!r} names a tool {tool.name!r}; agents get the tool of this name by themselves")
            toolbox[tool.name] = tool
        object.__setattr__(self, "toolbox", toolbox)

    def _all_tools(self) -> list[Tool]:
        """The given tools, and those that come with them."""
        tools = [self._as_tool(entry) for entry in self.tools]
        if any(isinstance(tool, Streaming) for tool in tools):
            tools.append(StopStreaming())
        if self.output_schema is not None and self.tools:
            tools.append(SetModelResponse(self.output_schema))
        return tools

    def _as_tool(self, entry: Tool | Callable[..., Any]) -> Tool:
        if inspect.isroutine(entry):
            return as_tool(entry)
        if isinstance(entry, Tool):
            return entry
        raise ConfigurationError(f"agent {self.name!r}: {entry!r} is neither a function nor a tool")

    def tools_in(self, invocation: InvocationContext) -> tuple[Tool, ...]:
        """Its tools in this run: its own, and those that come with its place in the tree."""
        return (*self.toolbox.values(), *invocation.overlay.tools.values())

    def find_tool(self, invocation: InvocationContext, name: str | None) -> Tool | None:
        """The tool of this name in this run."""
        return self.toolbox.get(name or "") or invocation.overlay.tools.get(name or "")

    async def resolve_instruction(self, invocation: InvocationContext) -> str:
        """The instruction's text for this run."""
        if isinstance(self.instruction, str):
            return self.instruction
        made = self.instruction(invocation)
        return made if isinstance(made, str) else await made


def check_agent_name(name: object) -> None:
    """Raise `ConfigurationError` unless the name is a text that an agent may have."""
    if not isinstance(name, str) or not name.strip():
        raise ConfigurationError("an agent needs a name")
    if name == USER:
        raise ConfigurationError(f"{USER!r} is the author of what the user says; no agent may be named so")
