"""The log of a run names everything that happened and contains no word of it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from live_gateway.content import user_content
from live_gateway.errors import ModelError
from live_gateway.models.live import TurnComplete
from live_gateway.plugins.logging_plugin import LoggingPlugin
from live_gateway.runner import Runner
from live_gateway.testing.scripted_live import ScriptedLiveModel
from live_gateway.testing.steps import Step, emit, end, expect_content, expect_tool_responses
from live_gateway.testing.steps import call as live_call
from tests.support.live import all_of, go_live, heard, live_runner, spoke
from tests.support.runs import bot, call, outcomes, run

SECRET = "XYZZY-word"
LOGGER = "live_gateway.plugins.logging_plugin"


def reveal(what: str) -> dict[str, str]:
    """Look it up."""
    return {SECRET: f"{what} {SECRET}"}


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    monkeypatch.setattr(logging.getLogger("live_gateway"), "propagate", True)
    caplog.set_level(logging.DEBUG, logger="live_gateway")
    return caplog


def events(lines: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in lines.records if record.name == LOGGER]


def everything(lines: pytest.LogCaptureFixture) -> str:
    return repr([(record.getMessage(), getattr(record, "fields", None), record.args) for record in lines.records])


def fields(lines: pytest.LogCaptureFixture, event: str) -> dict[str, Any]:
    (found,) = [getattr(record, "fields", {}) for record in lines.records if record.getMessage() == event]
    return dict(found)


# contract: PLUG-01
async def test_a_run_is_logged_in_order_without_its_content(lines: pytest.LogCaptureFixture) -> None:
    runner = Runner.in_memory("app", bot(call("reveal", "c", what=SECRET), SECRET, tools=[reveal]), plugins=[LoggingPlugin()])
    await run(runner, f"tell me {SECRET}")
    asked = ["model_asked", "model_answered", "event"]
    assert events(lines) == ["user_message", "run_started", *asked, "tool_started", "tool_ended", "event", *asked, "run_ended"]
    assert SECRET not in everything(lines)
    assert {key: fields(lines, "run_ended")[key] for key in ("app", "session", "agent", "count")} == {
        "app": "app",
        "session": "s",
        "agent": "bot",
        "count": 3,
    }
    assert fields(lines, "tool_ended")["status"] == "done"
    assert all(isinstance(fields(lines, event)["duration_ms"], int) for event in ("run_ended", "tool_ended"))


async def test_failures_are_logged_by_their_type(lines: pytest.LogCaptureFixture) -> None:
    plugin = LoggingPlugin()
    missing = call(SECRET, "c")
    await outcomes(Runner.in_memory("app", bot(missing, ModelError(SECRET), tools=[reveal]), plugins=[plugin]))
    assert fields(lines, "model_failed")["error_type"] == "ModelError"
    assert fields(lines, "tool_failed")["error_type"] == "ToolError"
    assert events(lines)[-1] == "run_ended"
    assert SECRET not in repr([record for record in lines.records if record.name == LOGGER])
    assert plugin._runs == {}


async def test_content_is_logged_where_it_is_asked_for(lines: pytest.LogCaptureFixture) -> None:
    answers = (call("reveal", "c", what="it"), "the answer")
    runner = Runner.in_memory("app", bot(*answers, tools=[reveal]), plugins=[LoggingPlugin(content=True)])
    await run(runner, "the question")
    said = [record.getMessage() for record in lines.records if record.name == f"{LOGGER}.content"]
    assert said == [
        "user: the question",
        "reveal is called with {'what': 'it'}",
        f"reveal answers {{'{SECRET}': 'it {SECRET}'}}",
        "bot: the answer",
    ]


@pytest.mark.virtual_time
async def test_a_live_session_is_logged_too(lines: pytest.LogCaptureFixture) -> None:
    script: list[Step] = [
        expect_content(SECRET),
        live_call("reveal", {"what": SECRET}),
        expect_tool_responses(),
        emit(heard(SECRET, finished=True), spoke(SECRET), TurnComplete()),
        end(),
    ]
    with ScriptedLiveModel(script) as model:
        runner = live_runner(model, tools=[reveal], plugins=[LoggingPlugin()])
        async with go_live(runner) as live:
            await live.send(user_content(SECRET))
            await all_of(live)
    assert events(lines)[0] == "run_started"
    assert events(lines)[-1] == "run_ended"
    assert {"user_message", "tool_started", "tool_ended", "event"} <= set(events(lines))
    assert SECRET not in everything(lines)
