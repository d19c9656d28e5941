"""Transcriptions: pieces in, whole texts out.

A model sends what was said in pieces and often never says that it is done. The builder gives each piece on as a partial event with the
whole text so far beside it, and makes exactly one complete event of each transcription. Pure: ids and the time come from callables.

What closes a transcription, and when the complete event is given (always before the event that carries the mark):

| cause | closes |
|---|---|
| a piece marked finished | its own direction |
| generation complete | the output: the answer is made, while the user's words may still be coming in |
| turn complete, interrupted | both, input first |
| end of the stream, failure, close | both, input first, marked incomplete |
| `MAX_CHARS` of appended text | its own direction; the next piece goes on in a new one |

A complete transcription never changes: later pieces open a new one, with a new id. Blank pieces open nothing and make no event. A piece
that replaces everything by nothing takes the transcription back: a last partial event, empty and marked finished, and no complete one.
A model that sends a transcription once, finished, gets one complete event and no partial one.

A partial event has the words that the piece added. Where a recogniser changed its mind about earlier words it has the whole text instead,
and `custom_metadata["live"]["replaces"]` is true.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from live_gateway.content import Content, Transcription
from live_gateway.events import USER, Event
from live_gateway.events import replace as replace_event
from live_gateway.live.items import Partial, TranscriptUpdate
from live_gateway.models.live import Transcript

Role = Literal["user", "model"]
Built: TypeAlias = tuple[Event, TranscriptUpdate | None]
"""A partial event with the whole text so far, or a complete event alone."""

MAX_CHARS = 20_000
"""About twenty minutes of speech. A transcription longer than this is closed, so that no text grows without a bound."""


@dataclass(frozen=True, slots=True)
class _Change:
    """What a piece did to the text: added these words, or put these in the place of all."""

    text: str
    rewrites: bool


@dataclass(slots=True)
class _Growing:
    """A transcription that is open."""

    item: str
    turn: int
    role: Role
    author: str
    text: str = ""
    revision: int = 0
    start_ms: int | None = None
    end_ms: int | None = None
    language: str | None = None

    def take(self, piece: Transcript) -> _Change:
        before, self.text = self.text, piece.text if piece.replaces else self.text + piece.text
        self.start_ms = piece.start_ms if self.start_ms is None else self.start_ms
        self.end_ms = self.end_ms if piece.end_ms is None else piece.end_ms
        self.language = piece.language or self.language
        if self.text.startswith(before):
            return _Change(self.text[len(before) :], rewrites=False)
        return _Change(self.text, rewrites=True)

    def update(self, delta: str) -> TranscriptUpdate:
        self.revision += 1
        return TranscriptUpdate(
            item=self.item,
            turn=self.turn,
            role=self.role,
            author=self.author,
            text=self.text,
            delta=delta,
            revision=self.revision,
            start_ms=self.start_ms,
            end_ms=self.end_ms,
            language=self.language,
        )


class TranscriptBuilder:
    """One live session's transcriptions: at most one open in each direction.

    agent: author of what the model says; set it anew after a transfer (an open transcription keeps its author).
    new_id: makes the id of a transcription, which is the id of its complete event and of the partial ones before it.
    wall: seconds since the Unix epoch.
    """

    def __init__(self, *, agent: str, invocation_id: str, new_id: Callable[[], str], wall: Callable[[], float]) -> None:
        self.agent = agent
        self._invocation_id = invocation_id
        self._new_id = new_id
        self._wall = wall
        self._growing: dict[Role, _Growing] = {}

    def feed(self, piece: Transcript, turn: int) -> list[Built]:
        """Take a piece. `turn` is the turn in which it was said; that of the first piece counts for the whole transcription."""
        growing = self._growing.get(piece.role)
        if growing is None:
            if not piece.text.strip():
                return []
            growing = self._growing[piece.role] = self._begin(piece.role, turn)
            if piece.finished:
                growing.take(piece)
                return self._close(piece.role)
        change = growing.take(piece)
        if not growing.text.strip():
            del self._growing[piece.role]
            return [self._taken_back(growing)]
        built = [self._partial(growing, change)] if change.text else []
        if piece.finished or (len(growing.text) > MAX_CHARS and not piece.replaces):
            built += self._close(piece.role)
        return built

    def generation_complete(self) -> list[Built]:
        """The model has made its whole answer: closes the output."""
        return self._close("model")

    def turn_complete(self) -> list[Built]:
        """The model's turn is over: closes both directions."""
        return self._close("user", "model")

    def interrupted(self) -> list[Built]:
        """The answer was interrupted: closes both directions."""
        return self._close("user", "model")

    def end(self) -> list[Built]:
        """No more pieces will come (end of the stream, failure, close): closes both directions, marked incomplete."""
        return self._close("user", "model", incomplete=True)

    def _begin(self, role: Role, turn: int) -> _Growing:
        return _Growing(self._new_id(), turn, role, USER if role == "user" else self.agent)

    def _close(self, *roles: Role, incomplete: bool = False) -> list[Built]:
        closed = [growing for role in roles if (growing := self._growing.pop(role, None)) is not None]
        return [(self._complete(growing, incomplete=incomplete), None) for growing in closed]

    def _partial(self, growing: _Growing, change: _Change) -> Built:
        metadata: dict[str, Any] = {"turn": growing.turn}
        if change.rewrites:
            metadata["replaces"] = True
        event = self._event(growing, change.text, metadata, partial=True, finished=False)
        return event, growing.update("" if change.rewrites else change.text)

    def _taken_back(self, growing: _Growing) -> Built:
        growing.text = ""
        metadata = {"turn": growing.turn, "replaces": True}
        return self._event(growing, "", metadata, partial=True, finished=True), growing.update("")

    def _complete(self, growing: _Growing, *, incomplete: bool) -> Event:
        metadata: dict[str, Any] = {"turn": growing.turn}
        if growing.start_ms is not None:
            metadata["startMs"] = growing.start_ms
        if growing.end_ms is not None:
            metadata["endMs"] = growing.end_ms
        if incomplete:
            metadata["incomplete"] = True
        return self._event(growing, growing.text, metadata, partial=False, finished=True)

    def _event(self, growing: _Growing, text: str, live: dict[str, Any], *, partial: bool, finished: bool) -> Event:
        transcription = Transcription(text=text, finished=finished, language_code=growing.language)
        return Event(
            author=growing.author,
            id=growing.item,
            invocation_id=self._invocation_id,
            timestamp=self._wall(),
            partial=partial,
            input_transcription=transcription if growing.role == "user" else None,
            output_transcription=transcription if growing.role == "model" else None,
            custom_metadata={"live": live},
        )


