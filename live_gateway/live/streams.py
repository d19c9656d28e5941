"""The streaming tools of a live session: each runs in a task of its own, and what it yields goes to the model as it comes.

A stream begins when the call that asked for it was answered with its status. Each piece is recorded as a response of the call that says
that more will come, shown as progress, and told to the model before the next one is asked for, so a tool that yields without end is no
faster than model and store. The last record of a stream says how it ended (to its end, failed, cancelled) and has the newest of what it
gave, up to 32 KiB, so that a later prompt finds call and result together. It is made at once when the stream is stopped, however long the
tool takes to clean up; what the tool still yields then is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from live_gateway.agents.context import InvocationContext, ToolContext
from live_gateway.agents.llm import LlmAgent
from live_gateway.content import FunctionDeclaration, FunctionResponse, FunctionResponseScheduling
from live_gateway.errors import LiveSessionClosed, PluginError, ToolError
from live_gateway.events import EventActions
from live_gateway.live.items import ToolFinished, ToolRunning
from live_gateway.plugins.chain import PluginChain
from live_gateway.plugins.tool_call import StreamHooks, is_not_the_tools
from live_gateway.telemetry import get_logger
from live_gateway.tools.base import Tool
from live_gateway.tools.streaming import Kept, Scheduling, StopStreaming, Streaming, started, stopped

log = get_logger(__name__)

MAX_STREAMS = 16
STOP_S = 1.0
"""How long stopping waits for the tools to clean up before it answers."""


class Outlet(Protocol):
    """Where the pieces go."""

    def record(self, response: FunctionResponse, actions: EventActions) -> None:
        """Take a response to the record; does not wait and does not raise."""
        ...

    async def tell(self, response: FunctionResponse) -> None:
        """Tell the model, and wait until it has it. Raises what sending raised."""
        ...

    def tell_last(self, response: FunctionResponse) -> None:
        """Tell the model how it ended; does not wait and does not raise."""
        ...


@dataclass(slots=True, eq=False)
class _Stream:
    id: str
    tool: Streaming
    hooks: StreamHooks
    pieces: AsyncGenerator[Any, None]
    began: float
    kept: Kept = field(default_factory=Kept)
    task: asyncio.Task[None] | None = None
    over: bool = False

    def response(self, payload: dict[str, Any], *, more: bool, scheduling: Scheduling | None = None) -> FunctionResponse:
        when = FunctionResponseScheduling(scheduling) if scheduling is not None else None
        return FunctionResponse(id=self.id, name=self.tool.name, response=payload, will_continue=more, scheduling=when)

    def take_actions(self) -> EventActions:
        return self.hooks.context.take_actions()


class Streams:
    """All streams of one agent in a live session. show: takes the immediate notices."""

    def __init__(
        self,
        agent: LlmAgent,
        invocation: InvocationContext,
        chain: PluginChain,
        show: Callable[[ToolRunning | ToolFinished], None],
        outlet: Outlet,
    ) -> None:
        self._agent = agent
        self._invocation = invocation
        self._chain = chain
        self._show = show
        self._outlet = outlet
        self._streams: dict[str, _Stream] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._streams)

    def __contains__(self, call_id: object) -> bool:
        return call_id in self._streams

    async def run_tool(self, tool: Tool, args: dict[str, Any], context: ToolContext) -> Any:
        """How a tool is run in live: one that streams is only prepared, and answered with its status."""
        self._show(ToolRunning(context.call_id))
        if isinstance(tool, StopStreaming):
            name = tool.function_name(args)
            return stopped(name, await self._stop(name))
        if not isinstance(tool, Streaming):
            return await tool.run(args, context)
        if len(self._streams) >= MAX_STREAMS:
            raise ToolError(f"{MAX_STREAMS} functions are already running in the background; stop one first")
        own = ToolContext(self._invocation, context.call_id, confirmation=context.confirmation, may_ask=False)
        pieces = tool.stream(args, own)
        hooks = StreamHooks(self._chain, self._agent, own, tool, args)
        self._streams[own.call_id] = _Stream(own.call_id, tool, hooks, pieces, asyncio.get_running_loop().time())
        return started(tool.name)

    def begin(self, group: asyncio.TaskGroup, call_id: str) -> None:
        """The call was answered with its status: its pieces may follow."""
        if (stream := self._streams.get(call_id)) is not None and stream.task is None:
            stream.task = group.create_task(self._pump(stream), name=f"stream {stream.tool.name}")
            self._ending.add(stream.task)
            stream.task.add_done_callback(self._ending.discard)

    def discard(self, call_id: str) -> None:
        """The call was not answered with its status: nothing will follow."""
        if (stream := self._streams.pop(call_id, None)) is not None:
            stream.over = True
            stream.hooks.context.discard()

    def cancel(self, ids: Sequence[str]) -> None:
        """The model no longer wants these."""
        for call_id in ids:
            if (stream := self._streams.get(call_id)) is not None:
                self._cancel(stream)

    def cancel_all(self) -> list[asyncio.Task[None]]:
        """The session ends. The tasks that are still ending."""
        self.cancel(list(self._streams))
        return list(self._ending)

    async def _stop(self, name: str) -> int:
        """Stop all instances of a tool; how many there were."""
        found = [stream for stream in self._streams.values() if stream.tool.name == name]
        for stream in found:
            self._cancel(stream)
            if stream.task is not None:
                self._tell_end(stream)
        if tasks := [stream.task for stream in found if stream.task is not None]:
            await asyncio.wait(tasks, timeout=STOP_S)
        return len(found)

    def _cancel(self, stream: _Stream) -> None:
        if stream.task is None:  # its call is answered first, by whoever cancels it
            self.discard(stream.id)
            return
        self._end(stream, "cancelled", {"error": "cancelled"} | stream.kept.result())
        stream.task.cancel()

    async def _pump(self, stream: _Stream) -> None:
        try:
            async with aclosing(stream.pieces) as pieces:
                async for piece in pieces:
                    if stream.over or not await self._piece(stream, piece):
                        return
        except LiveSessionClosed:
            return  # whoever closes it has recorded the end
        except PluginError as error:
            self._fail(stream, str(error))
        except BaseException as error:
            if is_not_the_tools(error):
                raise
            await self._failed(stream, error)
        else:
            self._end(stream, "done", stream.kept.result() or {"result": None})
            self._tell_end(stream)

    async def _piece(self, stream: _Stream, piece: Any) -> bool:
        """Record, show and tell it. False where a hook failed over it, which ends the stream."""
        payload, problem = await stream.hooks.piece(piece)
        if stream.over:
            return False
        if problem is not None:
            self._fail(stream, problem)
            return False
        stream.kept.add(payload["result"] if payload.keys() == {"result"} else payload)
        response = stream.response(payload, more=True, scheduling=stream.tool.scheduling)
        self._outlet.record(response, stream.take_actions())
        self._show(ToolFinished(stream.id, "progress", _ms(stream), result=payload))
        try:
            await self._outlet.tell(response)
        except LiveSessionClosed:
            raise
        except Exception as error:
            raise ToolError("the model could not be told, so the function was stopped") from error
        return True

    async def _failed(self, stream: _Stream, error: BaseException) -> None:
        if stream.over:
            log.error("tool_failed", error, tool=stream.tool.name, agent=self._agent.name)
            return
        try:
            payload, problem = await stream.hooks.failure(error)
        except PluginError as failure:
            payload, problem = {"error": str(failure)}, str(failure)
        if problem is not None:
            self._fail(stream, problem)
        elif not stream.over:
            self._end(stream, "done", payload)
            self._outlet.tell_last(stream.response(payload, more=False, scheduling=stream.tool.scheduling))

    def _fail(self, stream: _Stream, problem: str) -> None:
        if not stream.over:
            self._end(stream, "error", {"error": problem} | stream.kept.result(), problem)
            self._outlet.tell_last(stream.response({"error": problem}, more=False, scheduling=stream.tool.scheduling))

    def _end(
        self, stream: _Stream, status: Literal["done", "error", "cancelled"], payload: dict[str, Any], error: str | None = None
    ) -> None:
        """Record and show it, once."""
        if stream.over:
            return
        stream.over = True
        self._streams.pop(stream.id, None)
        self._outlet.record(stream.response(payload, more=False), stream.take_actions())
        stream.hooks.context.close()
        self._show(ToolFinished(stream.id, status, _ms(stream), result=payload if status == "done" else None, error=error))

    def _tell_end(self, stream: _Stream) -> None:
        """Close the call for a model that keeps it open; there is nothing in it to speak about."""
        payload = {"status": f"{stream.tool.name} has ended."}
        self._outlet.tell_last(stream.response(payload, more=False, scheduling="SILENT"))


def live_declaration(tool: Tool) -> FunctionDeclaration:
    """What a live model is told of a tool: it need not wait for one that streams."""
    declaration = tool.declaration
    return FunctionDeclaration(**{**dict(declaration), "behavior": "NON_BLOCKING"}) if isinstance(tool, Streaming) else declaration


def _ms(stream: _Stream) -> int:
    return round((asyncio.get_running_loop().time() - stream.began) * 1000)
