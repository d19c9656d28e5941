"""A listener without a loudspeaker: plays answers at their own pace on paper, and says what it has played.

Pure: audio and time (seconds) in, playback marks out. One response plays at a time; the next waits until the one before has been played.
Counts are samples at 24 kHz.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

MarkEvent = Literal["start", "pos", "drained", "flushed", "underrun"]

MARK_EVERY_S = 0.2
"""How often a playing response reports its position."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A `playback` message to be."""

    event: MarkEvent
    response: int
    played: int
    queued: int
    underruns: int


@dataclass(slots=True)
class _Response:
    number: int
    audio: bytearray = field(default_factory=bytearray)
    complete: bool = False
    begun: bool = False
    played: int = 0
    anchor: tuple[float, int] | None = None
    """When playing began or went on, and what had been played by then; None while nothing comes out."""
    marked_at: float = 0.0
    underruns: int = 0

    @property
    def received(self) -> int:
        return len(self.audio) // 2

    def advance(self, now: float, hz: int) -> None:
        if self.anchor is not None:
            since, before = self.anchor
            self.played = min(self.received, before + round((now - since) * hz))

    def runs_dry_at(self, hz: int) -> float | None:
        if self.anchor is None:
            return None
        since, before = self.anchor
        return since + (self.received - before) / hz


class PacedListener:
    """Takes the audio of responses and reports as a listener would who hears them at normal speed."""

    def __init__(self, hz: int = 24_000) -> None:
        self._hz = hz
        self._waiting: list[_Response] = []
        self._over = 0
        """Number of the newest response that was played to its end or flushed; numbers only grow."""
        self._heard = bytearray()
        self._marks: list[Mark] = []

    @property
    def idle(self) -> bool:
        """Whether everything received has been played or flushed."""
        return not self._waiting

    @property
    def playing(self) -> bool:
        """Whether sound comes out right now; not while more of a response is waited for."""
        return bool(self._waiting) and self._waiting[0].anchor is not None

    @property
    def heard(self) -> bytes:
        """What a listener has heard so far: int16 mono; of interrupted responses the part that was played."""
        return bytes(self._heard)

    def audio(self, response: int, pcm: bytes, now: float) -> None:
        """A piece of a response. One of a response that is over is dropped."""
        if response <= self._over:
            return
        self._of(response).audio += pcm
        self._play(now)

    def audio_end(self, response: int, now: float) -> None:
        """No more audio will come for this response. Saying it twice is fine."""
        if response > self._over:
            self._of(response).complete = True
            self._play(now)

    def flush(self, response: int, now: float) -> None:
        """Stop: drop every response up to this one. Doing it twice is fine."""
        self._play(now)
        for entry in [entry for entry in self._waiting if entry.number <= response]:
            self._waiting.remove(entry)
            self._heard += entry.audio[: entry.played * 2]
            self._mark("flushed", entry, now)
        self._over = max(self._over, response)

    def tick(self, now: float) -> None:
        """Let time pass."""
        self._play(now)

    def deadline(self) -> float | None:
        """When `tick` has something to say; None while nothing plays."""
        if not self._waiting or self._waiting[0].anchor is None:
            return None
        dry = self._waiting[0].runs_dry_at(self._hz)
        position = self._waiting[0].marked_at + MARK_EVERY_S
        return position if dry is None else min(dry, position)

    def take(self) -> list[Mark]:
        """The marks since the last call, in order."""
        marks, self._marks = self._marks, []
        return marks

    def _of(self, number: int) -> _Response:
        for entry in self._waiting:
            if entry.number == number:
                return entry
        entry = _Response(number)
        self._waiting.append(entry)
        return entry

    def _play(self, now: float) -> None:
        while self._waiting and self._play_first(self._waiting[0], now):
            self._waiting.pop(0)

    def _play_first(self, entry: _Response, now: float) -> bool:
        """Play on; True when the response has been played to its end."""
        if entry.anchor is None and entry.received > entry.played:
            entry.anchor = (now, entry.played)
            self._mark("pos" if entry.begun else "start", entry, now)
            entry.begun = True
        entry.advance(now, self._hz)
        if entry.played < entry.received:
            if now >= entry.marked_at + MARK_EVERY_S:
                self._mark("pos", entry, now)
            return False
        if entry.complete:
            self._over = max(self._over, entry.number)
            self._heard += entry.audio
            self._mark("drained", entry, now)
            return True
        if entry.anchor is not None:
            entry.anchor = None
            entry.underruns += 1
            self._mark("underrun", entry, now)
        return False

    def _mark(self, event: MarkEvent, entry: _Response, now: float) -> None:
        entry.marked_at = now
        self._marks.append(Mark(event, entry.number, entry.played, entry.received - entry.played, entry.underruns))
