"""What a listener of a live session has not taken yet.

Pure: time is passed in (monotonic seconds), nothing waits and nothing raises on the way in, so that ordering and storing go on whether or
not anybody listens. Items come out in the order in which they went in. Four lanes, each with a bound and a policy of its own:

* Audio. While more than 20 s wait, what has waited for more than 10 s is dropped, oldest first; beyond 120 s the oldest is dropped at
  once. So an answer made in one burst arrives whole. Dropped samples are counted, and one notice `audio_gap` stands in their place,
  however many there were. An interruption takes away the waiting audio of the responses it stops; that does not count as dropped.
* Partial transcripts. Beyond 64 waiting ones, a new piece is merged into the one of its transcription that waits already, and the complete
  transcription takes its pieces away. The text never goes backwards.
* Stored events. Beyond 1,024 only the range of their sequence numbers is kept: `ReadBack` asks the listener to read them from the store.
* Everything else. Beyond 4,096 (partial transcripts included) the listener is too slow: what is not stored is thrown away, and `take`
  raises `SlowConsumer` once, where it stood. Stored events are kept.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TypeAlias

from live_gateway.errors import SlowConsumer
from live_gateway.live.items import AudioChunk, LiveItem, Notice, Partial, ResponseInterrupted, Stored
from live_gateway.live.transcript import merge_partials
from live_gateway.models.live import OUTPUT_HZ

AUDIO_SAMPLES = 20 * OUTPUT_HZ
"""So much audio may wait for any time."""
AUDIO_PATIENCE_S = 10.0
"""Audio above `AUDIO_SAMPLES` is dropped when it has waited for longer than this."""
AUDIO_LIMIT_SAMPLES = 120 * OUTPUT_HZ
"""More audio never waits: 5.8 MB."""
MAX_PARTIALS = 64
MAX_STORED = 1024
MAX_CONTROL = 4096


@dataclass(frozen=True, slots=True)
class ReadBack:
    """Stored events that were not kept for the listener: read the session's events with these sequence numbers, both included."""

    first_seq: int
    last_seq: int


MailboxItem: TypeAlias = LiveItem | ReadBack


class _Overrun:
    """Where what is not stored was thrown away."""


_Entry: TypeAlias = MailboxItem | _Overrun


@dataclass(slots=True)
class _Gap:
    """Dropped audio that the listener has not been told of. `place`: where the first of it stood. `response`: the newest it belonged to."""

    place: int
    samples: int = 0
    response: int = 0


