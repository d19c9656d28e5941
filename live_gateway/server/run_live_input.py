"""What a client of `WS /run_live` asks for, on its way into the live session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias, assert_never

from live_gateway.channel import Channel, ChannelClosed, ChannelFull
from live_gateway.errors import LiveSessionClosed, RateLimited, is_ours
from live_gateway.events import USER, Event, EventActions
from live_gateway.live.session import LiveSession
from live_gateway.models.live import Activity
from live_gateway.server.live_request import Audio, AudioEnd, Image, LiveRequest, Realtime
from live_gateway.sessions.base import SessionService
from live_gateway.telemetry import get_logger

log = get_logger(__name__)

MESSAGES: Final = 64
REALTIME: Final = 1024
"""Audio waits here only until the session is open; the session has a bound of its own."""

Job: TypeAlias = Callable[[LiveSession], Awaitable[None]]


class RunLiveInput:
    """Two lanes, each in order: what is heard and seen, and what is stored, so that a store that is slow holds up no audio.

    A frame that has both goes through the second one as a whole. refuse: takes what could not be carried out; the session goes on.
    """

    def __init__(self, sessions: SessionService, refuse: Callable[[Exception], None]) -> None:
        self._sessions = sessions
        self._refuse = refuse
        self._messages: Channel[Job] = Channel(MESSAGES)
        self._realtime: Channel[Job] = Channel(REALTIME)

    def take(self, request: LiveRequest) -> None:
        """Have it carried out. Raises `RateLimited` when too much waits already."""
        stored = request.content is not None or request.state_delta is not None
        if stored:
            self._post(self._messages, lambda live: self._whole(live, request))
        elif (realtime := request.realtime) is not None:
            self._post(self._realtime, lambda live: _perform(live, realtime))
        if request.close:
            self.close()

    def close(self) -> None:
        """Take no more; what was taken is still carried out."""
        self._messages.close()
        self._realtime.close()

    async def run(self, live: LiveSession) -> None:
        """Carry everything to the session, which is open now, until `close`; what was taken before that is carried out."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._work(self._messages, live), name="messages")
                group.create_task(self._work(self._realtime, live), name="realtime")
        finally:
            self.close()

    async def _work(self, lane: Channel[Job], live: LiveSession) -> None:
        async for job in lane:
            try:
                await job(live)
            except LiveSessionClosed:
                continue  # it is ending, which the client is about to be told
            except Exception as problem:  # the edge: one thing a client asked for failed, the session goes on
                if not is_ours(problem):
                    log.error("input_failed", problem)
                self._refuse(problem)

    async def _whole(self, live: LiveSession, request: LiveRequest) -> None:
        if request.state_delta is not None:
            actions = EventActions(state_delta=request.state_delta)
            event = Event(author=USER, invocation_id=live.invocation_id, actions=actions)
            await self._sessions.append_event(live.session, event)
        if request.content is not None:
            await live.send(request.content)
        if request.realtime is not None:
            await _perform(live, request.realtime)

    def _post(self, lane: Channel[Job], job: Job) -> None:
        try:
            lane.put_nowait(job)
        except ChannelClosed:
            return
        except ChannelFull:
            raise RateLimited("Too many requests already wait; this one was not taken.") from None


async def _perform(live: LiveSession, realtime: Realtime) -> None:
    match realtime:
        case Audio(pcm):
            live.push_audio(pcm)
        case Image(data, mime_type):
            await live.send_image(data, mime_type)
        case AudioEnd():
            await live.end_audio()
        case Activity():
            await live.activity(realtime)
        case _:
            assert_never(realtime)
