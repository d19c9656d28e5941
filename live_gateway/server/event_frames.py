"""What goes to a client of `WS /run_live`: one Event a frame, as google-adk writes them (camelCase, without nulls). Pure.

Everything that is stored comes in the session's order, with its `seq`. Audio is an event with inline data, never stored. What has no event
of its own comes as one all the same, so that a client needs to read nothing else: an error has `errorCode` and `errorMessage`, and in
`customMetadata.error` whether it ended the connection and whether the same may succeed later; a notice is in `customMetadata.notice`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Final

from live_gateway.errors import PublicError
from live_gateway.events import Event
from live_gateway.live.items import AudioChunk, Failure, LiveItem, Notice, Partial, Relay, Stored
from live_gateway.models.live import OUTPUT_HZ
from live_gateway.server.outgoing import encode
from live_gateway.server.rest.views import event_view

_STANDARD: Final = str.maketrans("-_", "+/")


class EventFrames:
    """Makes the frames of one connection. standard_base64: bytes in the plain alphabet instead of the url-safe one."""

    def __init__(self, agent: str, invocation_id: str, *, standard_base64: bool = False) -> None:
        self._agent = agent
        self._invocation_id = invocation_id
        self._standard = standard_base64
        self._base64: Callable[[bytes], bytes] = base64.standard_b64encode if standard_base64 else base64.urlsafe_b64encode

    def frames(self, item: LiveItem, now_ms: float) -> list[str | bytes]:
        """The item as the client sees it. now_ms: epoch milliseconds."""
        match item:
            case AudioChunk(_, _, pcm, author):
                return [self._audio(pcm, author, now_ms)]
            case Stored(event) | Partial(event):
                return [encode(self._view(event))]
            case Relay(frame):
                return [frame]
            case Failure(problem, _, fatal, _):
                return [error_frame(problem, self._agent, fatal=fatal)]
            case Notice(level, code, params):
                return [notice_frame(level, code, params, self._agent)]
            case _:
                return []  # what the stored events say too

    def _audio(self, pcm: bytes, author: str, now_ms: float) -> str:
        event = Event(author=author or self._agent, invocation_id=self._invocation_id, timestamp=now_ms / 1000)
        data = {"inlineData": {"data": self._base64(pcm).decode(), "mimeType": f"audio/pcm;rate={OUTPUT_HZ}"}}
        return encode({"content": {"parts": [data], "role": "model"}} | event_view(event))

    def _view(self, event: Event) -> dict[str, Any]:
        view = event_view(event)
        if self._standard:
            for part in (view.get("content") or {}).get("parts") or ():
                _to_standard(part, "thoughtSignature")
                _to_standard(part.get("inlineData") or {}, "data")
        return view


def error_frame(problem: PublicError, agent: str, *, fatal: bool = False) -> str:
    """Something failed."""
    about = {"error": {"fatal": fatal, "retryable": problem.retryable}}
    return encode(event_view(Event(author=agent, error_code=problem.code, error_message=problem.message, custom_metadata=about)))


def notice_frame(level: str, code: str, params: dict[str, Any], agent: str) -> str:
    """Something that a person may want to know."""
    about = {"notice": {"level": level, "code": code, "params": params}}
    return encode(event_view(Event(author=agent, custom_metadata=about)))


def _to_standard(holder: dict[str, Any], name: str) -> None:
    if isinstance(value := holder.get(name), str):
        holder[name] = value.translate(_STANDARD)
