"""Takes out of what users write and say what must be neither stored nor shown, nor typed to a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from live_gateway.agents.context import InvocationContext
from live_gateway.content import Content, Part, Transcription
from live_gateway.errors import ConfigurationError
from live_gateway.events import Event, replace
from live_gateway.plugins.base import Plugin

HOLD = 40
"""Characters: longer than a bank account's or a card's number written in groups."""


@dataclass(slots=True)
class _Growing:
    """A transcription that is not complete: what was said so far, and what of it was shown."""

    said: str = ""
    shown: str = ""


class RedactionPlugin(Plugin):
    """Replaces every match of the patterns in the user's messages, before anybody sees or stores them, on `run` and on `run_live`; and in
    transcriptions of both sides, before they are shown or stored. A live model hears what is spoken; what it repeats is redacted too.

        RedactionPlugin([r"\\b\\d{4}( ?\\d{4}){3}\\b", re.compile("hunter2", re.IGNORECASE)])

    A transcription grows in pieces, and what has to go may be spread over several of them. So the newest `hold` characters are not shown
    until more words follow or the transcription is complete; `hold` should be at least the length of the longest match. What once was
    redacted never reappears: every piece is cut out of the whole. Files, tool results and the answers of text models are left as they are.
    patterns: regular expressions, texts or compiled; each is applied to the text as it was, overlapping matches become one replacement.
    Raises `ConfigurationError` for a pattern that is none or that matches nothing at all.
    """

    def __init__(
        self,
        patterns: Sequence[str | re.Pattern[str]],
        *,
        replacement: str = "[redacted]",
        hold: int = HOLD,
        name: str = "redaction",
    ) -> None:
        super().__init__(name)
        self._patterns = [_compiled(pattern) for pattern in patterns]
        self._replacement = replacement
        self._hold = max(0, hold)
        self._growing: dict[str, dict[str, _Growing]] = {}

    def redact(self, text: str) -> str:
        """The text with every match replaced."""
        return self._without_matches(text, len(text))

    async def on_user_message(self, invocation: InvocationContext, content: Content) -> Content | None:
        parts = [self._clean_part(part) for part in content.parts or ()]
        if all(clean is part for clean, part in zip(parts, content.parts or (), strict=True)):
            return None
        return Content(role=content.role, parts=parts)

    async def on_event(self, invocation: InvocationContext, event: Event) -> Event | None:
        changes: dict[str, Transcription] = {}
        for name in ("input_transcription", "output_transcription"):
            transcription: Transcription | None = getattr(event, name)
            if transcription is not None and transcription.text is not None:
                if event.partial:
                    return self._piece(invocation.invocation_id, event, name, transcription)
                changes[name] = transcription.model_copy(update={"text": self.redact(transcription.text)})
        self._growing.get(invocation.invocation_id, {}).pop(event.id, None)
        return replace(event, **changes) if changes else None

    async def after_run(self, invocation: InvocationContext) -> None:
        self._growing.pop(invocation.invocation_id, None)

    def _clean_part(self, part: Part) -> Part:
        if not part.text or (clean := self.redact(part.text)) == part.text:
            return part
        return part.model_copy(update={"text": clean})

    def _piece(self, invocation_id: str, event: Event, name: str, transcription: Transcription) -> Event:
        """The piece as it may be shown: what is new of the whole, or the whole where more than its end changed."""
        pieces = self._growing.setdefault(invocation_id, {})
        growing = pieces.setdefault(event.id, _Growing())
        live = dict(event.custom_metadata.get("live", {}))
        words = transcription.text or ""
        growing.said = words if live.pop("replaces", False) else growing.said + words
        before, growing.shown = growing.shown, self._without_matches(growing.said, self._shown_until(growing.said))
        goes_on = growing.shown.startswith(before) and bool(growing.said)
        shown = growing.shown.removeprefix(before) if goes_on else growing.shown
        if not growing.said:  # taken back
            del pieces[event.id]
        metadata = {**event.custom_metadata, "live": live if goes_on else {**live, "replaces": True}}
        return replace(event, custom_metadata=metadata, **{name: transcription.model_copy(update={"text": shown})})

    def _shown_until(self, said: str) -> int:
        """Where the newest words begin that are not shown yet: a whole word back from the last `hold` characters."""
        if not self._hold:
            return len(said)
        end = max(0, len(said) - self._hold)
        while end and not said[end - 1].isspace():
            end -= 1
        return end

    def _without_matches(self, text: str, end: int) -> str:
        """The text up to `end`; a match that begins before it is replaced as a whole."""
        kept: list[str] = []
        place = 0
        for start, stop in self._matches(text):
            if start >= end:
                break
            kept += [text[place:start], self._replacement]
            place = stop
        return "".join([*kept, text[place:end]])

    def _matches(self, text: str) -> list[tuple[int, int]]:
        """Where to replace: the matches of all patterns in order, those that overlap joined."""
        spans = sorted(match.span() for pattern in self._patterns for match in pattern.finditer(text) if match.group())
        joined: list[tuple[int, int]] = []
        for start, stop in spans:
            if joined and start < joined[-1][1]:
                joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
            else:
                joined.append((start, stop))
        return joined


def _compiled(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigurationError(f"a pattern to redact is no regular expression: {error}") from None
    if compiled.fullmatch(""):
        raise ConfigurationError("a pattern to redact matches the empty text, and so everything")
    return compiled
