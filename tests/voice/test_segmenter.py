from __future__ import annotations

import array
import itertools
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from live_gateway.voice.base import FRAME_SAMPLES
from live_gateway.voice.segmenter import (
    MS,
    PartialDue,
    Segment,
    SegmentCut,
    SegmentEffect,
    Segmenter,
    SegmenterConfig,
    SpeculationDue,
    SpeechBegan,
    SpeechFinished,
)

FRAME_MS = FRAME_SAMPLES // MS


@dataclass
class Stream:
    """Feeds a segmenter samples that are all different, and keeps what came out."""

    config: SegmenterConfig = field(default_factory=SegmenterConfig)
    effects: list[SegmentEffect] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.segmenter = Segmenter(self.config)
        self.fed = 0
        self.most_kept = 0

    def feed(self, probability: float, frames: int = 1, samples: int = FRAME_SAMPLES) -> None:
        for _ in range(frames):
            self.effects += self.segmenter.feed(expected(self.fed, self.fed + samples), probability)
            self.fed += samples
            self.most_kept = max(self.most_kept, self.segmenter.kept_samples)

    def speak(self, ms: int) -> None:
        self.feed(0.9, round(ms / FRAME_MS))

    def pause(self, ms: int) -> None:
        self.feed(0.01, round(ms / FRAME_MS))

    def take(self, step: str, amount: int) -> None:
        match step:
            case "speak":
                self.feed(0.9, amount)
            case "pause":
                self.feed(0.0, amount)
            case "short":
                self.feed(0.9, samples=amount)
            case "flush":
                self.effects += self.segmenter.flush()
            case "press":
                self.effects += self.segmenter.press()
            case "release":
                self.effects += self.segmenter.release()

    def of(self, *kinds: type) -> list[SegmentEffect]:
        return [effect for effect in self.effects if isinstance(effect, kinds)]

    @property
    def complete(self) -> list[Segment]:
        return [effect.segment for effect in self.effects if isinstance(effect, SegmentCut | SpeechFinished)]


def expected(start: int, end: int) -> bytes:
    return array.array("h", [sample * 7 % 30_011 for sample in range(start, end)]).tobytes()


def test_speech_between_silences_is_one_segment_with_padding() -> None:
    stream = Stream()
    stream.pause(960)
    stream.speak(960)
    stream.pause(960)
    kinds = [type(effect) for effect in stream.effects]
    assert kinds[0] is SpeechBegan
    assert kinds[-2:] == [SpeculationDue, SpeechFinished]
    (finished,) = stream.of(SpeechFinished)
    assert isinstance(finished, SpeechFinished)
    assert finished.segment.start == (960 - 300) * MS
    assert finished.segment.voiced_ms == 960
    assert finished.silence_ms == 512  # the first whole frame after 500 ms
    (speculated,) = stream.of(SpeculationDue)
    assert isinstance(speculated, SpeculationDue)
    assert speculated.segment == finished.segment


def test_less_than_200_ms_of_voice_leaves_no_trace() -> None:
    stream = Stream()
    stream.pause(320)
    stream.speak(192)
    stream.pause(1_500)
    assert stream.effects == []
    assert stream.segmenter.kept_samples == 300 * MS


def test_a_pause_shorter_than_the_limit_does_not_end_speech_and_the_speculation_is_made_anew() -> None:
    stream = Stream()
    stream.speak(640)
    stream.pause(448)
    stream.speak(640)
    stream.pause(640)
    assert len(stream.of(SpeechBegan)) == 1
    assert len(stream.of(SpeculationDue)) == 2
    assert len(stream.complete) == 1
    assert stream.complete[0].voiced_ms == 1_280


def test_partials_keep_a_distance_of_300_ms_or_four_times_the_last_decode() -> None:
    stream = Stream()
    stream.speak(2_000)
    ends = [effect.segment.end for effect in stream.effects if isinstance(effect, PartialDue)]
    assert ends[0] >= 400 * MS
    assert all(320 * MS >= later - sooner >= 300 * MS for sooner, later in itertools.pairwise(ends))
    stream.segmenter.decoded(0.25)
    stream.effects.clear()
    stream.speak(4_000)
    ends = [effect.segment.end for effect in stream.effects if isinstance(effect, PartialDue)]
    assert all(later - sooner >= 1_000 * MS for sooner, later in itertools.pairwise(ends))
    assert len(ends) >= 4


