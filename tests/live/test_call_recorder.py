"""A whole call, recorded."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr

from live_gateway.agents.config import LiveRunConfig
from live_gateway.agents.llm import LlmAgent
from live_gateway.clock import Clock
from live_gateway.errors import StorageError, UpstreamLost
from live_gateway.live.call_file import CallFile
from live_gateway.live.call_recorder import TICK_S, CallRecorder, file_name, open_recorder
from live_gateway.live.items import AudioChunk, LiveItem, Notice, PlaybackMark
from live_gateway.live.session import LiveSession
from live_gateway.models.live import AudioOut, GenerationComplete, Interrupted, TurnComplete
from live_gateway.testing.scripted_live import ScriptedLiveModel
from live_gateway.testing.steps import Step, emit, end, fail, wait
from live_gateway.testing.virtual_time import VirtualClock, VirtualTimeLoop
from tests.support.invocations import make_invocation
from tests.support.live import go_live, live_runner
from tests.support.speech_clips import clip

Samples = np.ndarray[Any, np.dtype[np.int16]]


def noise(seed: int, samples: int) -> bytes:
    return np.random.default_rng(seed).integers(-8000, 8000, samples).astype("<i2").tobytes()


def virtually(main: Callable[[], Any]) -> Any:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main())


def recording(directory: Path) -> Samples:
    """The only recording there is."""
    (path,) = directory.iterdir()
    samples, hz = soundfile.read(path, dtype="int16")
    assert hz == 24_000
    assert samples.shape[1] == 2
    return samples  # type: ignore[no-any-return]


def live_on(model: ScriptedLiveModel, directory: Path | None, **config: Any) -> LiveSession:
    return go_live(live_runner(model), config=LiveRunConfig(record_to=directory, **config))


async def shown(live: LiveSession) -> list[LiveItem]:
    return [item async for item in live.items()]


def at(seconds: float) -> int:
    return round(seconds * 24_000)


def test_both_sides_stand_where_they_were(tmp_path: Path) -> None:
    question = clip("cmd_goforward").pcm
    answer = to_24_khz(clip("librivox_0880").pcm)
    asked_s, answered_s = len(question) / 32_000, len(answer) / 48_000
    speak, hang_up = asyncio.Event(), asyncio.Event()
    spoken = [AudioOut(answer[place : place + 9600]) for place in range(0, len(answer), 9600)]
    script: list[Step] = [wait(speak), emit(*spoken, GenerationComplete(), TurnComplete()), wait(hang_up), end()]

    async def main() -> None:
        with ScriptedLiveModel(script, allow=["audio"]) as model:
            async with live_on(model, tmp_path) as live:
                await asyncio.sleep(1)
                for place in range(0, len(question), 640):
                    frame = question[place : place + 640]
                    await asyncio.sleep(len(frame) / 32_000)
                    live.push_audio(frame)
                await asyncio.sleep(0.5)
                speak.set()  # all of the answer comes at once
                await asyncio.sleep(answered_s + 2)
                hang_up.set()
                await shown(live)

    virtually(main)
    samples = recording(tmp_path)
    assert len(samples) == pytest.approx(at(1 + asked_s + 0.5 + answered_s + 2), abs=at(0.01))
    left = np.zeros(len(samples) * 2 // 3, np.int16)
    left[16_000 : 16_000 + len(question) // 2] = np.frombuffer(question, "<i2")
    assert np.abs(soxr.resample(left, 16_000, 24_000)[: len(samples)].astype(int) - samples[:, 0]).max() <= 2
    begins = at(1 + asked_s + 0.5)
    right = np.zeros(len(samples), np.int16)
    right[begins : begins + len(answer) // 2] = np.frombuffer(answer, "<i2")
    assert np.array_equal(samples[:, 1], right)


def to_24_khz(pcm: bytes) -> bytes:
    return np.asarray(soxr.resample(np.frombuffer(pcm, "<i2"), 16_000, 24_000)).tobytes()


@pytest.mark.parametrize("marks", [False, True])
def test_of_an_interrupted_answer_what_was_heard_is_there(tmp_path: Path, marks: bool) -> None:
    answer, next_answer = noise(2, 10 * 24_000), noise(3, 12_000)
    stop, hang_up = asyncio.Event(), asyncio.Event()
    script: list[Step] = [
        emit(AudioOut(answer), GenerationComplete()),
        wait(stop),
        emit(Interrupted(), TurnComplete()),
        emit(AudioOut(next_answer), GenerationComplete(), TurnComplete()),
        wait(hang_up),
        end(),
    ]

    async def main() -> None:
        with ScriptedLiveModel(script, allow=["audio", "interrupt"]) as model:
            async with live_on(model, tmp_path, playback_marks=marks) as live:
                if marks:
                    await asyncio.sleep(0.3)
                    live.playback(PlaybackMark("start", 1))
                await asyncio.sleep(2)
                stop.set()
                if marks:
                    await asyncio.sleep(0.1)
                    live.playback(PlaybackMark("flushed", 1, at(2), at(2)))
                await asyncio.sleep(3)
                hang_up.set()
                await shown(live)

    virtually(main)
    right = recording(tmp_path)[:, 1]
    began = at(0.3) if marks else 0
    assert right[began : began + at(2)].tobytes() == answer[: at(2) * 2]
    (again,) = np.flatnonzero(right[began + at(2) :])[:1] + began + at(2)
    assert right[again : again + 12_000].tobytes() == next_answer
    assert again == pytest.approx(at(2.3 if marks else 2), abs=at(0.05))
    assert not right[again + 12_000 :].any()


# report: C14
def test_off_keeps_no_bytes_and_makes_no_file(tmp_path: Path) -> None:
    hold = asyncio.Event()

    async def main() -> None:
        with ScriptedLiveModel([wait(hold), end()], allow=["audio"]) as model:
            async with live_on(model, None) as live:
                frame = bytes(640)
                tracemalloc.start()
                before, _ = tracemalloc.get_traced_memory()
                for _ in range(90_000):  # half an hour
                    live.push_audio(frame[:320] + frame[320:])
                after, _ = tracemalloc.get_traced_memory()
                tracemalloc.stop()
                assert after - before < 2**20
                hold.set()
                await shown(live)

    virtually(main)
    assert list(tmp_path.iterdir()) == []


class Counting(CallFile):
    """Counts instead of writing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.left = self.right = self.largest = 0

    def write(self, left: bytes, right: bytes, *, last: bool = False) -> None:
        assert not (last and (left or right))
        self.left += len(left)
        self.right += len(right)
        self.largest = max(self.largest, len(left) + len(right))

    def close(self) -> None:
        """There is nothing to close."""


