"""One conversation with Gemini Live. It heals itself: what is above it sees one connection, and a notice when it was taken up anew.

There is no task of its own. `receive` is the engine: it reads, and where the connection is lost or to be rotated it is `receive` that
waits, dials, tells the history and sends what had to wait. Meanwhile every send returns at once and is kept. When to do what is decided in
`gemini_reconnect`, what is sent again in `gemini_outbox`, what a frame says in `gemini_inbound`; here bytes are moved.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Final

from live_gateway.cancellation import Interruptible
from live_gateway.content import Content, FunctionResponse
from live_gateway.errors import ModelError, UpstreamLost
from live_gateway.models.gemini_address import GeminiAccess
from live_gateway.models.gemini_dialer import Dialer
from live_gateway.models.gemini_options import GeminiOptions
from live_gateway.models.gemini_outbox import Outbox
from live_gateway.models.gemini_profile import profile_of
from live_gateway.models.gemini_receiver import Receiver
from live_gateway.models.gemini_reconnect import JITTER, Decision, Dial, Finish, Loss, ReconnectPolicy
from live_gateway.models.gemini_sender import Sender
from live_gateway.models.gemini_socket import Link, LinkLost
from live_gateway.models.gemini_traffic import Traffic
from live_gateway.models.live import Activity, ConnectionNotice, LiveMessage, LiveSetup, TurnComplete
from live_gateway.telemetry import get_logger

log = get_logger(__name__)

LOST: Final = "UPSTREAM_LOST"
"""Reason of a turn that ended because its connection did."""


class GeminiConnection:
    """One conversation with the model, over as many sockets as it takes. Implements `LiveConnection`, `TakesAudioAtOnce`."""

    def __init__(self, name: str, access: GeminiAccess, options: GeminiOptions, setup: LiveSetup, handle: str | None) -> None:
        profile = options.profile or profile_of(name)
        self._dialer = Dialer(name, access, options, setup, profile)
        self._now = options.clock.now
        self._traffic = Traffic()
        self._policy = ReconnectPolicy(
            self._traffic,
            resumption=setup.session_resumption.enabled,
            handle=handle,
            rotate_after_s=options.rotate_after_s,
            stalled_after_s=options.stalled_after_s,
            jitter=_spread if options.jitter else lambda: 1.0,
        )
        self._outbox = Outbox(manual=not setup.voice_activity.automatic)
        self._sender = Sender(profile, self._traffic, self._outbox, self._now, self._owed)
        self._receiver = Receiver(profile, self._traffic, self._policy, self._outbox, proactive=setup.proactivity)
        self._ready = self._receiver.ready
        self._notify = setup.notify
        self._old: Link | None = None
        self._next: Dial | None = None
        self._finished: Finish | None = None
        self._waiting = Interruptible()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def dials(self) -> int:
        """How many sockets were dialled."""
        return self._dialer.dials

    @property
    def handle(self) -> str | None:
        """With what this conversation could be resumed."""
        return self._policy.handle

    @property
    def _up(self) -> bool:
        return self._sender.link is not None

    async def open(self) -> None:
        """Connect for the first time. Raises what the policy ends with."""
        self._next = self._policy.begin()
        while not self._up:
            if self._finished is not None:
                raise self._finished.error or UpstreamLost("the model ended the session before it began")
            await self._recover(quiet=True)
            if self._notify is not None and not self._up:
                self._notify(ConnectionNotice("upstream_reconnecting"))

    async def close(self) -> None:
        """Close the socket, if one is open. What is sent or received from now on finds the connection over."""
        self._finish(Finish(None))
        self._arm(None)
        links = [link for link in (self._sender.link, self._old) if link is not None]
        self._sender.link = self._old = None
        for link in links:
            await link.close()

    async def receive(self) -> LiveMessage | None:
        """The next message; None when the model ended the session. Raises `ModelError` when it cannot be reached any more."""
        while not self._ready:
            if self._finished is not None:
                if self._finished.error is not None:
                    raise self._finished.error
                return None
            if self._sender.link is None:
                await self._recover()
            else:
                await self._read(self._sender.link)
        return self._ready.popleft()

    async def send_audio(self, pcm: bytes) -> None:
        """See `Sender.audio`."""
        await self._sender.audio(pcm)

    def take_audio(self, pcm: bytes) -> bool:
        """See `Sender.take_audio`."""
        return self._sender.take_audio(pcm)

    async def send_image(self, data: bytes, mime_type: str) -> None:
        """See `Sender.image`."""
        await self._sender.image(data, mime_type)

    async def send_content(self, content: Content) -> None:
        """See `Sender.content`."""
        await self._sender.content(content)

    async def send_activity(self, activity: Activity) -> None:
        """See `Sender.activity`."""
        await self._sender.activity(activity)

    async def end_audio(self) -> None:
        """See `Sender.end_audio`."""
        await self._sender.end_audio()

    async def send_tool_responses(self, responses: Sequence[FunctionResponse]) -> None:
        """See `Sender.responses`."""
        await self._sender.responses(responses)

    async def send_tool_update(self, response: FunctionResponse) -> None:
        """See `Sender.update`."""
        await self._sender.update(response)

    async def interrupt(self) -> None:
        """Gemini stops for what the user says or sends, not on request; the audio is dropped on our side."""

    def set_playing(self, playing: bool) -> None:
        """Gemini has its own echo control."""

    # In.

    async def _read(self, link: Link) -> None:
        """Take the next frame, or do what is due instead."""
        if self._receiver.look and await self._do_what_is_due(link):
            return
        frame = None
        try:
            with self._waiting:
                frame = await link.receive()
        except LinkLost as lost:
            self._lose(self._receiver.explained(lost.loss))
        if frame is not None:
            self._receiver.take(frame, self._now())
            if self._receiver.hopeless:
                link.abort()

    # Loss, rotation, recovery.

    def _lose(self, loss: Loss) -> None:
        """The link is gone: what was under way ends, what may be lost waits, and the policy says how to go on."""
        self._old, self._sender.link = self._sender.link, None
        self._arm(None)
        log.info("model_connection_lost", kind=loss.kind, code=loss.code)
        decision = self._policy.lost(loss, self._now())
        self._down(decision, stalled=loss.kind == "stalled")
        if isinstance(decision, Dial):
            self._ready.append(ConnectionNotice("upstream_reconnecting"))

    def _down(self, decision: Decision, *, stalled: bool = False) -> None:
        self._outbox.lost(stalled=stalled)
        self._receiver.inbound.reset()
        if self._traffic.lost() and isinstance(decision, Dial):
            self._ready.append(TurnComplete(LOST))
        self._decide(decision)

    def _decide(self, decision: Decision) -> None:
        if isinstance(decision, Finish):
            self._finish(decision)
        else:
            self._next = decision

    def _finish(self, finish: Finish) -> None:
        self._finished = self._finished or finish
        self._sender.over = self._finished.error or UpstreamLost("the connection to the model is closed")

    async def _do_what_is_due(self, link: Link) -> bool:
        self._receiver.look = False
        due = self._policy.due(self._now())
        if due is None:
            self._arm(self._policy.deadline(self._now()))
            return False
        if due == "stalled":
            link.abort()
            self._ready.append(ConnectionNotice("model_stalled", {"reason": "silence"}))
            self._lose(Loss("stalled"))
            return True
        self._sender.link, self._old = None, link
        self._arm(None)
        log.info("model_connection_rotated")
        await link.close()
        await self._read_rest(link)
        self._down(self._policy.rotate(self._now()))
        return True

    async def _read_rest(self, link: Link) -> None:
        """What the model had sent before the link was closed."""
        while True:
            try:
                self._receiver.take(await link.receive(), self._now())
            except LinkLost:
                return

    async def _recover(self, *, quiet: bool = False) -> None:
        """One dial: wait, close what is left of the old link, connect, tell the history, send what waits."""
        dial = self._next
        assert dial is not None
        if self._old is not None:
            old, self._old = self._old, None
            await old.close()
        if dial.after_s:
            await asyncio.sleep(dial.after_s)
        try:
            await self._dial(dial)
        except LinkLost as lost:
            log.info("model_dial_failed", kind=lost.loss.kind, code=lost.loss.code)
            self._outbox.lost(stalled=False)
            self._receiver.inbound.reset()
            self._decide(self._policy.lost(lost.loss, self._now()))
            return
        except ModelError as error:
            self._finish(Finish(error))
            raise
        if dropped_ms := self._outbox.take_dropped_ms():
            self._ready.append(ConnectionNotice("audio_gap", {"direction": "up", "dropped_ms": dropped_ms}))
        if not quiet:
            self._ready.append(ConnectionNotice("upstream_resumed", {"state_restored": dial.handle is not None}))

    async def _dial(self, dial: Dial) -> None:
        history = await self._dialer.history(dial, self._outbox) if dial.handle is None else []
        link = await self._dialer.dial(dial, self._receiver.inbound, seeded=bool(history))
        try:
            await self._begin(link, dial, history)
        except BaseException:
            link.abort()
            raise

    async def _begin(self, link: Link, dial: Dial, history: list[bytes]) -> None:
        if dial.handle is None:
            self._traffic.forget_calls()
        now = self._now()
        self._traffic.alive(now)
        await self._sender.begin(link, history)
        self._policy.up(now)
        for early in link.early:
            self._receiver.message(early, now)
        self._arm(self._policy.deadline(now))

    # Time.

    def _owed(self) -> None:
        self._arm(self._policy.deadline(self._now()))

    def _arm(self, deadline: float | None) -> None:
        """Wake the reader at this time; an earlier alarm stands, and asks anew."""
        if self._timer is not None:
            if deadline is not None and self._timer.when() <= deadline and not self._timer.cancelled():
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(deadline, self._alarm) if deadline is not None else None

    def _alarm(self) -> None:
        self._timer = None
        self._receiver.look = True
        self._waiting.interrupt()


def _spread() -> float:
    return random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreads load, keeps no secret
