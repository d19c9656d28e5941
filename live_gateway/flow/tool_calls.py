"""Runs the calls of one message side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from live_gateway.agents.context import InvocationContext
from live_gateway.agents.llm import LlmAgent
from live_gateway.confirmation import Decision
from live_gateway.content import FunctionCall
from live_gateway.plugins.chain import PluginChain
from live_gateway.plugins.tool_call import ToolOutcome, call_tool, carry_out

MAX_AT_ONCE = 32

T = TypeVar("T")


async def run_calls(chain: PluginChain, agent: LlmAgent, invocation: InvocationContext, calls: Sequence[FunctionCall]) -> list[ToolOutcome]:
    """The outcomes in the order of the calls. At most 32 run at once, the rest waits for its turn.

    Raises `PluginError` when a plugin's hook failed; the other calls are then cancelled. No call runs on when this returns or raises.
    """
    return await _side_by_side(partial(call_tool, chain, agent, invocation), calls)


async def carry_out_all(
    chain: PluginChain, agent: LlmAgent, invocation: InvocationContext, decisions: Sequence[Decision]
) -> list[ToolOutcome]:
    """The outcomes of calls that a person approved or rejected, in the order of the decisions. Otherwise like `run_calls`."""
    return await _side_by_side(partial(carry_out, chain, agent, invocation), decisions)


async def _side_by_side(run: Callable[[T], Awaitable[ToolOutcome]], what: Sequence[T]) -> list[ToolOutcome]:
    if len(what) == 1:
        return [await run(what[0])]
    room = asyncio.Semaphore(MAX_AT_ONCE)

    async def run_one(one: T) -> ToolOutcome:
        async with room:
            return await run(one)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run_one(one), name="tool") for one in what]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
