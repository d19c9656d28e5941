"""Listens to the user: finds speech, recognises it while it is spoken, and tells it from the answer's own echo.

Everything happens in the order of the audio: a recognition is awaited before the audio behind it is looked at. That costs nothing, since
recognition is much faster than speech, and makes what comes out depend on the audio alone, at any speed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from live_gateway.clock import Clock
from live_gateway.content import Part, user_content
from live_gateway.errors import ModelError
from live_gateway.models.cascade.answerer import Answerer
from live_gateway.models.cascade.inbox import EndOfAudio, Gap, Inbox, Mark, Playing
from live_gateway.models.cascade.outbox import Outbox
from live_gateway.models.live import Activity, ConnectionNotice, Fault, LiveSetup, SpeechEnded, Transcript, TurnComplete
from live_gateway.telemetry import get_logger
from live_gateway.voice.base import FRAME_BYTES, Voice, VoiceActivityDetector
from live_gateway.voice.echo import BargeIn, BargeInConfig, Verdict, is_hallucination
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
from live_gateway.voice.workers import Workers

log = get_logger(__name__)

BATCH = 16
"""Frames that the detector looks at in one go when several wait."""
IDLE_FRAMES = 3
"""While nobody speaks, the detector is asked for so many frames at once: waking it up costs more than the frames do."""
MAX_PIECES = 20
"""Speech without a pause is finished after so many segments (five minutes)."""
ECHO_TAIL_MS = 300
"""For so long after the last sound of an answer, what is heard may still be its echo."""
ECHO_KEPT_MS = 1_200
"""How much of what turned out to be echo is looked at again, together with what follows."""
NOTHING_HEARD = "nothing_heard"
NOT_RECOGNISED = "not_recognised"
MAX_FAILURES = 3
"""So many utterances in a row that the recogniser fails at, and it is held to be broken."""


@dataclass(slots=True)
class _Utterance:
    """What the user is saying. `doubtful`: it may be our own echo. `reported`: the listener of the connection knows of it.
    `failure`: of the recogniser, at words that will not be looked at again."""

    start: int
    doubtful: bool
    reported: bool = False
    pieces: list[str] = field(default_factory=list)
    partial: str = ""
    failure: Exception | None = None
    speculation: tuple[int, str] | None = None


class Listener:
    """The hearing half of one connection."""

    def __init__(
        self, setup: LiveSetup, voice: Voice, vad: VoiceActivityDetector, outbox: Outbox, answerer: Answerer, workers: Workers, clock: Clock
    ) -> None:
        activity = setup.voice_activity
        self._stt = voice.stt
        self._vad = vad
        self._outbox = outbox
        self._answerer = answerer
        self._workers = workers
        self._clock = clock
        self._transcribes = setup.input_transcription
        self._interrupts = activity.interrupts
        self._automatic = activity.automatic
        self._segmenter = Segmenter(
            SegmenterConfig(
                automatic=activity.automatic,
                silence_duration_ms=activity.silence_duration_ms,
                prefix_padding_ms=activity.prefix_padding_ms,
            )
        )
        self._barge_in = BargeIn(BargeInConfig())
        self._utterance: _Utterance | None = None
        self._playing = False
        self._quiet_since = -ECHO_TAIL_MS * MS
        self._image: Part | None = None
        self._failed_in_a_row = 0

    def show(self, image: Part) -> None:
        """What the user shows; the last image goes with the next thing they say."""
        self._image = image

    async def run(self, inbox: Inbox) -> None:
        """Listen until cancelled."""
        while True:
            frames: list[bytes] = []
            for item in await inbox.take(self._patience):
                if isinstance(item, bytes):
                    frames.append(item)
                    if len(frames) < BATCH:
                        continue
                await self._hear(frames)
                frames = []
                if not isinstance(item, bytes):
                    await self._mark(item)
            await self._hear(frames)

    @property
    def _patience(self) -> int:
        return IDLE_FRAMES if self._segmenter.idle and not self._playing else 1

    async def _hear(self, frames: list[bytes]) -> None:
        if not frames:
            return
        probabilities = await self._workers.light(_detect, self._vad, frames)
        for frame, detected in zip(frames, probabilities, strict=True):
            was_loud = self._barge_in.loud_enough
            probability = self._barge_in.listen(frame, detected, playing=self._echo_possible)
            effects = self._segmenter.feed(frame, probability)
            for effect in effects:
                await self._apply(effect)
            looked = any(isinstance(effect, PartialDue) for effect in effects)
            if self._doubting and self._barge_in.loud_enough and not (was_loud or looked):
                await self._look_closer(self._segmenter.current())

    @property
    def _echo_possible(self) -> bool:
        return self._playing or self._segmenter.position - self._quiet_since < ECHO_TAIL_MS * MS

    async def _mark(self, mark: Mark | Gap) -> None:
        effects: list[SegmentEffect] = []
        match mark:
            case Activity.START:
                effects = self._segmenter.press()
            case Activity.END:
                effects = self._segmenter.release()
            case EndOfAudio():
                effects = self._segmenter.flush()
                self._vad.reset()
            case Playing(playing):
                if self._playing and not playing:
                    self._quiet_since = self._segmenter.position
                self._playing = playing
            case Gap(samples):
                effects = self._segmenter.skip(samples)
                await self._outbox.put(ConnectionNotice("audio_gap", {"dropped_ms": samples // MS}))
        for effect in effects:
            await self._apply(effect)

    async def _apply(self, effect: SegmentEffect) -> None:
        match effect:
            case SpeechBegan(start):
                await self._began(start)
            case PartialDue(segment):
                await self._look_closer(segment)
            case SpeculationDue(segment):
                if self._utterance is not None and not isinstance(text := await self._recognise(segment), Exception):
                    self._utterance.speculation = (segment.end, text)
            case SegmentCut(segment):
                await self._cut(segment)
            case SpeechFinished(segment, silence_ms):
                await self._finished(segment, silence_ms)

    @property
    def _doubting(self) -> bool:
        utterance = self._utterance
        return utterance is not None and utterance.doubtful and not utterance.reported

    async def _began(self, start: int) -> None:
        doubtful = self._automatic and (self._echo_possible or self._answerer.busy)
        self._utterance = utterance = _Utterance(start, doubtful)
        self._barge_in.began()
        if not doubtful:
            await self._report(utterance)

    async def _report(self, utterance: _Utterance) -> None:
        """It is the user. Where speech interrupts, an answer that is being made stops now."""
        utterance.reported = True
        if not self._interrupts and (self._answerer.busy or self._playing):
            return
        await self._answerer.speech_began()

    async def _look_closer(self, segment: Segment | None) -> None:
        """A look at the words so far: to show them, or to find out whose they are."""
        utterance = self._utterance
        if utterance is None or segment is None:
            return
        newest = await self._recognise(segment)
        if isinstance(newest, Exception):
            return  # all of it is looked at again when it is complete
        text = _joined([*utterance.pieces, newest])
        if self._doubting:
            verdict = await self._judge(text, segment)
            if verdict == "echo":
                self._drop_echo()
            if verdict != "user" or not self._interrupts:
                return
            await self._report(utterance)
        if text != utterance.partial and not is_hallucination(text, segment.voiced_ms):
            utterance.partial = text
            await self._show(utterance, text, segment)

    async def _judge(self, text: str, segment: Segment, *, last: bool = False) -> Verdict:
        likeness = await self._workers.heavy(self._answerer.reference.likeness, segment.pcm)
        length_ms = (segment.end - segment.start) // MS
        return self._barge_in.judge(text, self._answerer.spoken, likeness, length_ms, last=last)

    def _drop_echo(self) -> None:
        """What is open is the answer itself, but perhaps for what is louder. While its loudness is not known its end is looked at again."""
        if not self._barge_in.least_loudness:
            self._segmenter.shorten(ECHO_KEPT_MS)
        elif not self._segmenter.only_louder(self._barge_in.least_loudness):
            self._utterance = None

    async def _cut(self, segment: Segment) -> None:
        utterance = self._utterance
        if utterance is None:
            return
        text = await self._recognise(segment)
        if isinstance(text, Exception):
            utterance.failure = text
        elif not is_hallucination(text, segment.voiced_ms):
            utterance.pieces.append(text)
        if len(utterance.pieces) >= MAX_PIECES:
            for effect in self._segmenter.flush():
                await self._apply(effect)

    async def _finished(self, segment: Segment, silence_ms: int) -> None:
        utterance, self._utterance = self._utterance, None
        if utterance is None:
            return
        speculation = utterance.speculation
        text = speculation[1] if speculation is not None and speculation[0] == segment.end else await self._recognise(segment)
        if isinstance(text, Exception):
            utterance.failure, text = text, ""
        elif is_hallucination(text, segment.voiced_ms):
            text = ""
        text = _joined([*utterance.pieces, text]) or utterance.partial
        doubting = utterance.doubtful and not utterance.reported
        mine = doubting and await self._judge(text, segment, last=True) != "user"
        if mine:
            return
        if doubting:
            await self._report(utterance)
        await self._hand_on(utterance, text, segment, silence_ms)

    async def _hand_on(self, utterance: _Utterance, text: str, segment: Segment, silence_ms: int) -> None:
        if self._interrupts or not (self._answerer.busy or self._playing):
            await self._outbox.put(SpeechEnded(silence_ms))
        if utterance.failure is not None:
            await self._lost(utterance.failure)
            return
        self._failed_in_a_row = 0
        if not text:
            await self._outbox.put(TurnComplete(NOTHING_HEARD))
            self._answerer.nothing_said()
            return
        await self._show(utterance, text, segment, finished=True)
        content = user_content(text)
        if self._image is not None and content.parts is not None:
            content.parts.append(self._image)
            self._image = None
        await self._answerer.ask(content)

    async def _lost(self, failure: Exception) -> None:
        """Words are missing. What is left may mean anything, so all of it is given up, and the user is told to say it again."""
        self._failed_in_a_row += 1
        if self._failed_in_a_row >= MAX_FAILURES:
            raise failure
        log.error("recogniser_failed", failure, in_a_row=self._failed_in_a_row)
        await self._outbox.put(Fault(ModelError(f"what was said could not be recognised ({type(failure).__name__}); say it again")))
        await self._outbox.put(TurnComplete(NOT_RECOGNISED))
        self._answerer.nothing_said()

    async def _show(self, utterance: _Utterance, text: str, segment: Segment, *, finished: bool = False) -> None:
        if self._transcribes:
            start, end = utterance.start // MS, segment.end // MS if finished else None
            await self._outbox.put(Transcript("user", text, finished=finished, replaces=True, start_ms=start, end_ms=end))

    async def _recognise(self, segment: Segment) -> str | Exception:
        """The words of a segment, or how the recogniser failed at it. Without any speech in it a recogniser would make some up: it is not
        asked then."""
        if not segment.voiced_ms:
            return ""
        began = self._clock.now()
        try:
            text = await self._workers.heavy(self._stt.transcribe, segment.pcm)
        except Exception as failure:  # the edge to a recogniser that may be anybody's
            return failure
        self._segmenter.decoded(self._clock.now() - began)
        return text.strip().rstrip(",;:-–— ")


def _detect(vad: VoiceActivityDetector, frames: list[bytes]) -> list[float]:
    return [vad(frame.ljust(FRAME_BYTES, b"\0")) for frame in frames]


def _joined(pieces: list[str]) -> str:
    return " ".join(piece for piece in pieces if piece)