def test_endless_speech_is_cut_where_it_is_quietest_and_nothing_is_lost() -> None:
    stream = Stream()
    stream.speak(11_008)
    quiet = stream.fed
    stream.pause(32)
    stream.speak(6_400)
    stream.pause(640)
    (cut,) = [effect for effect in stream.effects if isinstance(effect, SegmentCut)]
    assert cut.segment.end == quiet + FRAME_SAMPLES
    first, second = stream.complete
    assert second.start == first.end
    assert first.pcm + second.pcm == expected(first.start, second.end)


def test_push_to_talk_keeps_the_padding_and_ends_at_once() -> None:
    stream = Stream(SegmenterConfig(automatic=False))
    stream.speak(640)
    assert stream.effects == []
    stream.effects += stream.segmenter.press()
    stream.effects += stream.segmenter.press()
    stream.speak(640)
    stream.pause(1_600)
    stream.speak(320)
    stream.effects += stream.segmenter.release()
    stream.effects += stream.segmenter.release()
    assert len(stream.of(SpeechBegan)) == len(stream.of(SpeechFinished)) == 1
    (segment,) = stream.complete
    assert segment.start == (640 - 300) * MS
    assert segment.end == stream.fed
    assert segment.pcm == expected(segment.start, segment.end)


def test_the_end_of_the_audio_finishes_speech() -> None:
    stream = Stream()
    stream.speak(640)
    stream.effects += stream.segmenter.flush()
    assert len(stream.complete) == 1
    assert stream.complete[0].end == stream.fed
    assert stream.segmenter.flush() == []


def test_missing_audio_is_silence_to_open_speech_and_time_passes() -> None:
    stream = Stream()
    stream.speak(640)
    stream.effects += stream.segmenter.skip(5_000 * MS)
    assert len(stream.of(SpeechFinished)) == 1
    assert stream.segmenter.position == stream.fed + 5_000 * MS
    assert stream.segmenter.kept_samples <= 300 * MS
    stream.effects += stream.segmenter.skip(1_000 * MS)
    assert stream.segmenter.position == stream.fed + 6_000 * MS
    assert stream.segmenter.kept_samples == 0


def test_a_shortened_segment_is_still_the_samples_it_names() -> None:
    stream = Stream()
    stream.speak(3_200)
    stream.segmenter.shorten(1_200)
    segment = stream.segmenter.current()
    assert segment is not None
    assert stream.fed - segment.start >= 1_200 * MS
    assert stream.fed - segment.start <= 1_232 * MS
    assert segment.pcm == expected(segment.start, stream.fed)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("speak"), st.integers(1, 700)),
        st.tuples(st.just("pause"), st.integers(1, 40)),
        st.tuples(st.just("short"), st.integers(1, FRAME_SAMPLES - 1)),
        st.tuples(st.just("flush"), st.just(0)),
        st.tuples(st.just("press"), st.just(0)),
        st.tuples(st.just("release"), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(steps, st.booleans(), st.integers(64, 900), st.integers(0, 600))
def test_segments_never_overlap_hold_exactly_their_samples_and_memory_is_bounded(
    script: list[tuple[str, int]], automatic: bool, silence_ms: int, prefix_ms: int
) -> None:
    config = SegmenterConfig(automatic=automatic, silence_duration_ms=silence_ms, prefix_padding_ms=prefix_ms, max_segment_ms=4_000)
    stream = Stream(config)
    for step, amount in script:
        stream.take(step, amount)
    end = 0
    speaking = False
    for effect in stream.effects:
        match effect:
            case SpeechBegan(start):
                assert not speaking
                assert start >= end
                speaking = True
            case SegmentCut(segment) | SpeechFinished(segment):
                assert speaking
                assert segment.pcm == expected(segment.start, segment.end)
                assert segment.start >= end
                end = segment.end
                speaking = isinstance(effect, SegmentCut)
            case PartialDue(segment) | SpeculationDue(segment):
                assert speaking
                assert segment.start >= end
                assert segment.pcm == expected(segment.start, segment.end)
    cuts = [e.segment for e in stream.effects if isinstance(e, SegmentCut)]
    for cut in cuts:
        following = next((s for s in stream.complete if s.start >= cut.end), None)
        assert following is None or following.start == cut.end
    assert stream.most_kept <= (4_000 + prefix_ms) * MS + 2 * FRAME_SAMPLES
