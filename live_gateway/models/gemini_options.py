"""What a program may set about Gemini Live beside the model and the key."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field

from live_gateway.clock import Clock, LoopClock
from live_gateway.models.gemini_profile import GeminiProfile
from live_gateway.models.gemini_reconnect import ROTATE_AFTER_S, STALLED_AFTER_S
from live_gateway.models.gemini_socket import SETUP_S


@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiOptions:
    """What most programs leave as it is.

    profile: the model's ways, where the table does not know the model. api_version, headers: for the request. tls: for a server with a
    certificate of its own. rotate_after_s, stalled_after_s, setup_s: see `gemini_reconnect`; seconds. jitter: whether waits are spread.
    """

    profile: GeminiProfile | None = None
    api_version: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None
    rotate_after_s: float = ROTATE_AFTER_S
    stalled_after_s: float = STALLED_AFTER_S
    setup_s: float = SETUP_S
    jitter: bool = True
    clock: Clock = field(default_factory=LoopClock)
