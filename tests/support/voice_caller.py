"""A caller with a microphone that is always on and a loudspeaker on paper, at the pace of speech, for a server with the embedded voice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from websockets.asyncio.client import ClientConnection

from live_gateway.cli.talk_playback import PacedListener
from live_gateway.server.wire import SERVER_KINDS, unpack_frame
from live_gateway.voice.base import FRAME_BYTES, INPUT_HZ
from live_gateway.voice.silero import SileroModel
from tests.support.spoken_turn import audio_frame

CHUNK_S = 0.04
CHUNK_BYTES = 1_280
SILENCE_S = 0.5
"""After so much of it speech counts as ended, unless a client asks for something else."""
VOICED = 0.5


@dataclass
class Turn:
    """One question and its answer. delay_s: from the last voiced sample to the first audio, beyond the silence that is waited for."""

    heard: str = ""
    said: str = ""
    tools: list[str] = field(default_factory=list)
    delay_s: float = 0.0
    status: str = ""


def last_voiced(pcm: bytes) -> int:
    """Where the last voiced frame ends, in samples."""
    return _voiced(pcm)[1]


def without_silence(pcm: bytes) -> bytes:
    """From the first voiced frame to the last."""
    start, end = _voiced(pcm)
    return pcm[2 * start : 2 * end]


def _voiced(pcm: bytes) -> tuple[int, int]:
    detect = SileroModel().detector()
    frames = range(0, len(pcm) - FRAME_BYTES + 1, FRAME_BYTES)
    voiced = [start // 2 for start in frames if detect(pcm[start : start + FRAME_BYTES]) >= VOICED]
    return voiced[0], voiced[-1] + FRAME_BYTES // 2


class VoiceCaller:
    """Made by `calling`. muted: the microphone sends nothing."""

    def __init__(self, client: ClientConnection) -> None:
        self.muted = False
        self._client = client
        self._listener = PacedListener()
        self._speech = b""
        self._sent = 0
        self._voiced_end = 0
        self._ended_at = 0.0
        self._turn = Turn()
        self._done = asyncio.Event()
        noise = np.random.default_rng(11).standard_normal(CHUNK_BYTES // 2 * 50) * 8
        self._noise = noise.astype("<i2").tobytes()

    async def ask(self, pcm: bytes, voiced_end: int, *, within_s: float = 40.0) -> Turn:
        """Say this, and listen until the answer has been heard. voiced_end: see `last_voiced`."""
        self._turn = turn = Turn()
        self._done.clear()
        self._ended_at = 0.0
        self._speech, self._voiced_end = pcm, voiced_end
        async with asyncio.timeout(len(pcm) / 2 / INPUT_HZ + within_s):
            await self._done.wait()
        return turn

    async def mute(self, muted: bool) -> None:
        """Switch the microphone off or on."""
        self.muted = muted
        await self._client.send(json.dumps({"type": "input.mute", "muted": muted}))

    async def microphone(self) -> None:
        """Send a chunk every 40 ms, of the speech that is due or of a quiet room."""
        loop = asyncio.get_running_loop()
        began, number = loop.time(), 0
        while True:
            number += 1
            await asyncio.sleep(began + number * CHUNK_S - loop.time())
            if self.muted:
                continue
            chunk, self._speech = self._speech[:CHUNK_BYTES], self._speech[CHUNK_BYTES:]
            if chunk:
                self._note_end(len(chunk) // 2, loop.time())
            at = number % 50 * CHUNK_BYTES
            quiet = self._noise[at : at + CHUNK_BYTES]
            await self._client.send(audio_frame(self._sent, chunk + quiet[len(chunk) :]))
            self._sent += 1

    def _note_end(self, samples: int, now: float) -> None:
        if 0 < self._voiced_end <= samples:
            self._ended_at = now - (samples - self._voiced_end) / INPUT_HZ
        self._voiced_end -= samples

    async def listen(self) -> None:
        """Take what the server sends."""
        loop = asyncio.get_running_loop()
        async for data in self._client:
            if isinstance(data, bytes):
                frame = unpack_frame(data, SERVER_KINDS)
                if self._ended_at and not self._turn.delay_s:
                    self._turn.delay_s = loop.time() - self._ended_at - SILENCE_S
                self._listener.audio(frame.stream, frame.payload, loop.time())
            else:
                self._message(json.loads(data), loop.time())

    async def loudspeaker(self) -> None:
        """Play, and say what was played."""
        while True:
            await asyncio.sleep(0.02)
            self._listener.tick(asyncio.get_running_loop().time())
            for mark in self._listener.take():
                await self._client.send(json.dumps({"type": "playback", "heard": mark.played, **asdict(mark)}))

    def _message(self, message: dict[str, Any], now: float) -> None:
        turn = self._turn
        match message["type"]:
            case "transcript" if message["final"] and message["revision"] == 1:
                if message["role"] == "user":
                    turn.heard = f"{turn.heard} {message['text']}".strip()
                else:
                    turn.said = f"{turn.said} {message['text']}".strip()
            case "tool.call" if message.get("pending"):
                turn.tools.append(message["name"])
            case "response.audio.end":
                self._listener.audio_end(message["response"], now)
            case "interrupted":
                self._listener.flush(message["response"], now)
            case "response.end":
                turn.status = message["status"]
                self._done.set()


@asynccontextmanager
async def calling(client: ClientConnection) -> AsyncIterator[VoiceCaller]:
    """Say hello over this connection, wait until the voice is ready, and keep the line open while the block runs."""
    await client.send(json.dumps({"type": "hello", "v": 1, "caps": ["playback"]}))
    async with asyncio.timeout(90):
        while '"welcome"' not in str(await client.recv()):
            continue
    caller = VoiceCaller(client)
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(work) for work in (caller.microphone(), caller.listen(), caller.loudspeaker())]
    try:
        yield caller
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.exception()  # the connection broke, which is seen by whoever holds it
