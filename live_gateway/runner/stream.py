"""The stream of a run: lazy, closable, and not ended by every error.

async with runner.run(user_id="u", session_id="s", message=hello) as stream:
    async for event in stream:
        ...
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Literal, Protocol, Self, TypeAlias

from live_gateway.events import Event
from live_gateway.telemetry import get_logger

log = get_logger(__name__)

_finishing: set[asyncio.Task[Sequence[Exception]]] = set()


Ending: TypeAlias = Literal["exhausted", "failed", "stopped", "cancelled"]
"""How a stream came to its end: read to the end, by an error, left by its caller, or with the task that read it."""


class Work(Protocol):
    """What a stream drives: it goes on only when the next event is asked for."""

    @property
    def ended(self) -> bool:
        """Whether it is known that nothing more comes."""
        ...

    async def next(self) -> Event:
        """The next event. Raises `StopAsyncIteration` at the end; any other error need not be the end."""
        ...

    async def finish(self, how: Ending) -> Sequence[Exception]:
        """Clean up, whatever place it is at; called once. Gives the errors that a caller who read to the end should see."""
        ...


class RunStream:
    """The events of one run. Nothing happens before the first is asked for, and nothing after it before the next is.

    An async iterator and an async context manager, to be iterated once. An error is raised where the next event would have come, and need
    not be the end: ask again (`anext`, or iterate `pairs()`), and the rest comes if there is any. However it ends, running model and tool
    calls are cancelled and `after_run` has run before the call that ended it returns: the last `anext`, `aclose`, leaving the `async with`
    block, or the cancellation. A stream that is dropped half-way is finished in its loop, and warns (`ResourceWarning`).
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._place: Literal["new", "running", "finishing", "done"] = "new"
        self._iterated = False
        self._closing = False
        self._pull: asyncio.Timeout | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._done = asyncio.Event()

    def __aiter__(self) -> Self:
        if self._iterated:
            raise RuntimeError("a stream is iterated once; call run again for another run")
        self._iterated = True
        return self

    async def __anext__(self) -> Event:
        if self._place in ("finishing", "done"):
            raise StopAsyncIteration
        if self._pull is not None:
            raise RuntimeError("another task is already waiting for this stream's next event")
        if self._place == "new":
            self._place, self._loop = "running", asyncio.get_running_loop()
        self._pull = asyncio.timeout(None)
        try:
            async with self._pull:
                event = await self._work.next()
        except StopAsyncIteration:
            self._pull = None
            for error in await self._finish("stopped" if self._closing else "exhausted"):
                raise error from error.__cause__
            raise
        except asyncio.CancelledError:
            self._pull = None
            await self._finish("cancelled")
            raise
        except BaseException:
            pull, self._pull = self._pull, None
            if pull.expired() or self._closing:  # `aclose` was called meanwhile
                await self._finish("stopped")
                raise StopAsyncIteration from None
            if self._work.ended:
                await self._finish("failed")
            raise
        self._pull = None
        if self._closing:
            await self._finish("stopped")
            raise StopAsyncIteration
        return event

    def pairs(self) -> AsyncIterator[tuple[Event | None, Exception | None]]:
        """The rest of the stream as pairs of which one half is None: an event, or an error that was met instead of one."""
        return _Pairs(aiter(self))

    async def aclose(self) -> None:
        """Stop here. Who waits for the next event in another task gets the end of the stream."""
        self._closing = True
        if self._place == "new":
            self._place = "done"
            self._done.set()
        elif self._pull is not None:
            self._pull.reschedule(asyncio.get_running_loop().time())
        elif self._place == "running":
            await self._finish("stopped")
        await self._done.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, asyncio.CancelledError) and self._place == "running" and self._pull is None:
            await self._finish("cancelled")
        else:
            await self.aclose()

    async def _finish(self, how: Ending) -> Sequence[Exception]:
        self._place = "finishing"
        try:
            return await self._work.finish(how)
        finally:
            self._place = "done"
            self._done.set()

    def __del__(self) -> None:
        if getattr(self, "_place", "done") != "running" or self._loop is None or self._loop.is_closed():
            return
        try:
            here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            here = False
        if here:
            _finish_dropped(self._loop, self._work)
        else:
            self._loop.call_soon_threadsafe(_finish_dropped, self._loop, self._work)
        warnings.warn(
            "a run's stream was dropped before its end; use `async with`, or `aclose` it", ResourceWarning, source=self, stacklevel=2
        )


class _Pairs:
    def __init__(self, stream: AsyncIterator[Event]) -> None:
        self._stream = stream

    def __aiter__(self) -> _Pairs:
        return self

    async def __anext__(self) -> tuple[Event | None, Exception | None]:
        try:
            return await anext(self._stream), None
        except StopAsyncIteration:
            raise
        except Exception as error:  # errors as values are what this iterator is for
            return None, error


def _finish_dropped(loop: asyncio.AbstractEventLoop, work: Work) -> None:
    """Clean up after a stream that nobody holds any more: the one task of a run outside a group."""
    task = loop.create_task(work.finish("stopped"), name="finish a dropped run")
    _finishing.add(task)
    task.add_done_callback(_dropped)


def _dropped(task: asyncio.Task[Sequence[Exception]]) -> None:
    _finishing.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("finishing_failed", error)
