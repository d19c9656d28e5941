"""Hold a live conversation from a program: speak a recording to an agent, and keep its voice."""

import asyncio
import sys
import wave
from dataclasses import replace
from pathlib import Path

from rover import agent

from live_gateway import CascadeLiveModel, KeywordModel, LiveSession, Runner

CHUNK = 1280
"""40 ms of int16 samples at 16 kHz."""


async def speak(live: LiveSession, pcm: bytes) -> None:
    """Hand the recording over as a microphone would: in real time, since only 2 s may wait."""
    for start in range(0, len(pcm), CHUNK):
        live.push_audio(pcm[start : start + CHUNK])
        await asyncio.sleep(0.04)
    await live.end_audio()


async def main(recording: str, answer: str) -> None:
    with wave.open(recording) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16_000, 1, 2)
        pcm = file.readframes(file.getnframes())
    runner = Runner.in_memory("rover", replace(agent, live_model=CascadeLiveModel.local(KeywordModel())))
    voice = bytearray()
    async with runner.run_live(user_id="me", session_id="first") as live, asyncio.TaskGroup() as group:
        group.create_task(speak(live, pcm))
        async for event in live:
            if event.content is not None:
                voice += b"".join(part.inline_data.data or b"" for part in event.content.parts or () if part.inline_data)
            if event.transcription is not None and not event.partial:
                print(f"{event.author}: {event.transcription.text}")
            if event.turn_complete:
                break
    with wave.open(answer, "wb") as file:
        file.setframerate(24_000)
        file.setnchannels(1)
        file.setsampwidth(2)
        file.writeframes(voice)


if __name__ == "__main__":
    here = Path(__file__).parent
    asyncio.run(main(str(here / "question.wav"), sys.argv[1] if len(sys.argv) > 1 else "answer.wav"))
