"""The way in from Gemini Live: frames become messages for the session; what concerns the connection goes to policy, traffic and outbox."""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import Final

from live_gateway.models.gemini_inbound import BadFrame, GeminiInbound, GoAway, Inbound, Refusal, Resumption, SetupComplete
from live_gateway.models.gemini_outbox import Outbox
from live_gateway.models.gemini_profile import GeminiProfile
from live_gateway.models.gemini_reconnect import Loss, ReconnectPolicy
from live_gateway.models.gemini_traffic import Traffic
from live_gateway.models.live import AudioOut, ConnectionNotice, LiveMessage, TurnComplete
from live_gateway.telemetry import get_logger

log = get_logger(__name__)

MAX_BAD_FRAMES: Final = 10
"""So many frames in a row that are no JSON, and the connection is held to be broken."""


class Receiver:
    """Takes the frames of one session.

    ready: the messages that wait to be given on. look: something came that may make something due. hopeless: nothing sensible will come of
    this connection. proactive: the model may leave something unanswered, so that is no fault.
    """

    def __init__(self, profile: GeminiProfile, traffic: Traffic, policy: ReconnectPolicy, outbox: Outbox, *, proactive: bool) -> None:
        self.inbound = GeminiInbound(profile)
        self.ready: deque[LiveMessage] = deque()
        self.look = False
        self.hopeless = False
        self._traffic = traffic
        self._policy = policy
        self._outbox = outbox
        self._proactive = proactive
        self._bad_frames = 0
        self._refusal: Refusal | None = None

    def take(self, frame: bytes, now: float) -> None:
        """A frame came in."""
        try:
            messages = self.inbound.decode(frame)
        except BadFrame:
            self._bad_frames += 1
            self.hopeless = self._bad_frames >= MAX_BAD_FRAMES
            log.warning("bad_frame_from_model", in_a_row=self._bad_frames)
            return
        self._bad_frames = 0
        self._traffic.alive(now)
        for message in messages:
            if type(message) is AudioOut and self._traffic.gave:
                self.ready.append(message)
            else:
                self.message(message, now)

    def message(self, message: Inbound, now: float) -> None:
        """The model said this."""
        match message:
            case Resumption(handle, consumed):
                self._resumption(handle, consumed)
            case GoAway(time_left_s):
                self._policy.go_away(time_left_s, now)
                self.look = True
            case Refusal():
                self._refusal = message
                self.hopeless = self.hopeless or message.quota
            case SetupComplete():
                pass
            case _:
                self._said(message, now)

    def explained(self, loss: Loss) -> Loss:
        """The loss, with what the model had said before it."""
        refusal, self._refusal = self._refusal, None
        self.hopeless = False
        self._bad_frames = 0
        if refusal is None:
            return loss
        return dataclasses.replace(loss, reason=loss.reason or refusal.status, quota=loss.quota or refusal.quota)

    def _said(self, message: LiveMessage, now: float) -> None:
        self.ready.append(message)
        if self._traffic.message(message, now) and not self._proactive:
            log.warning("empty_turn")
            self.ready.append(ConnectionNotice("model_stalled", {"reason": "empty_turn"}))
        if self._traffic.gave:
            self._outbox.answer_began()
        if isinstance(message, TurnComplete):
            self.look = True

    def _resumption(self, handle: str | None, consumed: int | None) -> None:
        self._policy.update(handle)
        if handle is not None:
            self._traffic.handle_given()
            self._outbox.handle_given(consumed)
        self.look = True
