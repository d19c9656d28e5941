"""Makes a tool of a Python function."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeAlias, overload

from live_gateway.content import FunctionDeclaration
from live_gateway.errors import ConfigurationError, ToolError
from live_gateway.tools.base import Effect, ToolCallContext
from live_gateway.tools.signature import read_signature
from live_gateway.tools.threads import TOOL_THREADS, Job

NeedsConfirmation: TypeAlias = Callable[[Mapping[str, Any], ToolCallContext], bool | Awaitable[bool]]
"""Says of a call whether a person has to approve it. It gets the converted arguments."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_LONG_RUNNING_NOTE = (
    "NOTE: this starts something long. When it has answered with a status that is not final, do not call it again; the result comes later."
)


class FunctionTool:
    """A function that a model may call.

    The declaration is made from the signature and the docstring: description, parameter texts (Google style or `:param`), types (whatever
    pydantic knows), defaults. A parameter named `ctx`, `context` or `tool_context` (unless annotated as plain data), or annotated
    `ToolContext`, receives the tool context; the model does not see it. Async functions are awaited; others run in one of 32 threads.

    effect: `read` for a function that only looks, `write` for one that changes something. What does not say is taken for `write`.
    timeout_s: seconds until a call is given up. long_running: the final result comes later, from outside; what the function returns is
    a first status, or None. require_confirmation: whether a person has to approve a call before it runs, or a callable that says so for
    each call (`NeedsConfirmation`); one that fails leaves the call unrun. cancel_on_interrupt: whether a live session cancels a call that
    runs when the user interrupts. The object can be called like the function itself. An async generator function makes a `StreamingTool`.

    Raises `ConfigurationError` where the function cannot be declared to a model.
    """

    yields = False
    """Whether the function is an async generator function."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        effect: Effect | None = None,
        timeout_s: float = 30.0,
        long_running: bool = False,
        require_confirmation: bool | NeedsConfirmation = False,
        cancel_on_interrupt: bool = False,
    ) -> None:
        if not inspect.isroutine(function):
            raise ConfigurationError(f"{function!r} is not a function")
        self.name = name if name is not None else function.__name__
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(f"{self.name!r} is no tool name: letters, digits, _ and -, at most 64, not beginning with a digit")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function) is not self.yields:
            wrong = "only an async generator function streams" if self.yields else "a generator has no single result; return one"
            raise ConfigurationError(f"tool {self.name!r}: {wrong}")
        if timeout_s <= 0:
            raise ConfigurationError(f"tool {self.name!r}: the time limit must be above 0 seconds, not {timeout_s}")
        self.function = function
        self.effect: Effect = effect or "write"
        self.timeout_s = timeout_s
        self.long_running = long_running
        self.require_confirmation = require_confirmation
        self.cancel_on_interrupt = cancel_on_interrupt
        self._signature = read_signature(function)
        self.declaration = self._declare(description)

    def __repr__(self) -> str:
        return f"FunctionTool({self.name!r})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself, as if it were no tool."""
        return self.function(*args, **kwargs)

    async def run(self, args: Mapping[str, Any], context: ToolCallContext) -> Any:
        """Check and convert the arguments, run the function within its time limit, and give what it returned.

        Raises `ToolError` for arguments that do not fit and for the time-out, and whatever the function raises.
        """
        values = self.values(args, context)
        job: Job | None = None if inspect.iscoroutinefunction(self.function) else Job(partial(self.function, **values))
        limit = asyncio.timeout(self.timeout_s)
        try:
            async with limit:
                result = await self.function(**values) if job is None else await TOOL_THREADS.run(job)
                return await result if job is not None and inspect.isawaitable(result) else result
        except TimeoutError:
            if not limit.expired():
                raise
            raise ToolError(self.timeout_words(started=job is None or not job.future.cancelled())) from None

    async def asks_first(self, args: Mapping[str, Any], context: ToolCallContext) -> bool:
        """Whether a person has to approve a call with these arguments. Raises `ToolError` where they do not fit, and what the callable
        raises."""
        if self.require_confirmation is False:
            return False
        values = self._signature.convert(args)
        if self.require_confirmation is True:
            return True
        needed = self.require_confirmation(values, context)
        return bool(await needed if inspect.isawaitable(needed) else needed)

    def values(self, args: Mapping[str, Any], context: ToolCallContext) -> dict[str, Any]:
        """The model's arguments as the function takes them. Raises `ToolError` where they do not fit."""
        values: dict[str, Any] = self._signature.convert(args)
        if self._signature.context is not None:
            values[self._signature.context] = context
        return values

    def timeout_words(self, *, started: bool) -> str:
        """What the model is told when the time is over."""
        if started:
            return f"timeout: {self.name!r} did not finish within {self.timeout_s:g} seconds; it may still take effect"
        return f"timeout: {self.name!r} was not started within {self.timeout_s:g} seconds, too many tools are running"

    def _declare(self, description: str | None) -> FunctionDeclaration:
        text = description if description is not None else self._signature.description
        if self.long_running:
            text = f"{text}\n\n{_LONG_RUNNING_NOTE}".strip()
        schema = dict(self._signature.schema) if self._signature.arguments else None
        return FunctionDeclaration(name=self.name, description=text or None, parameters_json_schema=schema)


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect | None = None,
    timeout_s: float = 30.0,
    long_running: bool = False,
    require_confirmation: bool | NeedsConfirmation = False,
    cancel_on_interrupt: bool = False,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Decorate a function to make it a `FunctionTool`: `@tool`, or with its options, `@tool(effect="read")`.

    An async generator function becomes a `StreamingTool`, and takes its options.
    """
    return as_tool(function, **options) if function is not None else partial(as_tool, **options)


def as_tool(function: Callable[..., Any], **options: Any) -> FunctionTool:
    """The tool of a function: a `StreamingTool` of an async generator function, else a `FunctionTool`."""
    if inspect.isasyncgenfunction(function):
        from live_gateway.tools.streaming import StreamingTool

        return StreamingTool(function, **options)
    return FunctionTool(function, **options)