class PassedText:
    """The whole text so far of what the plugins let through. A listener is shown no word that a plugin took out of a piece."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], tuple[str, str]] = {}

    def apply(self, event: Event, update: TranscriptUpdate) -> TranscriptUpdate | None:
        """The update that belongs to this partial event, as it came out of the plugins; None when they left no words in it."""
        words = event.transcription.text if event.transcription is not None else event.text or None
        if words is None:
            return None
        key = (update.role, update.source)
        item, text = self._texts.get(key, ("", ""))
        rewrites = _rewrites(event)
        whole = words if rewrites or item != update.item else text + words
        self._texts[key] = (update.item, whole)
        return replace(update, text=whole, delta="" if rewrites else words)


def merge_partials(old: Partial, new: Partial) -> Partial:
    """Two pieces of one item as one piece, for a listener who has taken neither: the newer text, and all that was added since the older."""
    if old.transcript is None or new.transcript is None:
        raise ValueError("only partial events with a transcript can be merged")
    rewrites = _rewrites(new.event)
    delta = "" if rewrites else old.transcript.delta + new.transcript.delta
    event = new.event if rewrites else _joined(old.event, new.event)
    return Partial(event, replace(new.transcript, delta=delta))


def _joined(old: Event, new: Event) -> Event:
    changes: dict[str, Any] = {"custom_metadata": old.custom_metadata | new.custom_metadata}
    if _rewrites(old):
        changes["custom_metadata"]["live"] = {**new.custom_metadata.get("live", {}), "replaces": True}
    for name in ("input_transcription", "output_transcription"):
        before, after = getattr(old, name), getattr(new, name)
        if before is not None and after is not None:
            changes[name] = after.model_copy(update={"text": (before.text or "") + (after.text or "")})
    if old.content is not None and new.content is not None:
        changes["content"] = Content(role=new.content.role, parts=[*(old.content.parts or ()), *(new.content.parts or ())])
    return replace_event(new, **changes)


def _rewrites(event: Event) -> bool:
    """Whether the words of a partial event stand for everything before them."""
    live = event.custom_metadata.get("live")
    return isinstance(live, dict) and bool(live.get("replaces"))
