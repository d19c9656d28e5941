"""Gemini Live from the command line: `serve --live-model`, `fake-gemini` and `record`, each as a process of its own."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from live_gateway.agents.llm import LlmAgent
from live_gateway.cli.live_model import live_model, with_live_model
from live_gateway.cli.main import main
from live_gateway.errors import ModelUnavailable
from live_gateway.models.gemini_live import GeminiLiveModel
from live_gateway.testing.recording import read_recording
from live_gateway.testing.scripted_live import ScriptedLiveModel
from tests.support.serving import serving

ROOT = Path(__file__).parents[2]
QUESTION = ["talk", "--text", "what is the stock of screws", "--url"]


@contextmanager
def running(*arguments: str, directory: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and the base URL that it printed for clients."""
    command = [sys.executable, "-m", "live_gateway", *arguments, "--port", "0"]
    process = subprocess.Popen(command, cwd=directory, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        said = process.stdout.readline() + process.stdout.readline()
        address = re.search(r"--gemini-url (http://127\.0\.0\.1:\d+)", said)
        assert address is not None, said
        yield process, address[1]
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "any-secret")


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
async def test_an_agent_is_served_on_gemini_recorded_and_played_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stop: signal.Signals
) -> None:
    kept = tmp_path / "kept.jsonl"
    agent = f"{ROOT / 'examples' / 'shop.py'}:agent"
    with (
        running("fake-gemini", "tools", directory=tmp_path) as (fake, service),
        running("record", str(kept), "--upstream", service, "--shorten-ms", "20", directory=tmp_path) as (recorder, between),
    ):
        on_gemini = ["--store", "memory://", "--live-model", "gemini-live", "--gemini-url"]
        with serving(agent, *on_gemini, between, directory=tmp_path) as (_, address):
            assert await asyncio.to_thread(main, [*QUESTION, address]) == 0
        for process in (recorder, fake):
            process.send_signal(stop)
            assert process.wait(10) == 0
    first = capsys.readouterr().out
    assert "That is done." in first
    assert "any-secret" not in kept.read_text()
    assert any("toolCall" in line.get("frame", {}) for line in read_recording(kept))
    with running("fake-gemini", str(kept), directory=tmp_path) as (_, service):
        environment = {"LIVE_GATEWAY_LIVE_MODEL": "gemini-live", "LIVE_GATEWAY_GEMINI_BASE_URL": service}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            with serving(agent, "--store", "memory://", directory=tmp_path) as (_, address):
                assert await asyncio.to_thread(main, [*QUESTION, address]) == 0
    assert "That is done." in capsys.readouterr().out


@pytest.mark.usefixtures("key")
def test_agents_that_bring_a_live_model_keep_it() -> None:
    own = ScriptedLiveModel()
    agent = LlmAgent(name="top", sub_agents=(LlmAgent(name="own", live_model=own), LlmAgent(name="bare")))
    model = live_model("gemini-live")
    equipped = with_live_model(agent, model)
    assert equipped.live_model is model
    assert [child.live_model for child in equipped.sub_agents if isinstance(child, LlmAgent)] == [own, model]
    assert agent.live_model is None
    assert isinstance(model, GeminiLiveModel)
    assert model.name == "gemini-live"


@pytest.mark.usefixtures("key")
def test_a_base_url_without_a_host_is_refused_before_anything_is_served() -> None:
    with pytest.raises(ModelUnavailable, match="names no host"):
        live_model("gemini-live", "localhost")


def test_a_port_that_is_taken_is_one_sentence(capsys: pytest.CaptureFixture[str], used_port: int) -> None:
    assert main(["fake-gemini", "talk", "--port", str(used_port)]) == 2
    assert capsys.readouterr().err.startswith(f"live-gateway: port {used_port} of 127.0.0.1 cannot be used: ")
