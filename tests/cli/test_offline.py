"""The whole path as a newcomer walks it: serve the demo agent, talk to it with the sample, restart, and everything is in the store."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr

from live_gateway.cli.main import main
from live_gateway.events import encode_event
from live_gateway.sessions import open_session_service
from live_gateway.voice.local import LocalVoice, available
from live_gateway.voice.numbers import spell_digits
from tests.support.serving import serving

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = [
    pytest.mark.voice,
    pytest.mark.slow,
    pytest.mark.skipif(not available().ok, reason=str(available())),
]


async def test_the_sample_question_is_understood_done_spoken_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, answer = f"sqlite:///{tmp_path / 'kept.sqlite3'}", tmp_path / "answer.wav"
    with serving("--store", store, directory=tmp_path) as (_, address):
        spoken = ["talk", str(EXAMPLES / "question.wav"), "--url", address, "--out", str(answer), "--json"]
        assert await asyncio.to_thread(main, spoken) == 0
    messages = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    result = messages[-1]
    assert spell_digits(result["question"]) == "go forward ten meters"
    (started,) = [message for message in messages if message["type"] == "tool.call" and message.get("pending")]
    assert (started["name"], started["args"]) == ("move", {"direction": "forward", "distance_m": 10})
    samples, hz = soundfile.read(answer)
    again = await LocalVoice.shared().get()
    heard = again.stt.transcribe((soxr.resample(samples, hz, 16_000) * 32_767).astype(np.int16).tobytes())
    assert "ten meters forward" in spell_digits(heard)
    await the_record_is_whole(store, result["session"])


async def the_record_is_whole(store: str, session_id: str) -> None:
    """Another process finds question, call, response and answer in this order, and no audio."""
    async with open_session_service(store) as service:
        session = await service.get(app_name="demo", user_id="user", session_id=session_id)
    kinds = [
        "call" if event.function_calls else "response" if event.function_responses else "heard" if event.input_transcription else "said"
        for event in session.events
        if event.content or event.transcription
    ]
    assert kinds == ["heard", "call", "response", "said"]
    assert [event.seq for event in session.events] == list(range(1, len(session.events) + 1))
    assert all(b"inlineData" not in encode_event(event) for event in session.events)


async def test_the_synthesised_question_is_answered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving("--store", "memory://", directory=tmp_path) as (_, address):
        assert await asyncio.to_thread(main, ["talk", str(EXAMPLES / "weather.wav"), "--url", address, "--json"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert spell_digits(result["question"]) == "what is the weather in hangzhou"
    assert "Hangzhou" in result["answer"]
