"""From a stream of audio and speech probabilities to segments of speech and the moments at which to recognise them. Pure.

Time is the number of samples fed so far; nothing here looks at a clock. Rules, each tested:

* Speech begins for certain once `min_voiced_ms` of it were heard; less is noise and leaves no trace. A segment begins `prefix_padding_ms`
  before its first voiced frame, but never before the end of the one before.
* It ends after `silence_duration_ms` without a voiced frame. Recognition of what will then most likely be the whole segment is asked for
  after `speculative_ms` of silence, so that its result is there when the silence has lasted long enough.
* While speech goes on, a partial recognition is asked for every 300 ms, or after four times as long as the last one took: never more than
  a quarter of a core.
* A segment of `max_segment_ms` is cut at the quietest frame of its last third; what follows the cut is the next segment of the turn.
* Push to talk: the listener says when speech begins and ends. The padding before it is kept all the same.
* Segments never overlap, each is exactly the samples `[start, end)` of the stream, and no more than the longest segment and the padding
  are ever kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from live_gateway.voice.base import FRAME_SAMPLES, INPUT_HZ
from live_gateway.voice.level import loudness

MS = INPUT_HZ // 1000
_SOME_FRAMES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmenterConfig:
    """How speech is cut into segments. Milliseconds, but for the two probabilities' threshold.

    automatic: False is push to talk. threshold: a frame of at least this probability is voiced. What a session may choose comes from its
    `VoiceActivityConfig` (live_gateway.models.live), whose defaults win over those here.
    """

    automatic: bool = True
    silence_duration_ms: int = 500
    prefix_padding_ms: int = 300
    threshold: float = 0.5
    min_voiced_ms: int = 200
    speculative_ms: int = 190
    first_partial_ms: int = 400
    partial_interval_ms: int = 300
    max_segment_ms: int = 15_000


@dataclass(frozen=True, slots=True)
class Segment:
    """The samples `[start, end)` of the stream; `voiced_ms` of them are speech."""

    start: int
    end: int
    pcm: bytes
    voiced_ms: int


@dataclass(frozen=True, slots=True)
class SpeechBegan:
    """Speech is certain now; it began at sample `start`."""

    start: int


@dataclass(frozen=True, slots=True)
class PartialDue:
    """Recognise what was said so far."""

    segment: Segment


@dataclass(frozen=True, slots=True)
class SpeculationDue:
    """Recognise this: if the silence lasts, it is the segment that `SpeechFinished` will hold."""

    segment: Segment


@dataclass(frozen=True, slots=True)
class SegmentCut:
    """The speech is longer than a segment may be: this piece is complete, the speech goes on."""

    segment: Segment


@dataclass(frozen=True, slots=True)
class SpeechFinished:
    """The user is done. `silence_ms` is how long ago the last voiced sample was."""

    segment: Segment
    silence_ms: int


SegmentEffect: TypeAlias = SpeechBegan | PartialDue | SpeculationDue | SegmentCut | SpeechFinished


@dataclass(frozen=True, slots=True)
class _Frame:
    samples: int
    voiced: bool
    energy: float


class Segmenter:
    """The state of one stream. `feed` takes its audio; the other methods are what else can happen to it."""

    def __init__(self, config: SegmenterConfig) -> None:
        self._config = config
        self._position = 0
        self._pcm = bytearray()  # the samples [_base, _position)
        self._base = 0
        self._frames: list[_Frame] = []  # of the open segment, from _first on
        self._first = 0
        self._open = False
        self._certain = False
        self._pressed = False
        self._last_voiced = 0
        self._next_partial = 0
        self._decode_samples = 0
        self._speculated: int | None = None

    @property
    def position(self) -> int:
        """Samples fed (or skipped) so far."""
        return self._position

    @property
    def speaking(self) -> bool:
        """Whether speech is certain and not finished."""
        return self._certain

    @property
    def idle(self) -> bool:
        """Whether nothing is open, not even what may turn out to be noise."""
        return not self._open

    @property
    def kept_samples(self) -> int:
        """How much audio is held in memory."""
        return len(self._pcm) // 2

    def feed(self, pcm: bytes, probability: float) -> list[SegmentEffect]:
        """The next frame and how likely it is speech. Usually `FRAME_SAMPLES` samples; the last one before a mark may be shorter."""
        samples = len(pcm) // 2
        voiced = probability >= self._config.threshold
        begins = voiced and self._config.automatic and not self._open
        if begins:
            self._begin(self._config.prefix_padding_ms * MS)
        self._pcm += pcm
        self._position += samples
        if not self._open:
            self._trim()
            return []
        self._frames.append(_Frame(samples, voiced, loudness(pcm)))
        if voiced:
            self._last_voiced = self._position
            self._speculated = None
        return self._progress()

    def press(self) -> list[SegmentEffect]:
        """Push to talk: the user begins to speak. Pressing twice is pressing once."""
        if self._config.automatic or self._pressed:
            return []
        self._begin(self._config.prefix_padding_ms * MS)
        self._last_voiced = self._position
        self._pressed = self._certain = True
        return [SpeechBegan(self._first)]

    def release(self) -> list[SegmentEffect]:
        """Push to talk: the user is done."""
        return self._finish() if self._pressed else []

    def flush(self) -> list[SegmentEffect]:
        """No more audio for now: speech that is certain is finished, anything less is forgotten."""
        if self._certain:
            return self._finish()
        self._close(self._position)
        return []

    def skip(self, samples: int) -> list[SegmentEffect]:
        """Audio is missing here. To what is open it is silence; the stream's time has passed in any case."""
        effects: list[SegmentEffect] = []
        while samples and self._open:
            length = min(samples, FRAME_SAMPLES)
            effects += self.feed(bytes(2 * length), 0.0)
            samples -= length
        if samples:
            self._pcm.clear()
            self._position += samples
            self._base = self._position
        return effects

    def forget(self) -> None:
        """What is open was not meant for us: drop it and wait for new speech."""
        self._close(self._position)

    def shorten(self, keep_ms: int) -> None:
        """Only the last `keep_ms` of what is open may have been meant for us: the segment begins there."""
        while self._frames and self._position - self._first - self._frames[0].samples >= keep_ms * MS:
            self._first += self._frames.pop(0).samples
        self._drop(self._first)

    def only_louder(self, level: float) -> bool:
        """Only frames of at least this loudness were meant for us: the segment begins with them. False when there are none."""
        self._frames = [_Frame(f.samples, f.voiced and f.energy >= level, f.energy) for f in self._frames]
        loud = [index for index, frame in enumerate(self._frames) if frame.voiced]
        if len(loud) < _SOME_FRAMES:
            self.forget()
            return False
        before = max(0, loud[0] - _SOME_FRAMES)
        self._first += sum(frame.samples for frame in self._frames[:before])
        self._frames = self._frames[before:]
        self._drop(self._first)
        return True

    def decoded(self, seconds: float) -> None:
        """A recognition took this long: partial ones keep their distance."""
        self._decode_samples = round(seconds * INPUT_HZ)

    def current(self) -> Segment | None:
        """What was said so far, while speech is certain."""
        return self._segment(self._position) if self._certain else None

    def _begin(self, padding: int) -> None:
        self._open = True
        self._first = max(self._base, self._position - padding)
        self._drop(self._first)
        self._frames = [_Frame(self._position - self._first, voiced=False, energy=0.0)] if self._position > self._first else []
        self._next_partial = self._position + self._config.first_partial_ms * MS

    def _progress(self) -> list[SegmentEffect]:
        effects: list[SegmentEffect] = []
        if not self._certain and self._voiced_samples() >= self._config.min_voiced_ms * MS:
            self._certain = True
            effects.append(SpeechBegan(self._first))
        silence = self._position - self._last_voiced
        if silence >= self._config.silence_duration_ms * MS and not self._pressed:
            return effects + (self._finish() if self._certain else self._dismiss())
        if self._certain:
            effects += self._schedule(silence)
        if self._position - self._first >= self._config.max_segment_ms * MS:
            effects += self._cut()
        return effects

    def _schedule(self, silence: int) -> list[SegmentEffect]:
        config = self._config
        if silence >= min(config.speculative_ms, config.silence_duration_ms) * MS:
            if self._speculated is None and self._voiced_samples():
                self._speculated = self._position
                return [SpeculationDue(self._segment(self._position))]
            return []
        if silence == 0 and self._position >= self._next_partial:
            self._next_partial = self._position + max(config.partial_interval_ms * MS, 4 * self._decode_samples)
            return [PartialDue(self._segment(self._position))]
        return []

    def _cut(self) -> list[SegmentEffect]:
        if not self._certain:
            self._dismiss()
            return []
        at, kept = self._quietest()
        piece = Segment(self._first, at, self._audio(self._first, at), _voiced_ms(self._frames[:kept]))
        self._frames = self._frames[kept:]
        self._first = at
        self._drop(at)
        self._speculated = None
        return [SegmentCut(piece)]

    def _quietest(self) -> tuple[int, int]:
        """Where to cut, and how many frames stand before it: the end of the quietest frame of the last third, voiceless ones first."""
        ends, position = [], self._first
        for frame in self._frames:
            position += frame.samples
            ends.append(position)
        earliest = self._first + 2 * (self._position - self._first) // 3
        candidates = [index for index, end in enumerate(ends) if end > earliest] or [len(ends) - 1]
        best = min(candidates, key=lambda index: (self._frames[index].voiced, self._frames[index].energy))
        return ends[best], best + 1

    def _finish(self) -> list[SegmentEffect]:
        silence = self._position - self._last_voiced
        end = self._speculated if self._speculated is not None else self._position
        finished = SpeechFinished(self._segment(end), silence // MS)
        self._close(end)
        return [finished]

    def _dismiss(self) -> list[SegmentEffect]:
        self._close(self._first)
        return []

    def _close(self, end: int) -> None:
        """Nothing is open any more; samples from `end` on may still become the padding of what comes."""
        self._open = self._certain = self._pressed = False
        self._frames = []
        self._speculated = None
        self._drop(end)
        self._trim()

    def _segment(self, end: int) -> Segment:
        return Segment(self._first, end, self._audio(self._first, end), self._voiced_samples() // MS)

    def _voiced_samples(self) -> int:
        return sum(frame.samples for frame in self._frames if frame.voiced)

    def _audio(self, start: int, end: int) -> bytes:
        return bytes(self._pcm[2 * (start - self._base) : 2 * (end - self._base)])

    def _trim(self) -> None:
        self._drop(self._position - self._config.prefix_padding_ms * MS)

    def _drop(self, start: int) -> None:
        if start > self._base:
            del self._pcm[: 2 * (start - self._base)]
            self._base = start


def _voiced_ms(frames: list[_Frame]) -> int:
    return sum(frame.samples for frame in frames if frame.voiced) // MS
