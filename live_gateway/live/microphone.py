"""The microphone of one session: it may fall silent without a word about it, and what was said last may not be written down yet.

A model that finds the end of speech by itself needs audio for it. Where audio stops coming after somebody spoke (muted, a stalled client),
the model is told once that the microphone is off; else the turn stays open and nobody answers. With push to talk the client says so.
"""

from __future__ import annotations

import array
import asyncio
from collections.abc import Callable
from typing import Final

from live_gateway.agents.config import LiveRunConfig
from live_gateway.events import Event

LOUD: Final = 500
"""Peak of int16 samples from which on audio may hold speech."""
EVERY: Final = 8
"""Only every so many samples are looked at, half a millisecond apart: this is done for every frame of a silent room."""
QUIET_S: Final = 1.0
LAST_WORDS_S: Final = 2.5


class Microphone:
    """off: tells the model that the microphone is off."""

    def __init__(self, off: Callable[[], None], config: LiveRunConfig) -> None:
        self._off = off
        self._automatic = config.voice_activity.automatic
        self._written = config.input_transcription
        self._on = False
        self._told_by_itself = False
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._all_written = asyncio.Event()
        self._all_written.set()

    def took(self, pcm: bytes) -> None:
        """Audio goes up."""
        self._told_by_itself = False
        if not self._on:
            if not _may_be_speech(pcm):
                return
            self._on = True
            self._all_written.clear()
        loop = asyncio.get_running_loop()
        self._last = loop.time()
        if self._timer is None and self._automatic:
            self._timer = loop.call_at(self._last + QUIET_S, self._look)

    def told_off(self) -> bool:
        """The model is to be told that the microphone is off. False if it was told already, and nothing came since."""
        self._on = False
        return not self._told_by_itself

    def recorded(self, event: Event) -> None:
        """An event of the session: what was said may have been written down in it, or answered as it was."""
        if (event.input_transcription is not None and not event.partial) or event.turn_complete:
            self._on = False
            self._all_written.set()

    async def last_words(self) -> None:
        """The user has finished: wait until what was said last is written down, at most 2.5 s."""
        if not self._written or self._all_written.is_set():
            return
        if self._on and self._automatic:
            self._tell()
        try:
            async with asyncio.timeout(LAST_WORDS_S):
                await self._all_written.wait()
        except TimeoutError:
            return

    def close(self) -> None:
        """Nothing more is waited for."""
        self._automatic = False
        self._all_written.set()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        if not self._on:
            return
        if loop.time() < self._last + QUIET_S:
            self._timer = loop.call_at(self._last + QUIET_S, self._look)
        else:
            self._tell()

    def _tell(self) -> None:
        self._on = False
        self._told_by_itself = True
        self._off()


def _may_be_speech(pcm: bytes) -> bool:
    samples = array.array("h", pcm[: len(pcm) & ~1])[::EVERY]
    return bool(samples) and max(max(samples), -min(samples)) >= LOUD
