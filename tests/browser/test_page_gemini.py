"""The page on Gemini Live: a real browser, the real gateway, and a scripted service at the other end of a real socket."""

from __future__ import annotations

from pathlib import Path

import pytest

from live_gateway.agents.llm import LlmAgent
from live_gateway.demo import move
from live_gateway.testing import FakeGemini
from live_gateway.testing.gemini_steps import (
    Step,
    call,
    expect_setup,
    expect_tool_response,
    expect_utterance,
    go_away,
    handle,
    hear,
    ready,
    say,
    say_until_interrupted,
)
from tests.support.chromium import Chromium
from tests.support.gemini import gemini_model
from tests.support.page_gateway import PageGateway
from tests.support.signals import write_microphone

pytestmark = pytest.mark.browser

LONG_ANSWER = "I could go on like this for a very long time and nobody would hear the end of it"
FIRST: list[Step] = [
    handle("h-1"),
    expect_utterance(),
    hear("go forward ten meters"),
    call("move", {"direction": "forward", "distance_m": 10}),
    expect_tool_response("fc-1"),
    say("I went forward.", ms=1200),
    handle("h-2"),
    expect_utterance(),
    hear("tell me a story"),
    say_until_interrupted(LONG_ANSWER, ms=10_000),
    expect_utterance(),
    hear("stop it"),
    say("I have stopped.", ms=800),
    handle("h-3"),
    go_away(60),
]
SECOND: list[Step] = [
    expect_setup(sessionResumption__handle="h-3"),
    ready(),
    expect_utterance(),
    hear("are you still there"),
    say("Still here.", ms=800),
]


def over(response: int, event: str) -> str:
    return f"probe.sent.some(l => l.message.event === '{event}' && l.message.response === {response})"


# contract: LIVE-17, LIVE-19
async def test_speech_a_tool_an_interruption_and_a_rotation_in_one_conversation(tmp_path: Path) -> None:
    write_microphone(
        tmp_path / "microphone.wav", [2.0, "cmd_goforward", 4.0, "cmd_goforward", 2.5, "librivox_0880", 5.0, "cmd_goforward", 20.0]
    )
    async with FakeGemini(FIRST, SECOND, allow={"audio"}) as gemini:
        agent = LlmAgent(name="rover", live_model=gemini_model(gemini), tools=[move])
        async with PageGateway(agent) as gateway, Chromium(tmp_path, tmp_path / "microphone.wav") as browser:
            await browser.page.goto(gateway.url)
            await browser.plain_microphone()
            await browser.page.click("#start")
            await browser.until(over(1, "drained"), 30)
            assert await browser.text(".call .name") == "move"
            assert (await browser.text(".call .status")).startswith("done")
            await browser.until(over(2, "flushed"), 30)
            await browser.until(over(3, "drained"), 30)
            await gemini.until(lambda: len(gemini.connections) == 2 and gemini.connections[0].closed, 10)
            await browser.until(over(4, "drained"), 30)
            await browser.until_state("Listening")
            said = await browser.page.evaluate("[...document.querySelectorAll('.said p')].map(p => p.textContent)")
            assert said[:2] == ["go forward ten meters", "I went forward."]
            assert said[3].startswith("I could go on")
            assert [said[2], *said[4:]] == ["tell me a story", "stop it", "I have stopped.", "are you still there", "Still here."]
            heard = await browser.page.evaluate("probe.got.find(l => l.message.revision === 2).message.heard_chars")
            assert 0 < heard < len(LONG_ANSWER)
            welcomes = await browser.page.evaluate("probe.got.filter(l => l.message.type === 'welcome').length")
            problems = await browser.page.locator(".note[data-level=error], .note[data-level=warning]").count()
            assert (welcomes, problems) == (1, 0)
            assert await browser.page.evaluate("probe.interruptedAt.length") == 1
            await browser.assert_clean()
