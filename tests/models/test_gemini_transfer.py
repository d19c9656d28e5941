"""A live session on Gemini Live moves from one agent to another, over real sockets."""

from __future__ import annotations

from typing import Any

from google.genai.types import PrebuiltVoiceConfig, SpeechConfig, VoiceConfig

from live_gateway.agents.config import LiveRunConfig
from live_gateway.agents.llm import LlmAgent
from live_gateway.agents.sequential import SequentialAgent
from live_gateway.content import TASK_COMPLETED, TRANSFER_TO_AGENT, GenerateContentConfig
from live_gateway.testing.fake_gemini import FakeGemini
from live_gateway.testing.gemini_steps import Step, call, close, expect_content, expect_setup, handle, hear, ready, say, turn_complete
from tests.support.families import family
from tests.support.gemini import gemini_model
from tests.support.live import go_live, in_short, stored, until


def without_handle(setup: Any) -> bool:
    return not (setup.get("sessionResumption") or {}).get("handle")


# contract: LIVE-18, LIVE-21
# report: A16
# report: A54
# report: A58
async def test_the_next_agent_gets_a_connection_of_its_own_with_the_history_and_speaks() -> None:
    told: list[str] = []

    def history(value: Any) -> bool:
        told.extend(part["text"] for turn in value["turns"] for part in turn["parts"])
        return True

    parent = [handle("h1"), hear("my bill please"), call(TRANSFER_TO_AGENT, {"agent_name": "bills"}, id="t-1")]
    child: list[Step] = [expect_setup(without_handle), ready(), expect_content(history, turn_complete=True), say("You owe three.", ms=80)]
    async with FakeGemini(parent, child) as gemini:
        voice = SpeechConfig(voice_config=VoiceConfig(prebuilt_voice_config=PrebuiltVoiceConfig(voice_name="Kore")))
        bills = LlmAgent(
            name="bills", instruction="Count.", live_model=gemini_model(gemini), config=GenerateContentConfig(speech_config=voice)
        )
        root = LlmAgent(name="root", instruction="Greet.", live_model=gemini_model(gemini), sub_agents=[bills])
        runner = family(root)
        async with go_live(runner, config=LiveRunConfig()) as live:
            await until(live, lambda event: event.author == "bills" and event.turn_complete)
        first, second = gemini.setups
        parents, childs = gemini.connections
        kept = await stored(runner)
    assert first["systemInstruction"]["parts"][0]["text"].startswith("Greet.")
    assert second["systemInstruction"]["parts"][0]["text"].startswith("Count.")
    assert second["generationConfig"]["speechConfig"]["voiceConfig"]["prebuiltVoiceConfig"]["voiceName"] == "Kore"
    assert told[0] == "my bill please"
    assert any("transfer_to_agent" in words for words in told)
    assert parents.of_kind("tool_response") == childs.of_kind("tool_response") == []
    authors = [event.author for event in kept if "heard" not in event.custom_metadata]
    assert authors == ["user", "root", "root", "bills", "bills"]
    assert in_short([kept[3]]) == ['OUT "You owe three."']


# contract: LIVE-19, LIVE-21
async def test_the_next_agents_connection_heals_with_its_own_handle() -> None:
    parent = [handle("h1"), hear("bill"), call(TRANSFER_TO_AGENT, {"agent_name": "bills"}, id="t-1")]
    child: list[Step] = [expect_setup(without_handle), ready(), expect_content(), handle("h2"), say("One.", ms=40), close(1011)]
    again: list[Step] = [expect_setup(sessionResumption__handle="h2"), ready(), say("Two.", ms=40)]
    async with FakeGemini(parent, child, again) as gemini:
        bills = LlmAgent(name="bills", live_model=gemini_model(gemini))
        root = LlmAgent(name="root", live_model=gemini_model(gemini), sub_agents=[bills])
        async with go_live(family(root)) as live:
            for _ in range(2):
                await until(live, lambda event: event.turn_complete)


# case: K-LSEQ-01
async def test_a_sequence_over_real_sockets() -> None:
    first = [say("One.", ms=40, complete=False), call(TASK_COMPLETED, {}, id="d-1")]
    second: list[Step] = [expect_setup(without_handle), ready(), expect_content(turn_complete=True), say("Two.", ms=40), turn_complete()]
    async with FakeGemini(first, second) as gemini:
        agents = [LlmAgent(name=name, live_model=gemini_model(gemini)) for name in ("first", "second")]
        runner = family(SequentialAgent(name="steps", sub_agents=agents))
        async with go_live(runner) as live:
            await until(live, lambda event: event.turn_complete)
    words = [event.output_transcription.text for event in await stored(runner) if event.output_transcription]
    assert words == ["One.", "Two."]
