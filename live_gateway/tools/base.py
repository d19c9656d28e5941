"""What a tool is, as the flow, the live session and the pages see it."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any, Literal, Protocol, runtime_checkable

from live_gateway.confirmation import ToolConfirmation
from live_gateway.content import FunctionDeclaration

Effect = Literal["read", "write"]


class ToolCallContext(Protocol):
    """What a running tool may reach; `live_gateway.agents.context.ToolContext` implements it."""

    transfer_to_agent: str | None
    """Name of the agent that is to go on once this call was answered, if another one is."""
    end_of_agent: bool
    """Whether the agent is done with its part of a sequence once this call was answered."""

    @property
    def state(self) -> MutableMapping[str, Any]:
        """The session's state; what a tool writes is readable at once by later tools and stored with the tool's response event."""
        ...

    @property
    def call_id(self) -> str:
        """Id of the function call that is being answered."""
        ...

    @property
    def idempotency_key(self) -> str:
        """Session id and call id: equal on every attempt to run this call."""
        ...

    @property
    def confirmation(self) -> ToolConfirmation | None:
        """The person's approval, in the run of the call that follows it; None in any other."""
        ...

    def request_confirmation(self, *, hint: str = "", payload: Any = None) -> None:
        """Have a person approve this call before it takes effect. Raises `AgentError`, `ToolError`."""
        ...


@runtime_checkable
class Tool(Protocol):
    """Something a model may call by name."""

    @property
    def name(self) -> str:
        """The name the model uses."""
        ...

    @property
    def declaration(self) -> FunctionDeclaration:
        """Name, description and parameters as the model sees them."""
        ...

    @property
    def effect(self) -> Effect:
        """Whether it only reads or changes something outside; the pages show it."""
        ...

    @property
    def long_running(self) -> bool:
        """Whether the final answer comes later, from outside; the tool's own result is then a first status, or nothing."""
        ...

    async def run(self, args: Mapping[str, Any], context: ToolCallContext) -> Any:
        """Run with the model's arguments, within the tool's own time limit. The result is JSON-like data.

        Raises `ToolError` with words for the model (arguments that do not validate, time-out); anything else it raises is a failure too.
        """
        ...


@runtime_checkable
class AsksFirst(Tool, Protocol):
    """A tool that may have to be approved by a person before it runs."""

    async def asks_first(self, args: Mapping[str, Any], context: ToolCallContext) -> bool:
        """Whether a person has to approve a call with these arguments. Raises `ToolError` for arguments with which it cannot run."""
        ...


@runtime_checkable
class Interruptible(Tool, Protocol):
    """A tool that says whether a user who interrupts ends its calls."""

    @property
    def cancel_on_interrupt(self) -> bool:
        """Whether a call is cancelled when the user speaks, types or stops the answer while it runs."""
        ...
