"""Speaks a text as it grows: sentence by sentence, so that the first is heard while the rest is still being made."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from live_gateway.content import FunctionCall, FunctionResponse
from live_gateway.models.cascade.outbox import Outbox
from live_gateway.models.live import AudioOut, LiveSetup, TextOut, Transcript
from live_gateway.voice.base import OUTPUT_HZ, TextToSpeech
from live_gateway.voice.reference import EchoReference, Features, answer_features
from live_gateway.voice.sentences import SentenceSplitter
from live_gateway.voice.workers import Workers

CHUNK_BYTES = OUTPUT_HZ // 1000 * 40 * 2
"""40 ms of audio."""
REMEMBERED_CHARS = 4_000
"""How much of what was spoken is kept to recognise its echo."""


@dataclass(slots=True)
class Answer:
    """One turn of the model.

    said: what was handed over since the model was last asked. samples: how much was spoken in all. calls, responses, complete: what the
    model called and how it was answered.
    """

    number: int
    splitter: SentenceSplitter = field(default_factory=SentenceSplitter)
    said: str = ""
    samples: int = 0
    transcript_open: bool = False
    calls: tuple[FunctionCall, ...] = ()
    responses: dict[str, FunctionResponse] = field(default_factory=dict)
    complete: asyncio.Event = field(default_factory=asyncio.Event)


class Speaker:
    """The voice of one connection, or its pen where the modality is text."""

    def __init__(self, setup: LiveSetup, tts: TextToSpeech, outbox: Outbox, workers: Workers) -> None:
        self._audible = setup.modality == "AUDIO"
        self._transcribes = setup.output_transcription and self._audible
        self._tts = tts
        self._outbox = outbox
        self._workers = workers
        self.spoken = ""
        self.reference = EchoReference()

    def forget(self) -> None:
        """Nothing of what was spoken plays any more."""
        self.spoken = ""
        self.reference.clear()

    async def say(self, answer: Answer, text: str) -> None:
        """More of the answer's text. Whole sentences are spoken at once, waiting for room; the rest waits for its end."""
        if not text:
            return
        if not self._audible:
            await self._hand_over(answer, TextOut(text), text)
            return
        for sentence in answer.splitter.feed(text):
            await self._speak(answer, sentence)

    async def flush(self, answer: Answer) -> None:
        """No more text for now: speak what is left, and close the transcript of what was spoken."""
        for sentence in answer.splitter.flush():
            await self._speak(answer, sentence)
        if answer.transcript_open:
            answer.transcript_open = False
            await self._outbox.put(Transcript("model", "", finished=True), answer.number)

    async def _speak(self, answer: Answer, sentence: str) -> None:
        pieces = self._tts.synthesize(sentence.strip())
        announced = False
        while (piece := await self._workers.heavy(_next_piece, pieces)) is not None:
            pcm, features = piece
            self.reference.add(features)
            if not announced:
                await self._announce(answer, sentence)
                announced = True
            for start in range(0, len(pcm), CHUNK_BYTES):
                await self._outbox.put(AudioOut(pcm[start : start + CHUNK_BYTES]), answer.number)
            answer.samples += len(pcm) // 2
        if not announced:
            await self._announce(answer, sentence)

    async def _announce(self, answer: Answer, sentence: str) -> None:
        """The words go before their sound, but not before there is a sound."""
        self.spoken = (self.spoken + sentence)[-REMEMBERED_CHARS:]
        if not self._transcribes:
            answer.said += sentence
            return
        answer.transcript_open = True
        start_ms = answer.samples * 1000 // OUTPUT_HZ
        await self._hand_over(answer, Transcript("model", sentence, start_ms=start_ms), sentence)

    async def _hand_over(self, answer: Answer, message: TextOut | Transcript, text: str) -> None:
        await self._outbox.put(message, answer.number)
        answer.said += text


def _next_piece(pieces: Iterator[bytes]) -> tuple[bytes, Features] | None:
    pcm = next(pieces, None)
    return None if pcm is None else (pcm, answer_features(pcm))