class Mailbox:
    """FIFO of what waits for one listener. For audio every method costs O(1), amortised.

    Every item has a place, a number that grows. Audio and the rest wait in lanes of their own; the lower place comes out first.
    """

    def __init__(self) -> None:
        self._place = 0
        self._closed = False
        self._audio: deque[tuple[int, float, AudioChunk]] = deque()
        self._waiting_samples = 0
        self._dropped_samples = 0
        self._gap: _Gap | None = None
        self._flushed = 0
        self._rest: OrderedDict[int, _Entry] = OrderedDict()
        self._pieces: dict[str, deque[int]] = {}
        self._partials = 0
        self._volatile = 0
        self._stored = 0
        self._read_back: int | None = None  # place of the last ReadBack, while no stored event was kept after it
        self._overrun = False

    def __len__(self) -> int:
        return len(self._audio) + len(self._rest) + (self._gap is not None)

    @property
    def closed(self) -> bool:
        """Whether `close` was called; items may still be waiting."""
        return self._closed

    @property
    def waiting_samples(self) -> int:
        """How much audio waits, in samples at 24 kHz."""
        return self._waiting_samples

    @property
    def dropped_samples(self) -> int:
        """How much audio was dropped in all, in samples at 24 kHz."""
        return self._dropped_samples

    def put(self, item: LiveItem, now: float) -> None:
        """Add an item. Never waits, never raises; ignored once closed. An interruption flushes the audio that it stops."""
        if self._closed:
            return
        self._place += 1
        if isinstance(item, AudioChunk):
            self._put_audio(item, now)
        elif isinstance(item, Stored):
            self._put_stored(item)
        else:
            if isinstance(item, ResponseInterrupted):
                self.flush(item.response)
            if not self._overrun:
                self._put_other(item)

    def take(self, now: float) -> MailboxItem | None:
        """The next item; None when nothing waits. Raises `SlowConsumer` once after what is not stored was thrown away."""
        if self._waiting_samples > AUDIO_SAMPLES:
            self._shed(now)
        if self._rest and self._next_audio_place() > next(iter(self._rest)):
            return self._take_rest()
        if self._gap is not None:
            gap, self._gap = self._gap, None
            return Notice("warning", "audio_gap", {"dropped_ms": round(gap.samples * 1000 / OUTPUT_HZ), "direction": "down"})
        return self._pop_audio() if self._audio else None

    def flush(self, response: int) -> None:
        """Take away the waiting audio of this response and of all before it, and whatever of it still comes."""
        self._flushed = max(self._flushed, response)
        while self._audio and self._audio[0][2].response <= self._flushed:
            self._pop_audio()
        if self._gap is not None and self._gap.response <= self._flushed:
            self._gap = None

    def close(self) -> None:
        """Take no more items; what waits can still be taken."""
        self._closed = True

    def _put_audio(self, chunk: AudioChunk, now: float) -> None:
        if chunk.response <= self._flushed:
            return
        self._audio.append((self._place, now, chunk))
        self._waiting_samples += len(chunk.pcm) // 2
        if self._waiting_samples > AUDIO_SAMPLES:
            self._shed(now)

    def _pop_audio(self) -> AudioChunk:
        chunk = self._audio.popleft()[2]
        self._waiting_samples -= len(chunk.pcm) // 2
        return chunk

    def _next_audio_place(self) -> float:
        if self._gap is not None:
            return self._gap.place
        return self._audio[0][0] if self._audio else float("inf")

    def _shed(self, now: float) -> None:
        while self._waiting_samples > AUDIO_SAMPLES:
            place, since, _ = self._audio[0]
            if now - since <= AUDIO_PATIENCE_S and self._waiting_samples <= AUDIO_LIMIT_SAMPLES:
                return
            chunk = self._pop_audio()
            samples = len(chunk.pcm) // 2
            self._dropped_samples += samples
            if self._gap is None:
                self._gap = _Gap(place)
            self._gap.samples += samples
            self._gap.response = chunk.response

    def _put_stored(self, item: Stored) -> None:
        full = self._stored >= MAX_STORED
        if full or self._partials >= MAX_PARTIALS:
            self._forget_pieces(item.event.id)
        seq = item.event.seq
        if not full:
            self._rest[self._place] = item
            self._stored += 1
            self._read_back = None
        elif self._read_back is None:
            self._read_back = self._place
            self._rest[self._place] = ReadBack(seq, seq)
        else:
            waiting = self._rest[self._read_back]
            assert isinstance(waiting, ReadBack)
            self._rest[self._read_back] = ReadBack(waiting.first_seq, seq)

    def _put_other(self, item: LiveItem) -> None:
        if isinstance(item, Partial) and item.transcript is not None:
            self._put_piece(item, item.transcript.item)
        else:
            self._put_volatile(item)

    def _put_piece(self, item: Partial, transcription: str) -> None:
        places = self._pieces.get(transcription)
        if places and self._partials >= MAX_PARTIALS:
            waiting = self._rest[places[-1]]
            assert isinstance(waiting, Partial)
            self._rest[places[-1]] = merge_partials(waiting, item)
        elif self._put_volatile(item):
            self._pieces.setdefault(transcription, deque()).append(self._place)
            self._partials += 1

    def _put_volatile(self, item: LiveItem) -> bool:
        if self._volatile >= MAX_CONTROL:
            self._throw_away()
            return False
        self._rest[self._place] = item
        self._volatile += 1
        return True

    def _throw_away(self) -> None:
        self._rest = OrderedDict((place, item) for place, item in self._rest.items() if isinstance(item, Stored | ReadBack))
        self._rest[self._place] = _Overrun()
        self._pieces.clear()
        self._partials = self._volatile = 0
        self._overrun = True

    def _take_rest(self) -> MailboxItem:
        _, item = self._rest.popitem(last=False)
        if isinstance(item, _Overrun):
            self._overrun = False
            raise SlowConsumer(f"more than {MAX_CONTROL} items waited for the listener")
        if isinstance(item, Stored):
            self._stored -= 1
        elif not isinstance(item, ReadBack):
            self._volatile -= 1
            if isinstance(item, Partial) and item.transcript is not None:
                self._took_piece(item.transcript.item)
        return item

    def _took_piece(self, transcription: str) -> None:
        places = self._pieces[transcription]
        places.popleft()
        self._partials -= 1
        if not places:
            del self._pieces[transcription]

    def _forget_pieces(self, transcription: str) -> None:
        for place in self._pieces.pop(transcription, ()):
            del self._rest[place]
            self._partials -= 1
            self._volatile -= 1
