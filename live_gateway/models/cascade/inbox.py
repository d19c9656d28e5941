"""What the listener has not heard yet: audio in frames, and marks at their place among them."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TypeAlias

from live_gateway.errors import ModelError
from live_gateway.models.live import Activity
from live_gateway.voice.base import FRAME_BYTES, INPUT_HZ

MAX_MARKS = 256


@dataclass(frozen=True, slots=True)
class EndOfAudio:
    """The microphone is off."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Here `samples` samples were dropped, because the listener did not keep up."""

    samples: int


@dataclass(frozen=True, slots=True)
class Playing:
    """From here on the user hears an answer, or no longer does."""

    playing: bool


Mark: TypeAlias = Activity | EndOfAudio | Playing
Heard: TypeAlias = bytes | Mark | Gap


class Inbox:
    """Audio goes in with any length and comes out in frames of `FRAME_BYTES`; only before a mark of the speaker a frame may be shorter.

    At most `input_s` of audio wait. A sender waits up to `room_s` for room; then the oldest audio is dropped. Marks are never dropped.
    """

    def __init__(self, input_s: float, room_s: float) -> None:
        self._capacity = max(1, round(input_s * 2 * INPUT_HZ / FRAME_BYTES))
        self._room_s = room_s
        self._waiting: deque[Heard] = deque()
        self._frames = 0
        self._rest = b""
        self._behind = False
        self._filled = asyncio.Event()
        self._emptied = asyncio.Event()

    async def put_audio(self, pcm: bytes) -> None:
        """Add audio, waiting a little for room."""
        data = self._rest + pcm
        whole = len(data) - len(data) % FRAME_BYTES
        self._rest = data[whole:]
        for start in range(0, whole, FRAME_BYTES):
            if self._frames >= self._capacity:
                await self._make_room()
            self._append(data[start : start + FRAME_BYTES])

    def put_mark(self, mark: Mark) -> None:
        """Add a mark at its place in the audio. Raises `ModelError` when far too many of them wait."""
        if len(self._waiting) - self._frames >= MAX_MARKS:
            raise ModelError("the voice model does not keep up with the marks it is sent")
        if self._rest and not isinstance(mark, Playing):
            self._append(self._rest)
            self._rest = b""
        self._waiting.append(mark)
        self._filled.set()

    async def take(self, frames: int = 1) -> list[Heard]:
        """Everything that waits, oldest first: at least so many frames, or something that is no frame."""
        while not self._waiting or (len(self._waiting) == self._frames < frames):
            self._filled.clear()
            await self._filled.wait()
        taken = list(self._waiting)
        self._waiting.clear()
        self._frames = 0
        self._behind = False
        self._emptied.set()
        return taken

    def _append(self, frame: bytes) -> None:
        self._waiting.append(frame)
        self._frames += 1
        self._filled.set()

    async def _make_room(self) -> None:
        """Wait for the listener once; while it stays behind, drop without waiting again."""
        if not self._behind:
            self._emptied.clear()
            try:
                async with asyncio.timeout(self._room_s):
                    await self._emptied.wait()
            except TimeoutError:
                self._behind = True
        if self._frames >= self._capacity:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        index = next(index for index, item in enumerate(self._waiting) if isinstance(item, bytes))
        frame = self._waiting[index]
        before = self._waiting[index - 1] if index else None
        lost = len(frame) // 2 if isinstance(frame, bytes) else 0
        self._frames -= 1
        if isinstance(before, Gap):
            self._waiting[index - 1] = Gap(before.samples + lost)
            del self._waiting[index]
        else:
            self._waiting[index] = Gap(lost)
