"""The way to one client: what the server says itself, and everything that its live session gives, in one order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect

from live_gateway.channel import Channel, ChannelClosed, ChannelFull
from live_gateway.clock import Clock
from live_gateway.errors import SlowConsumer, public_error
from live_gateway.live.items import Failure, LiveItem
from live_gateway.live.session import LiveSession
from live_gateway.server.gateway import DONE, GONE, Ending
from live_gateway.server.guard import TRANSPORT
from live_gateway.server.outgoing import Message, encode, error
from live_gateway.telemetry import get_logger

log = get_logger(__name__)

FAREWELL_S = 2.0
SLOW = public_error(SlowConsumer("This client does not take what it is sent."))
EARLY_FRAMES = 2048
"""More answers than a client can ask for before it is welcome."""


class Frames(Protocol):
    """How items look on the wire."""

    def frames(self, item: LiveItem, now_ms: float) -> list[str | bytes]:
        """The item as the client sees it, in order. now_ms: epoch milliseconds."""
        ...


class Downlink:
    """Sends to one client. `run` is the one task that does; `watch` ends the connection of a client that takes nothing for so long.

    send_s: seconds. end: ends the connection.
    """

    def __init__(self, websocket: WebSocket, clock: Clock, send_s: float, end: Callable[[Ending], None]) -> None:
        self._websocket = websocket
        self._clock = clock
        self._send_s = send_s
        self._end = end
        self._early: Channel[str] = Channel(EARLY_FRAMES)
        self._live: LiveSession | None = None
        self._outgoing: Frames | None = None
        self._sending_since: float | None = None

    @property
    def welcomed(self) -> bool:
        """Whether there is a live session, whose items are sent."""
        return self._live is not None

    def say(self, message: Message) -> None:
        """Send something of the server's own, at its place among the items of the session."""
        self.relay(encode(message))

    def relay(self, frame: str) -> None:
        """Send a text frame of the server's own, at its place among the items of the session."""
        if self._live is not None:
            self._live.relay(frame)
            return
        try:
            self._early.put_nowait(frame)
        except (ChannelFull, ChannelClosed):
            log.warning("early_frame_dropped")

    def follow(self, live: LiveSession, outgoing: Frames) -> None:
        """The live session is open: after what was said so far, its items are sent."""
        self._outgoing = outgoing
        self._live = live
        self._early.close()

    async def run(self) -> None:
        """Send until the session has ended, and end the connection as it ended; or as soon as nobody is there to send to."""
        try:
            async for frame in self._early:
                await self._put(frame)
            self._end(await self._follow())
        except (OSError, RuntimeError, WebSocketDisconnect):
            self._end(GONE)

    async def _follow(self) -> Ending:
        """Send the session's items to the last one; how it ended."""
        live, outgoing = self._live, self._outgoing
        assert live is not None
        assert outgoing is not None
        ending = DONE
        async for item in live.items():
            for frame_out in outgoing.frames(item, self._clock.wall() * 1000):
                await self._put(frame_out)
            if isinstance(item, Failure) and item.fatal:  # the last one
                ending = Ending(item.error.close_code, item.error.code)
        return ending

    async def watch(self) -> None:
        """Look now and then whether the client takes what it is sent; a time limit on every frame would cost more than the frame."""
        while True:
            await asyncio.sleep(self._send_s / 4)
            if self._sending_since is not None and self._clock.now() - self._sending_since >= self._send_s:
                self._end(Ending(SLOW.close_code, SLOW.code, encode(error(SLOW, fatal=True))))

    async def farewell(self, ending: Ending, last: str | None) -> None:
        """Say the last thing and close, if anybody is there to be told; else drop the connection at once.

        A client that takes nothing is told too, should it take something again within the time for this; it cannot be told past what lies
        in the socket already.
        """
        try:
            async with asyncio.timeout(FAREWELL_S):
                if ending.polite:
                    if last is not None:
                        await self._websocket.send({"type": "websocket.send", "text": last})
                    await self._websocket.close(ending.code, ending.reason)
                    return
        except (TimeoutError, OSError, RuntimeError, WebSocketDisconnect):
            pass  # nobody there
        if (transport := self._websocket.scope.get("extensions", {}).get(TRANSPORT)) is not None:
            transport.abort()

    async def _put(self, frame: str | bytes) -> None:
        self._sending_since = self._clock.now()
        try:
            if isinstance(frame, bytes):
                await self._websocket.send({"type": "websocket.send", "bytes": frame})
            else:
                await self._websocket.send({"type": "websocket.send", "text": frame})
        finally:
            self._sending_since = None
