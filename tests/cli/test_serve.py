"""`live-gateway serve` as a process of its own: it says where it is, answers, stops when asked, and everything is in the store."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from live_gateway.cli.main import main
from live_gateway.sessions import open_session_service
from tests.support.serving import serving

AGENT = """
from live_gateway.agents.llm import LlmAgent
from live_gateway.cli.local_voice import TextOnlyModel
from live_gateway.demo import move
from live_gateway.models.keyword import KeywordModel

agent = LlmAgent(name="robot", tools=[move], live_model=TextOnlyModel(KeywordModel(), "nothing is installed here"))
"""


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
async def test_an_agent_of_ones_own_is_served_and_the_conversation_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stop: signal.Signals
) -> None:
    (tmp_path / "robot.py").write_text(AGENT)
    store = f"sqlite:///{tmp_path / 'kept.sqlite3'}"
    with serving("robot.py", "--store", store, "--app-name", "robots", directory=tmp_path) as (process, address):
        spoken = ["talk", "--text", "go forward ten meters", "--answer", "text", "--url", address]
        assert await asyncio.to_thread(main, spoken) == 0
        process.send_signal(stop)
        assert process.wait(10) == 0
    shown = capsys.readouterr().out
    assert 'move(direction="forward", distance_m=10)' in shown
    assert "voice_missing" in shown
    async with open_session_service(store) as service:
        (session,) = await service.list(app_name="robots")
        stored = await service.get(app_name="robots", user_id=session.user_id, session_id=session.id)
    assert [event.author for event in stored.events][:3] == ["user", "robot", "robot"]
    assert [call.name for event in stored.events for call in event.function_calls] == ["move"]
    assert [event.seq for event in stored.events] == list(range(1, len(stored.events) + 1))
    assert dict(stored.state["robot_position"]) == {"x_m": 0.0, "y_m": 10.0}


async def test_an_example_of_the_readme_is_served(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = Path(__file__).parents[2] / "examples" / "shop.py"
    with serving(f"{example}:agent", "--store", "memory://", directory=tmp_path) as (_, address):
        assert await asyncio.to_thread(main, ["talk", "--text", "what is the stock of screws", "--answer", "text", "--url", address]) == 0
    assert "shop       There are 1200 screws in stock." in capsys.readouterr().out.splitlines()


def test_it_says_where_it_is_what_is_missing_and_what_to_do_next(capsys: pytest.CaptureFixture[str]) -> None:
    from live_gateway.agents.llm import LlmAgent
    from live_gateway.cli import serve
    from live_gateway.runner import Runner
    from live_gateway.settings import Settings
    from live_gateway.voice.local import Availability

    runner = Runner.in_memory("app", LlmAgent(name="demo"))
    serve._announce(runner, Settings(store="memory://"), Availability(("hibari-tts",), ("pip install it",)))("http://127.0.0.1:8080")
    assert capsys.readouterr().out.splitlines() == [
        "Serving the agent 'demo': http://127.0.0.1:8080 in a browser, ws://127.0.0.1:8080/live for programs.",
        f"It only answers typed messages: the local voice is not installed (hibari-tts missing); run: {sys.executable} -m pip install it",
        "Conversations are kept in memory://.",
        "Try it from another terminal: live-gateway talk FILE.wav --url ws://127.0.0.1:8080/live",
        "Stop with Ctrl-C.",
    ]


async def test_a_directory_of_artifacts_that_cannot_be_had_is_said_at_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("not a directory")
    wanted = str(tmp_path / "file" / "artifacts")
    assert await asyncio.to_thread(main, ["serve", "--port", "0", "--store", "memory://", "--artifacts", wanted]) == 2
    assert f"artifacts cannot be kept in {wanted}: Not a directory" in capsys.readouterr().err
