"""The page with the real gateway behind it: a scripted model, and the local voice."""

from __future__ import annotations

import base64
import statistics
from pathlib import Path

import numpy as np
import pytest

from live_gateway.agents.llm import LlmAgent
from live_gateway.cli.local_voice import with_live_models
from live_gateway.demo import agent as demo_agent
from live_gateway.models.live import AudioOut, GenerationComplete, Interrupted, Transcript, TurnComplete
from live_gateway.testing import ScriptedLiveModel, steps
from live_gateway.voice.local import available
from tests.support.chromium import Chromium
from tests.support.page_gateway import PageGateway
from tests.support.signals import Signal, from_pcm16, long_speech, pcm16, resample, snr_db, speech, write_microphone, write_wave

pytestmark = pytest.mark.browser
needs_voice = [pytest.mark.voice, pytest.mark.skipif(not available().ok, reason=str(available()))]

DOWN_HZ = 24_000
MIC_HZ = 48_000
NONE_INTERRUPTED = "probe.interruptedAt.length === 0"


def drained(response: int) -> str:
    return f"probe.sent.some(l => l.message.event === 'drained' && l.message.response === {response})"


async def played(browser: Chromium, response: int) -> int:
    """Samples of a response that the playback worklet says it played."""
    mark = await browser.page.evaluate(
        f"probe.sent.find(l => l.message.event === 'drained' && l.message.response === {response}).message.played"
    )
    return int(mark)


async def voice(browser: Chromium, response: int) -> Signal:
    """What the server sent of a response."""
    return from_pcm16(base64.b64decode(await browser.page.evaluate(f"probe.voice({response})")))


async def test_fifteen_seconds_in_one_burst_arrive_and_play(tmp_path: Path) -> None:
    answer = pcm16(long_speech(15, DOWN_HZ))
    burst = [AudioOut(answer[start : start + 9600]) for start in range(0, len(answer), 9600)]
    script: list[steps.Step] = [
        steps.expect_content("Tell me a story"),
        steps.emit(Transcript("model", "Once upon a time."), *burst, GenerationComplete(), TurnComplete()),
        steps.hang(),
    ]
    model = ScriptedLiveModel(script, allow={"audio", "end_audio"})
    async with PageGateway(LlmAgent(name="agent", live_model=model)) as gateway, Chromium(tmp_path) as browser:
        await browser.page.goto(gateway.url)
        await browser.page.fill("#message", "Tell me a story")
        await browser.page.keyboard.press("Enter")
        await browser.until(drained(1), 30)
        assert await played(browser, 1) == len(answer) // 2
        recording = await browser.recording()
        wanted = resample(from_pcm16(answer), DOWN_HZ, recording.hz)
        assert snr_db(wanted, recording.signal, recording.hz, (100, 7500)) >= 60
        await browser.until("probe.got.some(l => l.message.type === 'response.end' && l.message.status === 'completed')")
        assert await browser.text(".said.user p") == "Tell me a story"
        assert await browser.text(".said.model p") == "Once upon a time."
        await browser.assert_clean()


async def test_typing_over_an_answer_stops_it_and_what_was_not_heard_is_struck_through(tmp_path: Path) -> None:
    script: list[steps.Step] = [
        steps.expect_content("one"),
        steps.say("This is a long answer that nobody will hear to its end", ms=8000, complete=False),
        steps.expect_interrupt(),
        steps.emit(Interrupted()),
        steps.expect_content("two"),
        steps.say("Short.", ms=500),
        steps.hang(),
    ]
    model = ScriptedLiveModel(script, allow={"audio", "end_audio"})
    async with PageGateway(LlmAgent(name="agent", live_model=model)) as gateway, Chromium(tmp_path) as browser:
        await browser.page.goto(gateway.url)
        for text in ("one", "two"):
            await browser.page.fill("#message", text)
            await browser.page.keyboard.press("Enter")
            await browser.until("probe.sent.filter(l => l.message.event === 'pos').length > 5")
        await browser.until(drained(2))
        await browser.until("probe.got.some(l => l.message.revision === 2)")
        await browser.until("document.querySelector('.said.model s')?.textContent.endsWith('to its end')")
        heard = await browser.page.evaluate("probe.got.find(l => l.message.revision === 2).message.heard_chars")
        assert 0 < heard < len("This is a long answer that nobody will hear to its end")
        await browser.assert_clean()


