"""Group commit: one task writes, and whatever was asked for while it wrote goes into its next transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeAlias

from sqlalchemy import Connection
from sqlalchemy.exc import DataError, IntegrityError

from live_gateway.channel import Channel, ChannelClosed, ChannelFull
from live_gateway.errors import GatewayError, StorageError
from live_gateway.events import Event
from live_gateway.sessions.base import Session
from live_gateway.sessions.batch import Append, Create, Delete, create_session, delete_session, store_appends
from live_gateway.sessions.engine import Transactions
from live_gateway.sessions.heads import Heads
from live_gateway.telemetry import get_logger

Work: TypeAlias = Append | Create | Delete
Result: TypeAlias = Event | Session | None

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the store may take before an error is the answer.

    write, read: seconds one attempt may take. attempts: of a write or a read, the first included. pause: seconds before the second attempt,
    twice that before the third.
    """

    write: float = 2.0
    read: float = 10.0
    attempts: int = 3
    pause: float = 0.1

    @property
    def queued(self) -> float:
        """Seconds that work may wait for its turn: as long as all the attempts of one transaction."""
        return self.write * self.attempts


@dataclass(slots=True, eq=False)
class _Job:
    work: Work
    expires: float
    done: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def settle(self, result: Result | GatewayError) -> None:
        if self.done.done():
            return  # whoever asked has been cancelled
        if isinstance(result, GatewayError):
            self.done.set_exception(result)
        else:
            self.done.set_result(result)


class CommitQueue:
    """A bounded queue of writes and the coroutine that carries them out, in order, as few transactions as possible.

    A transaction takes what is queued, of all sessions, up to `largest` writes of one kind. An attempt that fails is rolled back and made
    again with the same content; only after the last one do those who wait get a `StorageError`.
    """

    def __init__(
        self,
        database: Transactions,
        where: str,
        patience: Patience,
        *,
        heads: Heads | None = None,
        capacity: int = 1024,
        largest: int = 256,
    ) -> None:
        self._database = database
        self._where = where
        self._patience = patience
        self._heads = heads
        self._largest = largest
        self._queue: Channel[_Job] = Channel(capacity)
        self.transactions = 0

    async def submit(self, work: Work) -> Result:
        """Have this written; returns when it is committed.

        Cancelling the caller before its turn takes the work back; later it is written or not as if the caller still waited.
        Raises what the work itself raises, and `StorageError` when the queue stays full, the store does not take it or is closed.
        """
        job = _Job(work, asyncio.get_running_loop().time() + self._patience.queued)
        try:
            try:
                self._queue.put_nowait(job)
            except ChannelFull:
                async with asyncio.timeout(self._patience.queued):
                    await self._queue.put(job)
        except TimeoutError:
            raise StorageError(f"too many writes are waiting for {self._where}; try again later") from None
        except ChannelClosed:
            raise StorageError(f"the store at {self._where} is closed") from None
        return await job.done  # type: ignore[no-any-return]

    def close(self) -> None:
        """Take no more work; `run` ends after what is queued."""
        self._queue.close()

    async def run(self) -> None:
        """Write until closed and empty."""
        batch: list[_Job] = []
        try:
            async for job in self._queue:
                batch = [job]
                while len(self._queue) and len(batch) < self._largest:
                    batch.append(await self._queue.get())
                for _, jobs in groupby(batch, key=lambda job: type(job.work)):
                    await self._write(list(jobs))
                batch = []
        finally:
            self._queue.close()
            while len(self._queue):
                batch.append(await self._queue.get())
            for job in batch:
                job.settle(StorageError(f"the store at {self._where} was closed before it took this"))

    async def _write(self, jobs: Sequence[_Job]) -> None:
        now = asyncio.get_running_loop().time()
        for job in jobs:
            if job.expires < now:
                job.settle(StorageError(f"{self._where} has been too slow; nothing was written, try again later"))
        waiting = [job for job in jobs if not job.done.done()]
        if waiting:
            await self._attempt(waiting)

    async def _attempt(self, jobs: Sequence[_Job]) -> None:
        careful, attempt = False, 1
        while True:
            try:
                await self._transact(jobs, careful=careful, again=attempt > 1)
                return
            except Exception as error:  # the edge to foreign drivers: they raise what they like, and those who wait must hear of it
                if self._heads is not None:
                    self._heads.failed()
                if isinstance(error, IntegrityError) and not careful:
                    careful = True  # an id is there already; now find out which
                    continue
                lasting = isinstance(error, IntegrityError | DataError | GatewayError)
                if lasting or attempt == self._patience.attempts:
                    await self._give_up(jobs, error, one_by_one=lasting)
                    return
                _log.warning("store_retry", attempt=attempt, error_type=type(error).__name__)
            await asyncio.sleep(self._patience.pause * attempt)
            careful, attempt = True, attempt + 1

    async def _give_up(self, jobs: Sequence[_Job], error: Exception, *, one_by_one: bool) -> None:
        if one_by_one and len(jobs) > 1:  # one of them is to blame; the others shall not suffer
            for job in jobs:
                await self._attempt([job])
            return
        for job in jobs:
            job.settle(_as_storage_error(error, self._where))

    async def _transact(self, jobs: Sequence[_Job], *, careful: bool, again: bool) -> None:
        """One transaction; when it is committed, handles move along and those who wait are told, in order."""
        works = [job.work for job in jobs]
        async with asyncio.timeout(self._patience.write):
            outcome = await self._database.run(lambda connection: _perform(connection, works, careful=careful, again=again))
        self.transactions += 1
        outcome.committed(self._heads)
        for job, result in zip(jobs, outcome.results, strict=True):
            job.settle(result)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a transaction did. `committed` is called after it: handles move along, and the heads where the store keeps them."""

    results: Sequence[Result | GatewayError]
    committed: Callable[[Heads | None], None]


def _perform(connection: Connection, works: Sequence[Work], *, careful: bool, again: bool) -> _Outcome:
    """Carry out works of one kind."""
    appends = [work for work in works if isinstance(work, Append)]
    if appends:
        return _append(connection, appends, careful=careful, again=again)
    results: list[Result | GatewayError] = []
    for work in works:
        if isinstance(work, Create):
            results.append(create_session(connection, work, again=again))
        elif isinstance(work, Delete):
            delete_session(connection, work)
            results.append(None)

    def committed(heads: Heads | None) -> None:
        for work in works:
            if heads is not None and isinstance(work, Create):
                heads.created(work)
            elif heads is not None and isinstance(work, Delete):
                heads.deleted(work.key)

    return _Outcome(results, committed)


def _append(connection: Connection, appends: Sequence[Append], *, careful: bool, again: bool) -> _Outcome:
    appended = store_appends(connection, appends, careful=careful, again=again)

    def committed(heads: Heads | None) -> None:
        appended.advance_handles(appends)
        if heads is not None:
            heads.appended(appends, appended)

    return _Outcome(appended.results, committed)


def _as_storage_error(error: Exception, where: str) -> StorageError:
    words = str(error) if isinstance(error, GatewayError) else f"{where} did not take the change; it can be tried again later"
    result = StorageError(words)
    result.__cause__ = error
    return result
