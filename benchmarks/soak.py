"""An hour of one call in virtual time: spoken turns with tool calls and interruptions; memory and tasks must stay where they were."""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from contextlib import AbstractAsyncContextManager

from benchmarks.table import show
from live_gateway.agents.llm import LlmAgent
from live_gateway.content import FunctionCall
from live_gateway.live.items import AudioChunk, Stored
from live_gateway.models.live import (
    GenerationComplete,
    Interrupted,
    LiveMessage,
    LiveSetup,
    SpeechEnded,
    SpeechStarted,
    ToolCalls,
    Transcript,
    TurnComplete,
)
from live_gateway.runner import Runner
from live_gateway.testing import VirtualTimeLoop
from live_gateway.testing.steps import voice

HOUR_S = 3_600
TURN_S = 10.0
SAMPLE_EVERY_S = 600


class TalkativeConnection(AbstractAsyncContextManager["TalkativeConnection"]):
    """A turn every ten seconds: the user speaks, a tool is called, the model answers; every fifth answer is interrupted."""

    def __init__(self) -> None:
        self._messages: list[LiveMessage] = []
        self._turn = 0

    async def __aexit__(self, *exc: object) -> None:
        return None

    async def receive(self) -> LiveMessage | None:
        if not self._messages:
            if self._turn * TURN_S >= HOUR_S:
                return None
            await asyncio.sleep(TURN_S)
            self._turn += 1
            self._messages = self._next_turn()
        return self._messages.pop(0)

    def _next_turn(self) -> list[LiveMessage]:
        call = FunctionCall(id=f"c{self._turn}", name="look", args={"number": self._turn})
        spoken: list[LiveMessage] = [SpeechStarted(), Transcript("user", f"question {self._turn}", finished=True), SpeechEnded(500)]
        answer: list[LiveMessage] = [Transcript("model", "an answer "), *(voice(100) for _ in range(20)), ToolCalls((call,))]
        if self._turn % 5 == 0:
            return [*spoken, *answer, Interrupted(), TurnComplete()]
        return [*spoken, *answer, Transcript("model", "with an end."), GenerationComplete(), TurnComplete()]

    async def send_audio(self, pcm: bytes) -> None: ...
    async def send_image(self, data: bytes, mime_type: str) -> None: ...
    async def send_content(self, content: object) -> None: ...
    async def send_activity(self, activity: object) -> None: ...
    async def end_audio(self) -> None: ...
    async def send_tool_responses(self, responses: object) -> None: ...
    async def interrupt(self) -> None: ...
    def set_playing(self, playing: bool) -> None: ...


class TalkativeModel:
    """See `TalkativeConnection`."""

    name = "talkative"

    def connect(self, setup: LiveSetup) -> AbstractAsyncContextManager[TalkativeConnection]:
        return TalkativeConnection()


def look(number: int) -> int:
    """Look a number up."""
    return number


def main() -> None:
    """Print memory and tasks every ten minutes of the call."""
    began = time.perf_counter()
    tracemalloc.start()
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as loop:
        rows, stored, audio_s = loop.run(_call())
    tracemalloc.stop()
    show(["minute", "memory, KB", "events kept by the store in memory", "tasks"], rows)
    grown = (float(rows[-1][1]) - float(rows[1][1])) / (int(rows[-1][2]) - int(rows[1][2]))
    print(f"  {grown:.1f} KB for each stored event and turn; nothing else grows when this is what an event takes")
    print(f"  {stored} events stored, {audio_s:.0f} s of audio, {time.perf_counter() - began:.1f} s of real time")


async def _call() -> tuple[list[list[str]], int, float]:
    runner = Runner.in_memory("soak", LlmAgent(name="soak", live_model=TalkativeModel(), tools=[look]))
    rows: list[list[str]] = []
    stored = samples = 0
    due = 0.0
    async with runner.run_live(user_id="u", session_id="s") as live:
        async for item in live.items():
            if isinstance(item, Stored):
                stored += 1
            elif isinstance(item, AudioChunk):
                samples += len(item.pcm) // 2
            if (now := asyncio.get_running_loop().time()) >= due:
                due = now + SAMPLE_EVERY_S
                rows.append([f"{now / 60:.0f}", f"{_memory_kb():.0f}", str(stored), str(len(asyncio.all_tasks()))])
    return rows, stored, samples / 24_000


def _memory_kb() -> float:
    gc.collect()
    return tracemalloc.get_traced_memory()[0] / 1024
