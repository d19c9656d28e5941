"""Tools that give their result piece by piece, and the tool that stops them.

In a live session such a tool is answered at once with a status, and what it yields goes to the model as it comes, until it ends, is
stopped, or the session ends. Outside of one its pieces are one result.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal, Protocol, runtime_checkable

from live_gateway.content import FunctionDeclaration
from live_gateway.errors import ConfigurationError, ToolError
from live_gateway.tools.base import Effect, Tool, ToolCallContext
from live_gateway.tools.function import FunctionTool, NeedsConfirmation
from live_gateway.tools.result import MAX_RESULT_BYTES

STOP_STREAMING = "stop_streaming"
Scheduling = Literal["SILENT", "WHEN_IDLE", "INTERRUPT"]


@runtime_checkable
class Streaming(Tool, Protocol):
    """A tool whose result comes in pieces."""

    @property
    def scheduling(self) -> Scheduling | None:
        """When the model is to speak about a piece, where it can be told: not at all, after what it says now, at once."""
        ...

    def stream(self, args: Mapping[str, Any], context: ToolCallContext) -> AsyncGenerator[Any, None]:
        """Begin. Closing the generator stops the tool. Raises `ToolError` for arguments that do not fit; iterating raises what fails."""
        ...


class StreamingTool(FunctionTool):
    """An async generator function that a model may call: see `FunctionTool`.

    timeout_s: how long it may take outside of a live session. scheduling: when a live model is to speak about a piece; a model that cannot
    be told speaks about each.

    Raises `ConfigurationError` where the function cannot be declared, or is no async generator function.
    """

    yields = True

    def __init__(
        self,
        function: Callable[..., AsyncGenerator[Any, None]],
        *,
        name: str | None = None,
        description: str | None = None,
        effect: Effect | None = None,
        timeout_s: float = 30.0,
        scheduling: Scheduling | None = None,
        require_confirmation: bool | NeedsConfirmation = False,
    ) -> None:
        super().__init__(
            function,
            name=name,
            description=description,
            effect=effect,
            timeout_s=timeout_s,
            require_confirmation=require_confirmation,
        )
        if scheduling not in (None, "SILENT", "WHEN_IDLE", "INTERRUPT"):
            raise ConfigurationError(f"tool {self.name!r}: scheduling is SILENT, WHEN_IDLE or INTERRUPT, not {scheduling!r}")
        self.scheduling = scheduling

    def stream(self, args: Mapping[str, Any], context: ToolCallContext) -> AsyncGenerator[Any, None]:
        """Check and convert the arguments and begin. Raises `ToolError` where they do not fit."""
        generator: AsyncGenerator[Any, None] = self.function(**self.values(args, context))
        return generator

    async def run(self, args: Mapping[str, Any], context: ToolCallContext) -> Any:
        """All pieces as one result. Raises `ToolError` for the time-out and for too much of it, and what the function raises."""
        limit = asyncio.timeout(self.timeout_s)
        pieces, size = [], 0
        try:
            async with limit, aclosing(self.stream(args, context)) as stream:
                async for piece in stream:
                    pieces.append(piece)
                    size += len(piece) if isinstance(piece, str) else 1
                    if size > MAX_RESULT_BYTES:
                        raise ToolError(f"{self.name!r} gave more than a result may hold; outside of a live session it has to end")
        except TimeoutError:
            if not limit.expired():
                raise
            raise ToolError(self.timeout_words(started=True)) from None
        return joined(pieces)


class StopStreaming:
    """Stops the streaming tools of a name. A live session does it; outside of one there is never anything to stop."""

    name = STOP_STREAMING
    effect: Effect = "read"
    long_running = False
    declaration = FunctionDeclaration(
        name=STOP_STREAMING,
        description="Stop a function that is running in the background and sends updates.",
        parameters_json_schema={
            "type": "object",
            "properties": {"function_name": {"type": "string", "description": "Name of the function to stop."}},
            "required": ["function_name"],
        },
    )

    def function_name(self, args: Mapping[str, Any]) -> str:
        """Which one is to be stopped. Raises `ToolError`."""
        name = args.get("function_name")
        if not isinstance(name, str) or not name:
            raise ToolError("function_name: the name of the function to stop is missing")
        return name

    async def run(self, args: Mapping[str, Any], context: ToolCallContext) -> dict[str, Any]:
        """Say that nothing runs. Raises `ToolError` where no name is given."""
        return stopped(self.function_name(args), 0)


def started(name: str) -> dict[str, Any]:
    """The answer to a call whose pieces follow."""
    return {"status": f"{name} is running in the background; its results follow as they come."}


def stopped(name: str, count: int) -> dict[str, Any]:
    """The answer to a call of `stop_streaming`."""
    if not count:
        return {"status": f"No running instance of {name} was found."}
    return {"status": f"All running instances of {name} were stopped ({count})."}


def joined(pieces: Sequence[Any]) -> Any:
    """The pieces as one result: texts as one text, anything else as a list."""
    if all(isinstance(piece, str) for piece in pieces):
        return "".join(pieces)
    return list(pieces)


class Kept:
    """The newest pieces of a stream that may go on for ever, at most 32 KiB of JSON."""

    LIMIT = 32 * 1024

    def __init__(self) -> None:
        self._pieces: deque[tuple[Any, int]] = deque()
        self._size = 0

    def add(self, piece: Any) -> None:
        """Keep a piece (JSON data). The oldest go for it; one that is too large alone is not kept."""
        size = len(json.dumps(piece, ensure_ascii=False))
        self._pieces.append((piece, size))
        self._size += size
        while self._size > self.LIMIT:
            self._size -= self._pieces.popleft()[1]

    def result(self) -> dict[str, Any]:
        """What is kept, as a response; empty where nothing is."""
        return {"result": joined([piece for piece, _ in self._pieces])} if self._pieces else {}
