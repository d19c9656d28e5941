"""The file of a recorded call."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import wave
from pathlib import Path

import numpy as np
import pytest
import soundfile

from live_gateway.live.call_file import FRAME, HEADER, CallFile, header

SECOND = 16_000 * 2, 24_000 * 2

WRITER = """
import sys
from pathlib import Path
from live_gateway.live.call_file import CallFile
file = CallFile(Path(sys.argv[1]))
seconds = 0
while True:
    file.write(b"\\1\\1" * 16_000, b"\\2\\2" * 24_000)
    seconds += 1
    print(seconds, flush=True)
"""


def test_a_file_is_stereo_with_the_agents_samples_as_they_were(tmp_path: Path) -> None:
    tone = (10_000 * np.sin(np.arange(32_000) * 2 * np.pi * 1000 / 16_000)).astype("<i2")
    noise = np.random.default_rng(1).integers(-20_000, 20_000, 48_000).astype("<i2")
    file = CallFile(tmp_path / "call.wav")
    for part in range(8):
        file.write(tone[part * 4000 :][:4000].tobytes(), noise[part * 6000 :][:6000].tobytes())
    file.write(b"", b"", last=True)
    file.close()
    samples, hz = soundfile.read(tmp_path / "call.wav", dtype="int16")
    assert (hz, samples.shape) == (24_000, (48_000, 2))
    assert np.array_equal(samples[:, 1], noise)
    wanted = 10_000 * np.sin(np.arange(48_000) * 2 * np.pi * 1000 / 24_000)
    assert np.abs(samples[200:-200, 0] - wanted[200:-200]).max() < 20
    with wave.open(str(tmp_path / "call.wav")) as plain:
        assert (plain.getnchannels(), plain.getsampwidth(), plain.getnframes()) == (2, 2, 48_000)


@pytest.mark.skipif(os.name == "nt", reason="there are no such modes")
def test_only_the_owner_may_read_it_and_one_that_is_there_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "call.wav"
    CallFile(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    with pytest.raises(FileExistsError):
        CallFile(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("after", [1, 7, 40])
def test_a_process_that_is_killed_leaves_a_whole_file(tmp_path: Path, after: int) -> None:
    path = tmp_path / "call.wav"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        written = 0
        while written < after:
            written = int(writer.stdout.readline())
        writer.kill()
    samples, _ = soundfile.read(path, dtype="int16")
    assert len(samples) / 24_000 > written - 0.1
    assert (samples[:, 1] == 0x0202).all()
    assert (np.abs(samples[1000:, 0] - 0x0101) < 4).all()
    with wave.open(str(path)) as plain:
        assert plain.getnframes() == len(samples)


def test_a_file_grows_beyond_four_gib(tmp_path: Path) -> None:
    path, size = tmp_path / "call.wav", (2**32 // FRAME - 24_000) * FRAME
    file = CallFile(path)
    os.truncate(path, HEADER + size)  # a hole: as if twelve hours of silence had been written
    file._size = size
    file.write(b"\1\1" * 16_000 * 2, b"\2\2" * 24_000 * 2)
    file.write(b"", b"", last=True)
    file.close()
    about = soundfile.info(path)
    assert (about.format, about.frames, about.channels) == ("RF64", size // FRAME + 48_000, 2)
    samples, _ = soundfile.read(path, dtype="int16", start=size // FRAME)
    assert (samples[:, 1] == 0x0202).all()


def test_a_header_has_the_same_length_whatever_the_size() -> None:
    assert {len(header(size)) for size in (0, 4, 2**32 - 88, 2**32, 2**40)} == {HEADER}


def test_a_file_that_is_closed_during_a_write_is_closed_after_it(tmp_path: Path) -> None:
    file = CallFile(tmp_path / "call.wav")
    inside, go_on = threading.Event(), threading.Event()
    append = file._append

    def slowly(frames: bytes) -> None:
        inside.set()
        assert go_on.wait(5)
        append(frames)

    file._append = slowly  # type: ignore[method-assign]
    writer = threading.Thread(target=file.write, args=(bytes(SECOND[0]), bytes(SECOND[1])))
    writer.start()
    assert inside.wait(5)
    file.close()
    closed = [file._file.closed]
    go_on.set()
    writer.join(5)
    assert [*closed, file._file.closed] == [False, True]
    file.write(bytes(SECOND[0]), bytes(SECOND[1]))  # too late: nothing happens
    assert soundfile.info(tmp_path / "call.wav").frames > 20_000