def test_an_hour_takes_no_more_memory_than_a_minute(tmp_path: Path) -> None:
    file = Counting(tmp_path / "call.wav")

    async def main() -> None:
        notices: list[Notice] = []
        recorder = CallRecorder(file, VirtualClock(), notices.append)
        recorder.begin()
        async with asyncio.TaskGroup() as group:
            group.create_task(recorder.run())
            sizes = []
            tracemalloc.start()
            for second in range(3600):
                for _ in range(10):
                    await asyncio.sleep(0.1)
                    recorder.heard(bytes(3200))
                if second % 10 == 0:  # an answer of five seconds, in one burst
                    recorder.shown(AudioChunk(second // 10 + 1, 0, bytes(5 * 48_000)))
                if second % 60 == 59:
                    sizes.append(tracemalloc.get_traced_memory()[0])
            tracemalloc.stop()
            recorder.finish()
        assert notices == []
        assert max(sizes) < sizes[0] + 2**20

    virtually(main)
    assert (file.left, file.right) == (3600 * 32_000, 3600 * 48_000)
    assert file.largest < 2 * 80_000


class Full(CallFile):
    """A disk that is full after the header."""

    def _append(self, frames: bytes) -> None:
        raise OSError(28, "No space left on device")


async def notices_of(file: CallFile, clock: Clock, seconds: float) -> list[Notice]:
    """What a recorder tells that is fed for so long."""
    notices: list[Notice] = []
    recorder = CallRecorder(file, clock, notices.append)
    recorder.begin()
    async with asyncio.TaskGroup() as group:
        group.create_task(recorder.run())
        for _ in range(round(seconds)):
            await asyncio.sleep(1)
            recorder.heard(bytes(32_000))
        recorder.finish()
    assert recorder._tracks is None
    return notices


def test_a_disk_that_fails_later_is_told_once_and_ends_the_recording_only(tmp_path: Path) -> None:
    async def main() -> list[Notice]:
        return await notices_of(Full(tmp_path / "call.wav"), VirtualClock(), 5)

    assert virtually(main) == [Notice("warning", "recording_stopped")]
    assert soundfile.info(tmp_path / "call.wav").frames == 0


class Hanging(Counting):
    """A disk that hangs for a long while at the first write."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.go_on = threading.Event()
        self.reached = threading.Event()

    def write(self, left: bytes, right: bytes, *, last: bool = False) -> None:
        self.reached.set()
        assert self.go_on.wait(5)
        super().write(left, right, last=last)


class SetClock(VirtualClock):
    """A clock that is set by hand."""

    seconds = 0.0

    def now(self) -> float:
        return self.seconds


async def test_a_disk_that_is_too_slow_costs_sound_that_is_counted_and_told_once(tmp_path: Path) -> None:
    file, clock, notices = Hanging(tmp_path / "call.wav"), SetClock(), list[Notice]()
    recorder = CallRecorder(file, clock, notices.append)
    recorder.begin()
    async with asyncio.TaskGroup() as group:
        group.create_task(recorder.run())
        clock.seconds = 2.0
        recorder.heard(bytes(32_000))
        assert await asyncio.to_thread(file.reached.wait, 5)
        for second in range(400):
            clock.seconds = second + 3.0
            recorder.heard(bytes(32_000))
        assert recorder._tracks is not None
        kept = recorder._tracks.user.kept
        file.go_on.set()
        recorder.finish()
    assert kept <= 300 * 32_000
    assert notices == [Notice("warning", "recording_gap")]
    assert file.left == 402 * 32_000  # silence stands in its place


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="nothing is forbidden to an administrator")
def test_a_directory_that_cannot_be_written_refuses_the_call(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        refused(tmp_path, "Permission denied")
    finally:
        tmp_path.chmod(0o700)


def test_a_directory_that_is_not_there_refuses_the_call(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "No such file or directory")
    (tmp_path / "file").write_bytes(b"")
    refused(tmp_path / "file", "Not a directory")


def refused(directory: Path, why: str) -> None:
    model = ScriptedLiveModel([end()])

    async def main() -> None:
        with pytest.raises(StorageError, match=f"the call cannot be recorded: {why}") as caught:
            async with live_on(model, directory):
                pass
        assert str(directory) not in str(caught.value)

    virtually(main)
    assert model.setups == []


@pytest.mark.parametrize("patience", [0.05, 5.0])
async def test_a_file_that_nobody_waits_for_any_more_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience: float) -> None:
    """The disk takes longer than opening may, or the caller has left."""
    go_on, gone = threading.Event(), asyncio.Event()

    def slowly(path: Path) -> CallFile:
        assert go_on.wait(5)
        file = CallFile(path)
        monkeypatch.setattr(file, "discard", lambda: discard(file))
        return file

    def discard(file: CallFile) -> None:
        CallFile.discard(file)
        gone.set()

    monkeypatch.setattr("live_gateway.live.call_recorder.CallFile", slowly)
    monkeypatch.setattr("live_gateway.live.call_recorder.OPEN_S", patience)
    with pytest.raises(StorageError if patience < 1 else TimeoutError):
        async with asyncio.timeout(0.3):
            await open_recorder(tmp_path, make_invocation(LlmAgent(name="agent")), VirtualClock(), lambda notice: None)
    go_on.set()
    async with asyncio.timeout(5):
        await gone.wait()
    assert list(tmp_path.iterdir()) == []


CALLER = """
import asyncio, sys, time
from pathlib import Path
from live_gateway.clock import LoopClock
from live_gateway.live.call_file import CallFile
from live_gateway.live.call_recorder import CallRecorder
from live_gateway.live.items import AudioChunk

async def main():
    recorder = CallRecorder(CallFile(Path(sys.argv[1])), LoopClock(), print)
    recorder.begin()
    async with asyncio.TaskGroup() as group:
        group.create_task(recorder.run())
        began = time.monotonic()
        recorder.shown(AudioChunk(1, 0, b"\\2\\2" * 24_000 * 60))
        while True:
            await asyncio.sleep(0.02)
            recorder.heard(b"\\1\\1" * 320)
            print(time.monotonic() - began, flush=True)

asyncio.run(main())
"""


def test_a_process_that_is_killed_in_a_call_leaves_all_but_the_last_moment(tmp_path: Path) -> None:
    path, since = tmp_path / "call.wav", 0.0
    with subprocess.Popen([sys.executable, "-c", CALLER, str(path)], stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdout is not None
        while since < 3:
            since = float(caller.stdout.readline())
        caller.kill()
    samples, _ = soundfile.read(path, dtype="int16")
    assert since - 2 < len(samples) / 24_000 <= since + 1
    assert (samples[at(0.1) :, 1] == 0x0202).all()
    assert np.abs(samples[at(0.5) :, 0]).min() > 100


def test_a_model_that_cannot_be_reached_leaves_no_file(tmp_path: Path) -> None:
    class Unreachable(ScriptedLiveModel):
        """Refuses to connect."""

        def connect(self, setup: Any) -> Any:
            raise UpstreamLost("nobody there")

    async def main() -> None:
        with pytest.raises(UpstreamLost):
            async with live_on(Unreachable(), tmp_path):
                pass

    virtually(main)
    assert list(tmp_path.iterdir()) == []


def test_a_call_that_ends_in_a_failure_is_recorded_to_its_end(tmp_path: Path) -> None:
    async def main() -> None:
        go = asyncio.Event()
        script: list[Step] = [wait(go), fail(UpstreamLost("gone"))]
        with ScriptedLiveModel(script, allow=["audio"]) as model:
            async with live_on(model, tmp_path) as live:
                await asyncio.sleep(1)
                live.push_audio(noise(1, 16_000))
                go.set()
                await shown(live)

    virtually(main)
    samples = recording(tmp_path)
    assert len(samples) == at(1)
    assert np.abs(samples[:, 0]).mean() > 1000


def test_a_file_name_holds_nothing_that_leads_elsewhere() -> None:
    name = file_name("../../etc/passwd\0 \N{SNOWMAN}" + "x" * 300, "e-1")
    assert re.fullmatch(r"[A-Za-z0-9_-]+\.wav", name)
    assert len(name) < 255
    assert name.endswith("_e-1.wav")
    assert TICK_S < 0.5
