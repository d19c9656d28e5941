"""`live-gateway talk` against a real server on this machine, with a scripted model."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import numpy as np
import pytest
import soundfile
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from live_gateway.agents.llm import LlmAgent
from live_gateway.cli.main import main
from live_gateway.errors import UpstreamPolicy
from live_gateway.runner import Runner
from live_gateway.server.app import create_app
from live_gateway.testing import ScriptedLiveModel, steps
from tests.support.running_server import BareServer, RunningServer


async def double(number: int) -> dict[str, int]:
    """Double a number."""
    return {"doubled": 2 * number}


def gateway(model: ScriptedLiveModel) -> Starlette:
    return create_app(Runner.in_memory("app", LlmAgent(name="guide", live_model=model, tools=[double])))


async def talk(server: RunningServer, *arguments: str) -> int:
    return await asyncio.to_thread(main, ["talk", *arguments, "--url", server.url])


@pytest.fixture
def clip(tmp_path: Path) -> str:
    """0.2 s in stereo at 44.1 kHz."""
    soundfile.write(tmp_path / "clip.wav", 0.1 * np.ones((8_820, 2)), 44_100)
    return str(tmp_path / "clip.wav")


async def test_a_recording_is_heard_answered_and_written(clip: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script: list[steps.Step] = [
        steps.expect_audio(ms=200),
        steps.hear("double two"),
        steps.call("double", {"number": 2}),
        steps.expect_tool_responses("fc-1"),
        steps.say("Four.", ms=300),
        steps.hang(),
    ]
    answer = tmp_path / "answer.wav"
    with ScriptedLiveModel(script, allow=["audio"]) as model:
        async with RunningServer(gateway(model)) as server:
            assert await talk(server, clip, "--out", str(answer)) == 0
        heard = model.connection.audio
    lines = capsys.readouterr().out.splitlines()
    told = [re.sub(r"\d+ ms", "n ms", line) for line in lines]
    assert told[0].startswith("connected  session ")
    assert told[1:] == [
        "you        double two",
        "tool       double(number=2)",
        'tool       double done in n ms: {"doubled": 4}',
        "guide      Four.",
        "heard      0.3 s of answer, beginning n ms after the question",
        f"written    {answer}",
    ]
    assert soundfile.info(answer).frames == 7_200
    samples = np.frombuffer(heard, "<i2")
    assert np.all(np.abs(samples[500:2_700] - 3_277) <= 40)
    assert not np.any(samples[3_840:])


async def test_as_json(clip: str, capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedLiveModel([steps.expect_audio(), steps.hear("hello"), steps.say("Hi."), steps.hang()], allow=["audio"]) as model:
        async with RunningServer(gateway(model)) as server:
            assert await talk(server, clip, "--json") == 0
    messages = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert messages[0]["type"] == "welcome"
    assert {"transcript", "response.start", "response.audio.end", "response.end", "state"} <= {message["type"] for message in messages}
    assert messages[-1] | {"session": "", "first_audio_ms": 0} == {
        "type": "talk.result",
        "exit_code": 0,
        "problem": None,
        "session": "",
        "question": "hello",
        "answer": "Hi.",
        "audio_ms": 200,
        "first_audio_ms": 0,
        "out": None,
    }


async def test_a_typed_text_and_a_second_one_in_the_same_session(capsys: pytest.CaptureFixture[str]) -> None:
    def script(text: str) -> list[steps.Step]:
        return [steps.expect_content(text), steps.say(f"You said {text}."), steps.hang()]

    with ScriptedLiveModel(script("one"), script("two")) as model:
        async with RunningServer(gateway(model)) as server:
            assert await talk(server, "--text", "one", "--json") == 0
            session = json.loads(capsys.readouterr().out.splitlines()[-1])["session"]
            assert await talk(server, "--text", "two", "--json", "--session", session) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (result["session"], result["question"], result["answer"]) == (session, "two", "You said two.")


async def test_no_answer(clip: str, capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedLiveModel([steps.hang()], allow=["audio", "end_audio"]) as model:
        async with RunningServer(gateway(model)) as server:
            assert await talk(server, clip, "--wait", "0.3") == 1
    assert capsys.readouterr().err == "live-gateway: no answer came, and no words were understood in the recording\n"


async def test_a_model_that_fails_while_the_client_speaks(clip: str, capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedLiveModel([steps.expect_audio(), steps.fail(UpstreamPolicy("The key is not valid."))], allow=["audio"]) as model:
        async with RunningServer(gateway(model)) as server:
            assert await talk(server, clip) == 4
    assert capsys.readouterr().err == "live-gateway: The key is not valid. (upstream_policy)\n"


async def test_a_session_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from live_gateway.sessions import InMemorySessionService

    with ScriptedLiveModel() as model:
        agent = LlmAgent(name="guide", live_model=model)
        runner = Runner(app_name="app", agent=agent, session_service=InMemorySessionService())
        async with RunningServer(create_app(runner)) as server:
            assert await talk(server, "--text", "hello", "--session", "nowhere") == 4
    assert capsys.readouterr().err.rstrip().endswith("(session_not_found)")


async def test_a_server_that_is_no_gateway(clip: str, capsys: pytest.CaptureFixture[str]) -> None:
    async def hello(_request: object) -> PlainTextResponse:
        return PlainTextResponse("hello")

    async with BareServer(Starlette(routes=[Route("/", hello)])) as server:
        assert await talk(server, clip) == 3
    error = capsys.readouterr().err
    assert "instead of a WebSocket" in error
    assert error.count("\n") == 1
