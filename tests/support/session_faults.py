"""Faulty doubles for tests of live sessions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from live_gateway.content import Content, FunctionCall, FunctionResponse, Part, user_content
from live_gateway.live.items import LiveItem
from live_gateway.live.session import LiveSession
from live_gateway.models.live import ToolCalls
from live_gateway.tools.function import tool


async def slow() -> str:
    """Answer after a while."""
    await asyncio.sleep(2)
    return "slow"


def called(name: str, *ids: str, **args: Any) -> ToolCalls:
    return ToolCalls(tuple(FunctionCall(id=call_id, name=name, args=args) for call_id in ids))


def now() -> float:
    return asyncio.get_running_loop().time()


async def collect(live: LiveSession, into: list[LiveItem]) -> None:
    async for item in live.items():
        into.append(item)  # noqa: PERF401 - what came before a failure counts


async def refused(live: LiveSession, text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        await live.send(user_content(text))


def nobody_else() -> bool:
    return asyncio.all_tasks() == {asyncio.current_task()}


@tool(long_running=True)
async def promised() -> str:
    """Say after a second that the answer comes from outside."""
    await asyncio.sleep(1)
    return "later"


def outside(call_id: str, value: str) -> Content:
    return Content(role="user", parts=[Part(function_response=FunctionResponse(id=call_id, response={"result": value}))])
