"""An agent with a model, instructions and tools."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from live_gateway.tools.function import FunctionTool

from live_gateway.agents.base import Agent
from live_gateway.agents.context import InvocationContext, ToolContext
from live_gateway.content import Content, GenerateContentConfig
from live_gateway.errors import ConfigurationError
from live_gateway.events import USER
from live_gateway.models.base import Model
from live_gateway.models.live import LiveModel
from live_gateway.tools.base import Tool

Instruction: TypeAlias = str | Callable[[InvocationContext], str | Awaitable[str]]
BeforeTool: TypeAlias = Callable[[ToolContext, Tool, dict[str, Any]], Awaitable[Mapping[str, Any] | None]]
AfterTool: TypeAlias = Callable[[ToolContext, Tool, dict[str, Any], Mapping[str, Any]], Awaitable[Mapping[str, Any] | None]]
AgentCallback: TypeAlias = Callable[[InvocationContext], Awaitable[Content | None]]


@dataclass(frozen=True, kw_only=True, eq=False)
class LlmAgent:
    """An agent with a model.

    model answers text; live_model holds a live conversation. Either may be missing where it is not used: the gateway puts in what the
    machine has. tools: functions, or `Tool` objects; a function becomes a `FunctionTool`. instruction: a text, or a callable that makes it
    for each run. output_key: the state key that receives the agent's whole answer.

    Raises `ConfigurationError` for an illegal name or two tools of one name.
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
    disallow_transfer_to_parent: bool = False
    before_agent: AgentCallback | None = None
    after_agent: AgentCallback | None = None
    before_tool: BeforeTool | None = None
    after_tool: AfterTool | None = None
    toolbox: Mapping[str, Tool] = field(init=False, repr=False)
    """The tools by name, made once from `tools`."""

    def __post_init__(self) -> None:
        check_agent_name(self.name)
        if len({id(child) for child in self.sub_agents}) != len(self.sub_agents):
            raise ConfigurationError(f"agent {self.name!r} lists the same sub-agent twice")
        toolbox: dict[str, Tool] = {}
        for entry in self.tools:
            tool = FunctionTool(entry) if inspect.isroutine(entry) else entry
            if not isinstance(getattr(tool, "name", None), str) or not hasattr(tool, "declaration"):
                raise ConfigurationError(f"agent {self.name!r}: {entry!r} is neither a function nor a tool")
            if tool.name in toolbox:
                raise ConfigurationError(f"agent {self.name!r} has two tools named {tool.name!r}: duplicate tool")
            toolbox[tool.name] = tool
        object.__setattr__(self, "toolbox", toolbox)

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
