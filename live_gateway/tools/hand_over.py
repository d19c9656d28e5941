"""The tools by which an agent's model says that it is another agent's turn. Agents that need them have them; nobody lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from live_gateway.content import TASK_COMPLETED, TRANSFER_TO_AGENT, FunctionDeclaration
from live_gateway.errors import ToolError
from live_gateway.tools.base import Effect, ToolCallContext


class TransferToAgent:
    """Hands the conversation to another agent. targets: who may be named. refusals: why somebody else of the tree may not, by name."""

    name = TRANSFER_TO_AGENT
    effect: Effect = "read"
    long_running = False

    def __init__(self, targets: tuple[str, ...], refusals: Mapping[str, str]) -> None:
        self._targets = targets
        self._refusals = refusals
        self.declaration = FunctionDeclaration(
            name=self.name,
            description="Hand the conversation over to another agent, which goes on with it. Say nothing after this.",
            parameters_json_schema={
                "type": "object",
                "properties": {"agent_name": {"type": "string", "enum": list(targets), "description": "Name of the agent."}},
                "required": ["agent_name"],
            },
        )

    async def run(self, args: Mapping[str, Any], context: ToolCallContext) -> dict[str, Any]:
        """Mark the response as a transfer. Raises `ToolError` where no target is named."""
        wanted = args.get("agent_name")
        if not isinstance(wanted, str) or not wanted:
            raise ToolError(f"agent_name must name an agent: one of {', '.join(self._targets)}")
        if wanted not in self._targets:
            raise ToolError(f"failed to find agent: {wanted}. {self._refusals.get(wanted, '')}".removesuffix(". "))
        context.transfer_to_agent = wanted
        return {"status": f"{wanted} goes on with the conversation."}


class TaskCompleted:
    """Says that the agent is done with its part of a sequence."""

    name = TASK_COMPLETED
    effect: Effect = "read"
    long_running = False
    declaration = FunctionDeclaration(name=name, description="Call this when your part is done. The next agent then goes on.")

    async def run(self, args: Mapping[str, Any], context: ToolCallContext) -> dict[str, Any]:
        """Mark the response as the agent's end."""
        context.end_of_agent = True
        return {"status": "Your part is done."}
