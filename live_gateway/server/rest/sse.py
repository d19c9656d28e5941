"""Server-sent events: a run as a stream of frames that proxies do not cut and clients can take up again.

Each stored event has its number as `id`. A comment every 15 seconds keeps idle connections open. The first frame has an id and no data:
clients dispatch nothing, and know where to go on should the connection break before the first event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Self

import msgspec
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from live_gateway.channel import ChannelClosed
from live_gateway.events import Event, replace
from live_gateway.server.rest.problems import error_frame
from live_gateway.server.rest.runs import Follower
from live_gateway.server.rest.views import event_view
from live_gateway.telemetry import get_logger

log = get_logger(__name__)

HEARTBEAT_S = 15.0
_HEARTBEAT = b": still here\n\n"
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class watch:  # noqa: N801 - used as a block
    """While the block runs, see whether the client leaves: `on_gone` is then called, once."""

    def __init__(self, receive: Receive, on_gone: Callable[[], None]) -> None:
        self._receive = receive
        self._on_gone = on_gone
        self._group = asyncio.TaskGroup()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        self._task = self._group.create_task(self._wait())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._task is not None:
            self._task.cancel()
        await self._group.__aexit__(None, None, None)

    async def _wait(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._on_gone()


class EventStream(Response):
    """The events of a run as they come; `missed` ones first. follower: None where the run is not here any more.

    send_s: how long the client may take nothing. first_id: the number after which the events begin, 0 for none. whole: an event that has
    content and artifacts stays one frame; it is split otherwise, as google-adk does for its page. on_gone: called when the client leaves
    before the end.
    """

    def __init__(
        self,
        follower: Follower | None,
        missed: Sequence[Event] = (),
        *,
        send_s: float,
        on_gone: Callable[[], None],
        first_id: int = 0,
        whole: bool = False,
    ) -> None:
        super().__init__(None, 200, _HEADERS, "text/event-stream")
        del self.headers["content-length"]
        self._on_gone = on_gone
        self._follower = follower
        self._missed = missed
        self._send_s = send_s
        self._whole = whole
        self._first_id = first_id
        self._last_id = 0
        self._stale_until = missed[-1].seq if missed and follower is not None and missed[-1].seq > follower.after_seq else 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with watch(receive, self._gone):
            try:
                await self._send_all(send)
            except (OSError, TimeoutError):  # the client is gone, or takes nothing
                self._gone()

    def _gone(self) -> None:
        if self._follower is not None:
            self._follower.close()
        self._on_gone()

    async def _send_all(self, send: Send) -> None:
        await self._put(send, {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        first = b"id: %d\n\n" % self._first_id if self._first_id else b""
        if first := first + self._frames(self._missed):
            await self._put(send, _body(first))
        while (chunk := await self._next_chunk()) is not None:
            await self._put(send, _body(chunk))
        await self._put(send, _body(self._ending(), more=False))

    async def _next_chunk(self) -> bytes | None:
        """What can be sent at once; None at the end."""
        if self._follower is None:
            return None
        waiting = self._follower.waiting
        try:
            async with asyncio.timeout(HEARTBEAT_S):
                events = [await waiting.get()]
        except TimeoutError:
            return _HEARTBEAT
        except ChannelClosed:
            return None
        while len(waiting):
            events.append(await waiting.get())
        return self._frames(events)

    def _frames(self, events: Iterable[Event]) -> bytes:
        frames: list[bytes] = []
        for event in events:
            if self._was_missed(event):
                continue
            self._last_id = event.seq or self._last_id
            frames.append(self._frame(event))
        return b"".join(frames)

    def _was_missed(self, event: Event) -> bool:
        """Whether the event was among the missed ones already, or is a piece of one that was."""
        if not event.seq:
            return self._stale_until > 0
        if event.seq >= self._stale_until:
            self._stale_until = 0
        return event.seq <= self._last_id

    def _frame(self, event: Event) -> bytes:
        mark = b"id: %d\n" % event.seq if event.seq else b""
        if self._whole or event.content is None or not event.actions.artifact_delta:
            return mark + _data(event)
        said = replace(event, actions=msgspec.structs.replace(event.actions, artifact_delta={}))
        return _data(said) + mark + _data(replace(event, content=None))

    def _ending(self) -> bytes:
        problem = self._follower.problem if self._follower is not None else None
        return b"data: " + error_frame(problem) + b"\n\n" if problem is not None else b""

    async def _put(self, send: Send, message: Message) -> None:
        async with asyncio.timeout(self._send_s):
            await send(message)


def _body(data: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


def _data(event: Event) -> bytes:
    return b"data: " + msgspec.json.encode(event_view(event)) + b"\n\n"