class TestLocalVoice:
    """By voice alone: a person's recording goes in, and what comes out is heard."""

    pytestmark = needs_voice

    async def ask(self, browser: Chromium, url: str) -> None:
        await browser.page.goto(url)
        await browser.plain_microphone()
        await browser.page.click("#start")

    async def test_go_forward(self, tmp_path: Path) -> None:
        write_microphone(tmp_path / "microphone.wav", [2.0, "cmd_goforward", 20.0])
        agent = with_live_models(demo_agent, None)
        async with PageGateway(agent) as gateway, Chromium(tmp_path, tmp_path / "microphone.wav") as browser:
            await self.ask(browser, gateway.url)
            await browser.until(drained(1), 40)
            assert "forward" in (await browser.text(".said.user p")).lower()
            assert await browser.text(".call .name") == "move"
            assert (await browser.text(".call .status")).startswith("done")
            assert "forward" in await browser.text(".said.model p")
            sent = await voice(browser, 1)
            assert await played(browser, 1) == len(sent)
            recording = await browser.recording()
            assert snr_db(resample(sent, DOWN_HZ, recording.hz), recording.signal, recording.hz) >= 60
            assert await browser.page.evaluate(NONE_INTERRUPTED)
            await browser.until_state("Listening")
            assert (await browser.text("#timing-last")).endswith(" ms")
            await browser.assert_clean()

    async def test_speaking_over_an_answer_stops_it(self, tmp_path: Path) -> None:
        said: list[str | float] = ["cmd_goforward", 1.6, "librivox_0920", 2.0, "librivox_0880", 2.0, "librivox_0930", 2.0, "librivox_0880"]
        write_microphone(tmp_path / "microphone.wav", [2.0, *said, 20.0])
        agent = with_live_models(demo_agent, None)
        async with PageGateway(agent) as gateway, Chromium(tmp_path, tmp_path / "microphone.wav") as browser:
            await self.ask(browser, gateway.url)
            await browser.until("probe.interruptedAt.length === 4", 60)
            delays = await browser.page.evaluate(ONSETS_TO_INTERRUPTED)
            assert statistics.median(delays) <= 600, delays
            await browser.until("probe.sent.filter(l => l.message.event === 'flushed').length === 4")
            first = await browser.page.evaluate("probe.sent.find(l => l.message.event === 'flushed').message")
            assert 0 < first["heard"] < len(await voice(browser, first["response"]))
            await browser.until("document.querySelectorAll('.said.model .tag').length === 4")
            await browser.assert_clean()

    async def test_push_to_talk(self, tmp_path: Path) -> None:
        write_microphone(tmp_path / "microphone.wav", [5.0, "cmd_goforward", 20.0])
        agent = with_live_models(demo_agent, None)
        async with PageGateway(agent) as gateway, Chromium(tmp_path, tmp_path / "microphone.wav") as browser:
            await self.ask(browser, gateway.url)
            await browser.until_state("Listening", 40)
            await browser.page.check("input[value=ptt]")
            await browser.until_state("Hold the button to talk")
            await browser.page.focus("#push")
            await browser.page.keyboard.down("Enter")
            await browser.until("probe.spoken.filter(f => f.rms > 0.02).length > 20")
            await browser.until("probe.spoken.slice(-10).every(f => f.rms < 0.01)")
            await browser.page.keyboard.up("Enter")
            await browser.until(drained(1), 30)
            assert "forward" in (await browser.text(".said.user p")).lower()
            assert await browser.page.locator(".note[data-level=error], .note[data-level=warning]").count() == 0
            await browser.assert_clean()

    async def test_the_answer_in_the_microphone_does_not_stop_it(self, tmp_path: Path) -> None:
        write_microphone(tmp_path / "first.wav", [2.0, "cmd_goforward", 20.0])
        agent = with_live_models(demo_agent, None)
        (tmp_path / "a").mkdir()
        async with PageGateway(agent) as gateway:
            async with Chromium(tmp_path / "a", tmp_path / "first.wav") as browser:
                await self.ask(browser, gateway.url)
                await browser.until(drained(1), 40)
                answer = await voice(browser, 1)
            question = np.concatenate([np.zeros(2 * MIC_HZ), speech("cmd_goforward", MIC_HZ)])
            echo = 0.3 * resample(answer, DOWN_HZ, MIC_HZ)
            signal = np.concatenate([question, np.zeros(round(0.9 * MIC_HZ)), echo, np.zeros(20 * MIC_HZ)])
            write_wave(tmp_path / "second.wav", signal, MIC_HZ)
            async with Chromium(tmp_path, tmp_path / "second.wav") as browser:
                await self.ask(browser, gateway.url)
                await browser.until(drained(1), 40)
                assert await browser.page.evaluate(ECHO_OVERLAP) > 1000
                assert await browser.page.evaluate(NONE_INTERRUPTED)
                assert await played(browser, 1) == len(answer)


ONSETS_TO_INTERRUPTED = """(() => {
  const epoch = performance.timeOrigin;
  return probe.got.filter(l => l.message.type === 'interrupted').map(({at, message: {response}}) => {
    const playing = epoch + probe.sent.find(l => l.message.event === 'start' && l.message.response === response).at;
    const onset = probe.spoken.find(f => f.t > playing && f.rms > 0.02);
    return epoch + at - (onset.t - 40);
  });
})()"""
"""For each interruption: milliseconds from the first loud sample over the answer until the page was told."""

ECHO_OVERLAP = """(() => {
  const epoch = performance.timeOrigin;
  const mark = event => epoch + probe.sent.find(l => l.message.event === event).at;
  return 40 * probe.spoken.filter(f => f.t > mark('start') && f.t < mark('drained') && f.rms > 0.005).length;
})()"""
"""Milliseconds of echo that the microphone heard while the answer played."""
