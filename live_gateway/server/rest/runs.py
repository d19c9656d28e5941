"""The runs that were asked for over HTTP. They belong to the server, not to the request: a client that leaves does not end its run."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from live_gateway.channel import Channel, ChannelClosed, ChannelFull
from live_gateway.errors import AgentError, RateLimited, SlowConsumer, ToolResponseNotExpected, facts
from live_gateway.events import Event
from live_gateway.runner.stream import RunStream
from live_gateway.server.gateway import SessionKey
from live_gateway.server.rest.problems import Refused, RunCancelled
from live_gateway.telemetry import get_logger

log = get_logger(__name__)

MAX_RUNS = 500
MAX_ENDED = 256
MAX_FOLLOWERS = 8
FOLLOWER_EVENTS = 64
LONGEST_S = 3600.0


class Follower:
    """Who watches a run: its events from now on, at most 64 of them waiting.

    after_seq: number of the last stored event that was shown before. problem: set when iteration ended and the run was not over well.
    """

    def __init__(self, after_seq: int = 0) -> None:
        self.after_seq = after_seq
        self.problem: BaseException | None = None
        self.waiting: Channel[Event] = Channel(FOLLOWER_EVENTS)

    def close(self, problem: BaseException | None = None) -> None:
        """End it; what waits can still be taken. The first problem counts."""
        if not self.waiting.closed:
            self.problem = problem
            self.waiting.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        return await anext(self.waiting)


class ServedRun:
    """A run that goes on in the server.

    first_seq: number of the user's event, 0 before it is stored and where there is none. last_seq: that of the last one shown. begun: the
    user's event was stored, or else the first event came, or the run is over. problem: why it failed.
    """

    def __init__(self, key: SessionKey, patience_s: float) -> None:
        self.key = key
        self.invocation_id = ""
        self.first_seq = 0
        self.begun = asyncio.Event()
        self.last_seq = 0
        self.ended = False
        self.problem: BaseException | None = None
        self.task: asyncio.Task[None] | None = None
        self._patience_s = patience_s
        self._followers: list[Follower] = []

    def follow(self) -> Follower:
        """Watch it from here on. Raises `RateLimited` when too many do."""
        follower = Follower(self.last_seq)
        if self.ended:
            follower.close(self.problem)
            return follower
        self._followers = [each for each in self._followers if not each.waiting.closed]
        if len(self._followers) >= MAX_FOLLOWERS:
            raise RateLimited(f"A run has at most {MAX_FOLLOWERS} readers.")
        self._followers.append(follower)
        return follower

    def cancel(self) -> None:
        """End it now."""
        if self.task is not None:
            self.task.cancel()

    async def publish(self, event: Event) -> None:
        """Show an event to who watches. The run waits for a slow one; for one that takes nothing only so long, and not again."""
        self.last_seq = event.seq or self.last_seq
        for follower in tuple(self._followers):
            try:
                follower.waiting.put_nowait(event)
            except ChannelFull:
                await self._wait_for(follower, event)
            except ChannelClosed:
                continue

    def end(self, problem: BaseException | None) -> None:
        """It is over."""
        self.ended, self.problem = True, problem
        self.begun.set()
        followers, self._followers = self._followers, []
        for follower in followers:
            follower.close(problem)

    async def _wait_for(self, follower: Follower, event: Event) -> None:
        try:
            async with asyncio.timeout(self._patience_s):
                await follower.waiting.put(event)
        except TimeoutError:
            follower.close(SlowConsumer("The events were not read; go on after the last one with Last-Event-ID."))
        except ChannelClosed:
            return


class Runs:
    """All runs of the server. `async with` it: leaving cancels those that still go on. patience_s: how long a run waits for a reader."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._group: asyncio.TaskGroup | None = None
        self._runs: dict[tuple[SessionKey, str], ServedRun] = {}
        self._ended: OrderedDict[tuple[SessionKey, str], ServedRun] = OrderedDict()
        self._claimed: set[tuple[SessionKey, str]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._group = await asyncio.TaskGroup().__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        group, self._group = self._group, None
        for task in self._tasks:
            task.cancel()
        if group is not None:
            await group.__aexit__(kind, error, trace)

    def claim(self, key: SessionKey, calls: Iterable[str]) -> frozenset[str]:
        """Take these calls of a session, so that nobody else answers them at the same time. Raises `ToolResponseNotExpected`."""
        wanted = frozenset(calls)
        if any((key, call) in self._claimed for call in wanted):
            raise ToolResponseNotExpected("The call is being answered already.")
        self._claimed.update((key, call) for call in wanted)
        return wanted

    def release(self, key: SessionKey, calls: Iterable[str]) -> None:
        """Give calls back that were claimed."""
        self._claimed.difference_update((key, call) for call in calls)

    def start(self, key: SessionKey, stream: RunStream, *, opens: bool, claimed: frozenset[str] = frozenset()) -> ServedRun:
        """Begin a run. opens: its first event is the user's, which is not shown. claimed: released when it is over.

        Raises `Refused` (503) when the server is going down or has too many.
        """
        if self._group is None:
            raise Refused(503, "The server is not running.", "drain", {"Retry-After": "1"})
        if len(self._tasks) >= MAX_RUNS:
            raise Refused(503, f"The server has {MAX_RUNS} runs at once already.", "overload", {"Retry-After": "1"})
        run = ServedRun(key, self._patience_s)
        run.task = self._group.create_task(self._drive(run, stream, opens), name="run")
        self._tasks.add(run.task)
        run.task.add_done_callback(lambda task: self._finished(task, run, claimed))
        return run

    def find(self, key: SessionKey, invocation_id: str) -> ServedRun | None:
        """The run of this invocation, if it goes on here or ended a short while ago."""
        return self._runs.get((key, invocation_id)) or self._ended.get((key, invocation_id))

    def _finished(self, task: asyncio.Task[None], run: ServedRun, claimed: frozenset[str]) -> None:
        self._tasks.discard(task)
        self.release(run.key, claimed)
        if not run.ended:  # it was cancelled before its first step
            run.end(RunCancelled("The run was cancelled."))

    async def _drive(self, run: ServedRun, stream: RunStream, opens: bool) -> None:
        problem: BaseException | None = RunCancelled("The run was cancelled.")
        limit = asyncio.timeout(LONGEST_S)
        try:
            async with limit, stream:
                async for event in stream:
                    if not run.begun.is_set():
                        self._begin(run, event)
                        if opens:
                            run.first_seq = event.seq
                            continue
                    await run.publish(event)
            problem = None
        except Exception as error:  # the edge: the run is over, and its reader is told
            problem = AgentError(f"The run was ended after {LONGEST_S:.0f} seconds.") if limit.expired() else error
            if facts(error).http_status >= 500:
                log.error("run_failed", error, app=run.key[0], session=run.key[2])
        finally:
            self._end(run, problem)

    def _begin(self, run: ServedRun, event: Event) -> None:
        run.invocation_id = event.invocation_id
        self._runs[run.key, run.invocation_id] = run
        run.begun.set()

    def _end(self, run: ServedRun, problem: BaseException | None) -> None:
        run.end(problem)
        index = (run.key, run.invocation_id)
        if self._runs.get(index) is run:
            del self._runs[index]
            self._ended[index] = run
            self._ended.move_to_end(index)
            if len(self._ended) > MAX_ENDED:
                self._ended.popitem(last=False)
