"""The embedded voice at the pace of speech: latency of a turn, CPU of an open microphone, memory. Needs the extra `voice`.

    python benchmarks/voice_turns.py [turns] [clip.wav]

A turn is fed in 40 ms frames of real time. Its latency runs from the last voiced frame to the first audio of the answer, less the silence
that ends speech (500 ms). CPU is the whole process, in percent of one core.
"""

from __future__ import annotations

import asyncio
import resource
import statistics
import sys
import time
import wave
from pathlib import Path

from live_gateway.content import FunctionDeclaration, FunctionResponse
from live_gateway.models.cascade import CascadeLiveModel
from live_gateway.models.keyword import KeywordModel
from live_gateway.models.live import AudioOut, LiveConnection, LiveSetup, SpeechEnded, ToolCalls, TurnComplete, VoiceActivityConfig

FRAME_S = 0.04
FRAME_BYTES = 1_280
CLIP = Path(__file__).parent.parent / "tests" / "fixtures" / "speech" / "cmd_goforward.wav"
MOVE = FunctionDeclaration(
    name="move",
    description="Move the robot.",
    parameters_json_schema={
        "type": "object",
        "properties": {"direction": {"type": "string", "enum": ["forward", "backward"]}, "distance_m": {"type": "number"}},
        "required": ["direction", "distance_m"],
    },
)


async def at_speed(connection: LiveConnection, pcm: bytes) -> None:
    """Send audio as a microphone does."""
    began = time.perf_counter()
    for number, start in enumerate(range(0, len(pcm), FRAME_BYTES), 1):
        await asyncio.sleep(began + number * FRAME_S - time.perf_counter())
        await connection.send_audio(pcm[start : start + FRAME_BYTES])


async def one_turn(connection: LiveConnection, question: bytes) -> float:
    """Milliseconds from the end of speech to the first audio, beyond the silence that was waited for."""
    ended_at = first_audio_at = 0.0
    async with asyncio.TaskGroup() as group:
        feeding = group.create_task(at_speed(connection, question))
        while not isinstance(message := await connection.receive(), TurnComplete):
            if isinstance(message, SpeechEnded):
                ended_at = time.perf_counter() - (message.silence_ms - VoiceActivityConfig().silence_duration_ms) / 1000
            elif isinstance(message, ToolCalls):
                answers = [FunctionResponse(id=c.id, name=c.name, response={"summary": "Moved ten meters forward."}) for c in message.calls]
                await connection.send_tool_responses(answers)
            elif isinstance(message, AudioOut) and not first_audio_at:
                first_audio_at = time.perf_counter()
            elif message is None:
                raise RuntimeError("the connection ended")
        feeding.cancel()
    return (first_audio_at - ended_at) * 1000


async def loop_lags(lags: list[float]) -> None:
    """How much later than asked the loop wakes a sleeper, in milliseconds."""
    while True:
        began = time.perf_counter()
        await asyncio.sleep(0.005)
        lags.append((time.perf_counter() - began - 0.005) * 1000)


def resident_mb() -> float:
    """Memory in use now, or its peak where the system does not tell."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def centile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


async def main(turns: int, clip: Path) -> None:
    with wave.open(str(clip)) as file:
        question = bytes(16_000) + file.readframes(file.getnframes()) + bytes(64_000)
    before = resident_mb()
    began, cpu = time.perf_counter(), time.process_time()
    model = CascadeLiveModel.local(KeywordModel())
    async with model.connect(LiveSetup(tools=(MOVE,))) as connection:
        print(
            f"load: {time.perf_counter() - began:.2f} s wall, {time.process_time() - cpu:.2f} s CPU, {before:.0f} -> {resident_mb():.0f} MB"
        )
        began, cpu = time.perf_counter(), time.process_time()
        await at_speed(connection, bytes(32_000 * 10))
        print(f"open microphone in silence: {100 * (time.process_time() - cpu) / (time.perf_counter() - began):.2f} % of a core")
        lags: list[float] = []
        began, cpu = time.perf_counter(), time.process_time()
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(loop_lags(lags))
            latencies = [await one_turn(connection, question) for _ in range(turns)]
            watch.cancel()
        print(f"{turns} turns: median {statistics.median(latencies):.0f} ms, p95 {centile(latencies, 0.95):.0f} ms beyond the silence")
        print(f"while talking: {100 * (time.process_time() - cpu) / (time.perf_counter() - began):.1f} % of a core")
        print(f"loop lag: median {statistics.median(lags):.2f} ms, p99 {centile(lags, 0.99):.1f} ms; memory {resident_mb():.0f} MB")
    model.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, Path(sys.argv[2]) if len(sys.argv) > 2 else CLIP))
