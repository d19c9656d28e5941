"""The page's sound, in a real browser: every sample is captured, sent, received and played."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.support.chromium import Chromium
from tests.support.page_server import Connection, PageServer
from tests.support.signals import from_pcm16, long_speech, pcm16, resample, snr_db, write_microphone

pytestmark = pytest.mark.browser

UP_HZ = 16_000
DOWN_HZ = 24_000
DISCONTINUITY = 1
START = 4


async def drained(connection: Connection, count: int, seconds: float) -> None:
    await connection.until(lambda: len(connection.marks("drained")) >= count, seconds)


async def started(browser: Chromium, server: PageServer) -> Connection:
    """The page with a call that has begun, without a microphone: it begins with a typed message."""
    await browser.page.goto(server.url)
    await browser.page.fill("#message", "hello")
    await browser.page.keyboard.press("Enter")
    return await server.connection()


async def test_fifteen_seconds_in_one_burst_are_played_to_the_last_sample(tmp_path: Path) -> None:
    answer = long_speech(15, DOWN_HZ)
    async with PageServer() as server, Chromium(tmp_path) as browser:
        connection = await started(browser, server)
        await connection.say(1, pcm16(answer))
        await drained(connection, 1, 25)
        (mark,) = connection.marks("drained")
        recording = await browser.recording()
        assert await browser.page.evaluate("probe.samples[1]") == len(answer)
        assert mark["played"] == mark["heard"] == len(answer)
        assert mark["underruns"] == 0
        assert snr_db(resample(answer, DOWN_HZ, recording.hz), recording.signal, recording.hz, (100, 7500)) >= 60
        await browser.assert_clean()
        assert server.reports == []


async def test_interrupted_is_silent_within_a_tenth_of_a_second_and_stays_so(tmp_path: Path) -> None:
    answer = pcm16(0.3 * np.random.default_rng(1).standard_normal(DOWN_HZ * 5))
    async with PageServer() as server, Chromium(tmp_path) as browser:
        connection = await started(browser, server)
        for response in (1, 2, 3):
            await connection.say(response, answer)
            await browser.until(f"probe.sent.filter(l => l.message.response === {response} && l.message.event === 'pos').length > 3")
            await connection.send("interrupted", response=response, reason="speech")
            await connection.send_audio(response, len(answer) // 2, answer[:1920])  # late: it belongs to what was stopped
            await browser.until(f"probe.sent.some(l => l.message.response === {response} && l.message.event === 'flushed')")
            await asyncio.sleep(0.5)  # a stretch in which anything that still sounds would be heard
        recording = await browser.recording()
        times = await browser.page.evaluate("probe.interruptedAt")
        for at in times:
            begin = round(at * recording.hz) - recording.first
            stretch = recording.signal[begin : begin + round(0.5 * recording.hz)]
            last = np.flatnonzero(stretch)[-1] if stretch.any() else 0
            assert last / recording.hz <= 0.1
        assert len(times) == 3
        for mark in connection.marks("flushed"):
            assert 0 < mark["heard"] <= mark["played"] < len(answer) // 2
            assert mark["queued"] == 0


async def test_what_comes_after_an_interruption_is_played_whole(tmp_path: Path) -> None:
    answer = long_speech(3, DOWN_HZ)
    async with PageServer() as server, Chromium(tmp_path) as browser:
        connection = await started(browser, server)
        await connection.say(1, pcm16(long_speech(5, DOWN_HZ)))
        await browser.until("probe.sent.some(l => l.message.event === 'pos')")
        await connection.send("interrupted", response=1, reason="typed")
        await connection.say(2, pcm16(answer))
        await drained(connection, 1, 10)
        assert connection.marks("drained")[0]["played"] == len(answer)
        recording = await browser.recording()
        tail = recording.signal[-round(4 * recording.hz) :]
        assert snr_db(resample(answer, DOWN_HZ, recording.hz), tail, recording.hz, (100, 7500)) >= 60


async def test_the_server_hears_what_the_microphone_heard(tmp_path: Path) -> None:
    spoken = write_microphone(tmp_path / "microphone.wav", [2.0, "librivox_0920", 1.0])
    async with PageServer() as server, Chromium(tmp_path, tmp_path / "microphone.wav") as browser:
        await browser.page.goto(server.url)
        await browser.plain_microphone()
        await browser.page.click("#start")
        connection = await server.connection()
        await connection.until_heard(9)
        heard = from_pcm16(b"".join(frame.pcm for frame in connection.frames))
        assert snr_db(resample(spoken, 48_000, UP_HZ), heard, UP_HZ) >= 50
        await browser.assert_clean()


@pytest.mark.parametrize("seconds", [10, pytest.param(60, marks=pytest.mark.slow)])
async def test_no_frame_is_lost(tmp_path: Path, seconds: int) -> None:
    write_microphone(tmp_path / "microphone.wav", [1.0, "librivox_0920"])
    async with PageServer() as server, Chromium(tmp_path, tmp_path / "microphone.wav") as browser:
        await browser.page.goto(server.url)
        await browser.page.click("#start")
        connection = await server.connection()
        await connection.until_heard(seconds)
        frames = list(connection.frames)
        assert [frame.frame_no for frame in frames] == list(range(len(frames)))
        assert all(later.pos == earlier.pos + 640 for earlier, later in pairwise(frames))
        assert {len(frame.pcm) for frame in frames} == {1280}
        assert frames[0].flags & START
        assert not any(frame.flags & DISCONTINUITY for frame in frames)
        assert await browser.text("#timing-dropped") == "0 ms"
