"""Runs the calls of one message side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from live_gateway.agents.context import InvocationContext
from live_gateway.agents.llm import LlmAgent
from live_gateway.content import FunctionCall
from live_gateway.plugins.chain import PluginChain
from live_gateway.plugins.tool_call import ToolOutcome, call_tool

MAX_AT_ONCE = 32


async def run_calls(chain: PluginChain, agent: LlmAgent, invocation: InvocationContext, calls: Sequence[FunctionCall]) -> list[ToolOutcome]:
    """The outcomes in the order of the calls. At most 32 run at once, the rest waits for its turn.

    Raises `PluginError` when a plugin's hook failed; the other calls are then cancelled. No call runs on when this returns or raises.
    """
    if len(calls) == 1:
        return [await call_tool(chain, agent, invocation, calls[0])]
    room = asyncio.Semaphore(MAX_AT_ONCE)

    async def run(call: FunctionCall) -> ToolOutcome:
        async with room:
            return await call_tool(chain, agent, invocation, call)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run(call), name=f"tool {call.name}") for call in calls]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
