"""What a client says, carried to the live session.

The socket's reader hands everything over at once and never waits: whatever takes time goes through one of two lanes, messages and the rest,
so that a slow message does not delay push to talk. Stopping an answer has a lane of its own: it takes no time, and waits for nothing that
does. Before the session is there things wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias, assert_never

from live_gateway.channel import Channel, ChannelClosed, ChannelFull
from live_gateway.clock import Clock
from live_gateway.errors import (
    BadMessage,
    DeliveredNotPersisted,
    DeliveryUnknown,
    GatewayError,
    LiveSessionClosed,
    NotDelivered,
    NotSupported,
    RateLimited,
    is_ours,
    public_error,
)
from live_gateway.live.items import PlaybackMark
from live_gateway.live.session import LiveSession
from live_gateway.models.live import INPUT_HZ, Activity
from live_gateway.server.limits import EarlyAudio
from live_gateway.server.messages import (
    AnswerTool,
    Bye,
    CancelResponse,
    ClientMessage,
    ClientStats,
    ConfirmTool,
    ExtendTool,
    Hello,
    InputActivity,
    InputEnd,
    InputMode,
    InputMute,
    Ping,
    Playback,
    RefreshAuth,
    SendContent,
    SetInputMode,
    UpdateSession,
)
from live_gateway.server.outgoing import AckState, Message, ack, error, input_ack, notice, pong
from live_gateway.server.wire import Flag, Frame, ImageAssembler, Kind
from live_gateway.telemetry import get_logger

log = get_logger(__name__)

Job: TypeAlias = Callable[[LiveSession], Awaitable[None]]

LANE = 64
MUTED_S = 1.0
"""After so long with the microphone off the model is told that the user has finished."""
ACK_S = 0.5
CATCH_UP_S = 0.5
"""How much early audio is handed over at a time ..."""
CATCH_UP_PAUSE_S = 0.05
"""... and how long the model is then left to take it: 10 s of it in 1 s."""


class ClientInput:
    """One client's input. say: sends a message to the client. mode: how the microphone is used, chosen in hello."""

    def __init__(self, say: Callable[[Message], None], clock: Clock, mode: InputMode) -> None:
        self._say = say
        self._clock = clock
        self._mode = mode
        self._live: LiveSession | None = None
        self._messages: Channel[Job] = Channel(LANE)
        self._controls: Channel[Job] = Channel(LANE)
        self._stops: Channel[Job] = Channel(LANE)
        self._early = EarlyAudio()
        self._push = self._early.push
        self._caught_up = asyncio.Event()
        self._images = ImageAssembler()
        self._muted = False
        self._mute_timer: asyncio.TimerHandle | None = None
        self._heard = (0, 0)
        self._closed = asyncio.Event()

    def close(self) -> None:
        """Take no more; what was taken is still carried out."""
        self._unmute()
        self._messages.close()
        self._controls.close()
        self._stops.close()
        self._closed.set()

    async def run(self, live: LiveSession) -> None:
        """Carry everything to the session, which is open now, until `close`; what was taken before that is carried out."""
        self._live = live
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._catch_up(live), name="early audio")
                group.create_task(self._work(self._messages, live), name="messages")
                group.create_task(self._work(self._controls, live), name="controls")
                group.create_task(self._work(self._stops, live), name="stops")
                group.create_task(self._acknowledge(), name="input acks")
        finally:
            self.close()

    def frame(self, frame: Frame) -> None:
        """A binary frame. Raises `BadMessage` for a piece of an image out of place."""
        if frame.kind is Kind.IMAGE_UP:
            if (image := self._images.feed(frame)) is not None:
                self._post(self._messages, lambda live: live.send_image(*image))
            return
        self._heard = (frame.stream, frame.pos + len(frame.payload) // 2)
        if frame.payload and not self._muted:
            self._push(frame.payload)
        if frame.flags is not Flag.NONE and frame.flags & Flag.END:
            self._post(self._controls, self._end_audio)

    def message(self, message: ClientMessage) -> None:  # noqa: C901 - one branch for each message is the clearest form
        """A message. Raises `BadMessage`, `NotSupported`."""
        match message:
            case SendContent():
                self._content(message)
            case InputActivity(event=event):
                self._post(self._controls, lambda live: self._activity(live, Activity(event)))
            case InputMute(muted=muted):
                self._mute(muted)
            case InputEnd():
                self._post(self._controls, self._end_audio)
            case CancelResponse():
                self._post(self._stops, lambda live: live.interrupt())
            case Playback():
                self._playback(message)
            case Ping(t0=t0):
                now = self._clock.wall() * 1000
                self._say(pong(t0, now, now))
            case ClientStats():
                log.debug("client_stats", dropped_ms=message.dropped_ms, delay_ms=message.rtt_ms)
            case SetInputMode(mode=mode):
                if mode != self._mode:
                    raise NotSupported("The input mode is chosen in hello; connect again to change it.")
            case UpdateSession():
                raise NotSupported("A session is configured in hello; connect again to change it.")
            case ConfirmTool(scope="session"):
                raise NotSupported("A decision is about one call: scope is once.")
            case ConfirmTool():
                self._confirm(message)
            case AnswerTool() | ExtendTool() | RefreshAuth():
                raise NotSupported(f"This server does not carry out {message.__struct_config__.tag}.")
            case Hello():
                raise BadMessage("hello comes once, at the beginning.")
            case Bye():
                self.close()
            case _:
                assert_never(message)

    async def _catch_up(self, live: LiveSession) -> None:
        """Hand over what was said before the session was there, no faster than the session's own bound on waiting audio allows."""
        while self._early:
            samples = 0
            while self._early and samples < CATCH_UP_S * INPUT_HZ:
                pcm = self._early.pop()
                samples += len(pcm) // 2
                live.push_audio(pcm)
            await asyncio.sleep(CATCH_UP_PAUSE_S)
        self._push = live.push_audio
        self._caught_up.set()
        if dropped_ms := self._early.take_dropped_ms():
            self._say(notice("warning", "audio_gap", {"direction": "up", "dropped_ms": dropped_ms}))

    async def _work(self, lane: Channel[Job], live: LiveSession) -> None:
        async for job in lane:
            try:
                await job(live)
            except LiveSessionClosed:
                continue  # it is ending, which the client is about to be told
            except Exception as problem:  # the edge: one thing a client asked for failed, the session goes on
                if not is_ours(problem):
                    log.error("input_failed", problem)
                self._say(error(public_error(problem)))

    async def _acknowledge(self) -> None:
        told = self._heard
        while not self._closed.is_set():
            try:
                async with asyncio.timeout(ACK_S):
                    await self._closed.wait()
            except TimeoutError:
                if told != self._heard:
                    told = self._heard
                    self._say(input_ack(*told))

    def _content(self, message: SendContent) -> None:
        try:
            self._messages.put_nowait(lambda live: self._send(live, message))
        except ChannelFull:
            self._refused(message.message_id, RateLimited(f"{LANE} messages already wait; this one was not taken."))
        except ChannelClosed:
            self._refused(message.message_id, LiveSessionClosed("The conversation is ending."))

    async def _send(self, live: LiveSession, message: SendContent) -> None:
        """Send a message and say what became of it."""
        state: AckState
        try:
            result = await live.send(message.content)
        except (DeliveredNotPersisted, DeliveryUnknown) as problem:
            state = "delivered_not_persisted" if isinstance(problem, DeliveredNotPersisted) else "unknown"
            self._say(error(public_error(problem), ref=message.message_id))
            self._say(ack(message.message_id, state))
        except (NotDelivered, GatewayError) as problem:
            self._refused(message.message_id, problem)
        except Exception as problem:  # the edge: whether it arrived is not known
            log.error("send_failed", problem)
            self._say(error(public_error(problem), ref=message.message_id))
            self._say(ack(message.message_id, "unknown"))
        else:
            self._say(ack(message.message_id, result.state, result.seq))

    def _refused(self, message_id: str, problem: Exception) -> None:
        self._say(error(public_error(problem), ref=message_id))
        self._say(ack(message_id, "not_delivered"))

    def _confirm(self, message: ConfirmTool) -> None:
        """A decision about a call. Once it is stored, the call's own messages say what becomes of it."""

        async def decide(live: LiveSession) -> None:
            try:
                await live.confirm(message.call, approve=message.approve, shown=message.digest)
            except (GatewayError, NotDelivered) as problem:
                self._say(error(public_error(problem), ref=message.call))

        self._post(self._messages, decide)

    async def _activity(self, live: LiveSession, activity: Activity) -> None:
        await self._caught_up.wait()
        await live.activity(activity)

    async def _end_audio(self, live: LiveSession) -> None:
        await self._caught_up.wait()
        await live.end_audio()

    def _mute(self, muted: bool) -> None:
        if muted == self._muted:
            return
        self._muted = muted
        if muted:
            self._mute_timer = asyncio.get_running_loop().call_later(MUTED_S, self._muted_long)
        else:
            self._unmute()

    def _unmute(self) -> None:
        if self._mute_timer is not None:
            self._mute_timer.cancel()
            self._mute_timer = None

    def _muted_long(self) -> None:
        self._mute_timer = None
        self._post(self._controls, self._end_audio)

    def _playback(self, message: Playback) -> None:
        mark = PlaybackMark(message.event, message.response, message.played, message.heard)
        if self._live is not None:
            self._live.playback(mark)

    def _post(self, lane: Channel[Job], job: Job) -> None:
        try:
            lane.put_nowait(job)
        except ChannelClosed:
            return
        except ChannelFull:
            self._say(error(public_error(RateLimited(f"{LANE} requests already wait; this one was not taken."))))
