"""Records a whole call into one stereo file (`LiveRunConfig.record_to`): where sound stands is in `call_tracks`, the file in `call_file`.

The loop only gathers bytes. A task takes what is final four times a second and writes it in a thread, one piece after the other; while
the disk is slow it waits in the tracks, which have a bound. What there is no room for is silence in the file, counted, and told once.
A disk that fails ends the recording, not the call.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from live_gateway.agents.context import InvocationContext
from live_gateway.clock import Clock
from live_gateway.errors import StorageError
from live_gateway.live.call_file import CallFile
from live_gateway.live.call_tracks import CallTracks
from live_gateway.live.items import AudioChunk, LiveItem, Notice, PlaybackMark, ResponseEnded
from live_gateway.models.live import OUTPUT_HZ
from live_gateway.telemetry import get_logger

log = get_logger(__name__)

TICK_S = 0.25
OPEN_S = 10.0
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME = 100


class CallRecorder:
    """One call's recording. file: None records nothing and keeps nothing. tell: takes notices."""

    def __init__(self, file: CallFile | None, clock: Clock, tell: Callable[[Notice], None]) -> None:
        self._file = file
        self._now = clock.now
        self._tell = tell
        self._began = 0.0
        self._tracks: CallTracks | None = None
        self._ending = asyncio.Event()
        self._told = False

    def begin(self) -> None:
        """The call begins now, before `run` has had its first turn."""
        self._began = self._now()
        self._tracks = CallTracks() if self._file is not None else None

    def heard(self, pcm: bytes) -> None:
        """Sound of the user has arrived: int16 mono at 16 kHz."""
        if self._tracks is not None:
            self._tracks.heard(pcm, self._since())

    def shown(self, item: LiveItem) -> None:
        """Something for the listener: the agent's sound, or how far an answer was heard."""
        if self._tracks is None:
            return
        if isinstance(item, AudioChunk):
            self._tracks.spoken(item.response, item.pos, item.pcm, self._since())
        elif isinstance(item, ResponseEnded):
            self._tracks.ended(item.response, None if item.status == "completed" else item.heard_ms * OUTPUT_HZ // 1000)

    def played(self, mark: PlaybackMark) -> None:
        """The listener reports what it played."""
        if self._tracks is not None:
            self._tracks.mark(mark.response, mark.heard, self._since())

    def finish(self) -> None:
        """The call ends: take no more, and write what is left."""
        self._ending.set()

    async def discard(self) -> None:
        """There was no call: leave no file."""
        if self._file is not None:
            await asyncio.to_thread(self._file.discard)

    async def run(self) -> None:
        """Write until `finish` was called and all is written."""
        if self._file is None or self._tracks is None:
            return
        try:
            await self._record(self._file, self._tracks)
        except Exception as error:  # the edge of disks
            log.error("recording_failed", error, path=str(self._file.path))
            self._tell(Notice("warning", "recording_stopped"))
        finally:
            self._tracks = None
            self._file.close()

    async def _record(self, file: CallFile, tracks: CallTracks) -> None:
        while not self._ending.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_S):
                    await self._ending.wait()
            if not self._ending.is_set():
                await self._write(file, tracks.take(self._since()))
            if tracks.lost_ms and not self._told:
                self._told = True
                self._tell(Notice("warning", "recording_gap"))
        self._tracks = None
        await self._write(file, tracks.finish(self._since()))
        await asyncio.to_thread(file.write, b"", b"", last=True)
        if tracks.lost_ms:
            log.warning("recording_has_gaps", path=str(file.path), lost_ms=tracks.lost_ms)

    async def _write(self, file: CallFile, pieces: Iterator[tuple[bytes, bytes]]) -> None:
        for left, right in pieces:
            await asyncio.to_thread(file.write, left, right)

    def _since(self) -> float:
        return self._now() - self._began


async def open_recorder(
    directory: Path | None, invocation: InvocationContext, clock: Clock, tell: Callable[[Notice], None]
) -> CallRecorder:
    """A recorder with a new file in this directory; None records nothing. Raises `StorageError`."""
    if directory is None:
        return CallRecorder(None, clock, tell)
    path = directory / file_name(invocation.session.id, invocation.invocation_id)
    opening = asyncio.get_running_loop().run_in_executor(None, CallFile, path)
    try:
        async with asyncio.timeout(OPEN_S):
            return CallRecorder(await asyncio.shield(opening), clock, tell)
    except asyncio.CancelledError:
        opening.add_done_callback(_discard)
        raise
    except OSError as error:  # TimeoutError is one
        opening.add_done_callback(_discard)
        log.error("recording_not_opened", error, path=str(path))
        raise StorageError(f"the call cannot be recorded: {error.strerror or 'the disk does not answer'}") from error


def _discard(opened: asyncio.Future[CallFile]) -> None:
    """Nobody waits for this file any more."""
    if not opened.cancelled() and opened.exception() is None:
        opened.result().discard()


def file_name(session_id: str, invocation_id: str) -> str:
    """The file's name: only letters, digits, `_` and `-`, whatever the ids are; the invocation makes it unique."""
    return f"{_UNSAFE.sub('_', session_id)[:_MAX_NAME]}_{_UNSAFE.sub('_', invocation_id)[:_MAX_NAME]}.wav"
