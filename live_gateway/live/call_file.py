"""The file of a recorded call: WAV, int16, stereo at 24 kHz, the user left, the agent right. All of it is for a thread.

24 kHz is the agent's rate, so its samples stand there as they were; the user's go up from 16 kHz, which loses nothing.

The header is written anew behind every piece, so the file is whole at any time, whatever ends the process; it is not forced onto the disk,
so a machine that loses its power may lose more. Room is left in the header for the sizes of more than 4 GiB (12 hours): from there on the
file is RF64 (EBU Tech 3306), which needs no second file and nothing moved.
"""

from __future__ import annotations

import os
import struct
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import soxr

from live_gateway.models.live import INPUT_HZ, OUTPUT_HZ

FRAME = 4
"""Bytes of one sample of both sides."""
HEADER = 80
_MAX_RIFF = 2**32 - 1
_LARGE = 0xFFFFFFFF


class CallFile:
    """A new file, for its owner alone. Raises `OSError`; one that is there already is not touched."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._done = False
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600), "wb")
        self._up: Any = soxr.ResampleStream(INPUT_HZ, OUTPUT_HZ, 1, dtype="int16")
        self._right = np.empty(0, np.int16)
        self._size = 0
        try:
            self._file.write(header(0))
            self._file.flush()
        except OSError:
            self.discard()
            raise

    def write(self, left: bytes, right: bytes, *, last: bool = False) -> None:
        """Both sides of the same time. Raises `OSError`."""
        with self._lock:
            if not self._done:
                self._append(self._interleaved(left, right, last=last))
        if self._done:
            self.close()

    def close(self) -> None:
        """Never waits: a write that still runs closes the file when it is through."""
        self._done = True
        if self._lock.acquire(blocking=False):
            try:
                with suppress(OSError):  # what could not be written was told before
                    self._file.close()
                self._up = None  # not with the rest of the call, which may be looked at for long
            finally:
                self._lock.release()

    def discard(self) -> None:
        """Close the file and remove it."""
        self.close()
        self.path.unlink(missing_ok=True)

    def _interleaved(self, left: bytes, right: bytes, *, last: bool) -> bytes:
        """What is complete on both sides: the left comes out of the resampler a little later than it goes in."""
        up = self._up.resample_chunk(np.frombuffer(left, "<i2"), last=last)
        waiting = np.concatenate((self._right, np.frombuffer(right, "<i2")))
        if last:
            up = np.pad(up[: len(waiting)], (0, max(0, len(waiting) - len(up))))
        self._right = waiting[len(up) :].copy()
        return np.column_stack((up, waiting[: len(up)])).astype("<i2").tobytes()

    def _append(self, frames: bytes) -> None:
        self._file.seek(0, os.SEEK_END)
        self._file.write(frames)
        self._file.flush()
        self._size += len(frames)
        self._file.seek(0)
        self._file.write(header(self._size))
        self._file.flush()


def header(size: int) -> bytes:
    """The header of a file with so many bytes of samples."""
    riff = size + HEADER - 8
    large = riff > _MAX_RIFF
    sizes = struct.pack("<QQQI", riff, size, size // FRAME, 0) if large else bytes(28)
    return b"".join(
        (
            struct.pack("<4sI4s", b"RF64" if large else b"RIFF", _LARGE if large else riff, b"WAVE"),
            struct.pack("<4sI", b"ds64" if large else b"JUNK", len(sizes)),
            sizes,
            struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 2, OUTPUT_HZ, OUTPUT_HZ * FRAME, FRAME, 16),
            struct.pack("<4sI", b"data", _LARGE if large else size),
        )
    )
