"""The console: `live-gateway chat` and `live-gateway run`."""

from __future__ import annotations

import asyncio
import io
import json
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from live_gateway.agents.context import ToolContext
from live_gateway.agents.custom import CustomAgent
from live_gateway.agents.llm import LlmAgent
from live_gateway.cli.chat import Chat
from live_gateway.cli.conversation import ASK, Conversation
from live_gateway.cli.main import main
from live_gateway.cli.problems import Exit
from live_gateway.cli.text_model import text_model, with_text_models
from live_gateway.confirmation import CONFIRM
from live_gateway.content import FunctionCall, FunctionResponse
from live_gateway.errors import UpstreamQuota
from live_gateway.models.keyword import KeywordModel
from live_gateway.sessions import InMemorySessionService, open_session_service
from live_gateway.testing.scripted_model import Answer, ScriptedModel, pieces
from live_gateway.tools.function import FunctionTool

WAIT_S = 30.0


def lines_of(*said: str | type[BaseException]) -> Iterator[str | type[BaseException]]:
    return iter([*said, EOFError])


@dataclass(frozen=True)
class Shown:
    """What a chat left behind. answers: the function responses that the person's messages held."""

    lines: list[str]
    model: ScriptedModel
    answers: list[FunctionResponse]


def chat(answers: Sequence[Answer], *said: str | type[BaseException], tools: Sequence[FunctionTool] = ()) -> Shown:
    """What the console shows when a person says these things."""
    model, typed, stream = ScriptedModel(answers), lines_of(*said), io.StringIO()
    conversation = Conversation(LlmAgent(name="agent", model=model, tools=tools), InMemorySessionService(), streaming=True)

    def ask(prompt: str) -> str:
        line = next(typed)
        if not isinstance(line, str):
            raise line
        return line

    with start_blocking_portal() as portal:
        Chat(portal, conversation, stream, ask).talk()
    stored = conversation.sessions.get(app_name="agent", user_id="user", session_id=conversation.session_id)
    events = asyncio.run(stored).events
    return Shown(
        [line for line in stream.getvalue().split("\n") if line],
        model,
        [response for event in events if event.author == "user" for response in event.function_responses],
    )


# contract: CLI-01
def test_answers_are_shown_once_and_the_session_is_kept() -> None:
    shown = chat([pieces("Hello ", "there."), "Fine."], "hi", "  ", "how are you?")
    assert shown.lines == ["agent      Hello there.", "agent      Fine."]
    assert [text for content in shown.model.requests[1].contents for part in content.parts or () if (text := part.text)] == [
        "hi",
        "Hello there.",
        "how are you?",
    ]


# contract: CLI-01
def test_errors_are_shown_and_the_conversation_goes_on() -> None:
    shown = chat([UpstreamQuota("quota is used up"), KeyError("x"), "Fine."], "a", "b", "c")
    assert shown.lines == ["error      quota is used up", "error      KeyError: 'x'", "agent      Fine."]


def confirmation(wiped: list[str]) -> tuple[FunctionCall, FunctionTool]:
    async def wipe(disk: str, ctx: ToolContext) -> str:
        """Wipe a disk."""
        if ctx.confirmation is None:
            ctx.request_confirmation(hint="Dangerous:")
            return ""
        wiped.append(disk)
        return "wiped"

    return FunctionCall(id="c-1", name="wipe", args={"disk": "C"}), FunctionTool(wipe)


# contract: CLI-01
@pytest.mark.parametrize(("answer", "confirmed"), [("yes", True), ("n", False)])
def test_approvals_are_asked(answer: str, confirmed: bool) -> None:
    wiped: list[str] = []
    call, tool = confirmation(wiped)
    shown = chat([call, "All right."], "wipe it", "perhaps", answer, tools=[tool])
    assert "asked      Dangerous: wipe(disk='C')" in shown.lines
    assert not any(CONFIRM in line for line in shown.lines)
    assert "agent      All right." in shown.lines
    shown.model.verify()
    assert [(each.name, each.response) for each in shown.answers] == [(CONFIRM, {"confirmed": confirmed})]
    assert wiped == (["C"] if confirmed else [])


# contract: CLI-01
@pytest.mark.parametrize("ending", [KeyboardInterrupt, EOFError])
def test_approval_that_is_not_given_stays_open(ending: type[BaseException]) -> None:
    call, tool = confirmation([])
    shown = chat([call], "wipe it", ending, tools=[tool])
    assert "(not answered)" in shown.lines
    assert shown.answers == []
    shown.model.verify()


def test_agent_that_asks_for_input() -> None:
    async def ask(message: str) -> None:
        """Ask the user."""

    call = FunctionCall(id="q-1", name=ASK, args={"message": "Which city?"})
    shown = chat([call, "Oslo it is."], "weather", "Oslo", tools=[FunctionTool(ask, name=ASK, long_running=True)])
    assert "asked      Which city?" in shown.lines
    shown.model.verify()
    assert [(each.name, each.response) for each in shown.answers] == [(ASK, {"response": "Oslo"})]


# contract: CLI-01
def test_interrupt_at_the_prompt_ends_nothing() -> None:
    shown = chat(["Fine."], KeyboardInterrupt, "hi")
    assert "(Ctrl-D ends)" in shown.lines
    assert "agent      Fine." in shown.lines


AGENT = """
import asyncio
from live_gateway.agents.llm import LlmAgent
from live_gateway.testing.scripted_model import ScriptedModel, pieces

agent = LlmAgent(name="teller", model=ScriptedModel([[*pieces("Once upon ")[:1], asyncio.Event()], "Fine."]))
"""


# contract: CLI-01, RUN-03
@pytest.mark.skipif(sys.platform == "win32", reason="no signal can be sent to a process there")
async def test_interrupt_stops_the_answer_and_neither_program_nor_session(tmp_path: Path) -> None:
    (tmp_path / "teller.py").write_text(AGENT)
    store = tmp_path / "sessions.sqlite3"
    command = [sys.executable, "-m", "live_gateway", "chat", str(tmp_path / "teller.py"), "--store", str(store), "--session", "s"]
    process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    try:
        async with asyncio.timeout(WAIT_S):
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"tell me a story\n")
            await process.stdout.readuntil(b"teller     Once upon ")
            process.send_signal(signal.SIGINT)
            assert await process.stdout.readuntil(b"stopped    the answer was stopped\n") == b"\nstopped    the answer was stopped\n"
            process.stdin.write(b"again\n")
            await process.stdout.readuntil(b"teller     Fine.\n")
            process.stdin.close()
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    async with open_session_service(str(store)) as sessions:
        events = (await sessions.get(app_name="teller", user_id="user", session_id="s")).events
    assert [(event.author, event.text) for event in events] == [("user", "tell me a story"), ("user", "again"), ("teller", "Fine.")]


FRUGAL = """
from live_gateway.agents.llm import LlmAgent
from live_gateway.testing.scripted_model import ScriptedModel
from live_gateway.content import FunctionCall, FunctionResponse

def look() -> dict[str, int]:
    "Look."
    return {"seen": 1}

agent = LlmAgent(name="agent", model=ScriptedModel([FunctionCall(id="1", name="look", args={}), "One."]), tools=[look])
silent = LlmAgent(name="silent", model=ScriptedModel([KeyError("no key")]))
"""


@pytest.fixture
def agent_file(tmp_path: Path) -> str:
    (tmp_path / "frugal.py").write_text(FRUGAL)
    return str(tmp_path / "frugal.py")


def test_run_prints_the_answer(agent_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", agent_file, "how many?"]) == Exit.OK
    assert capsys.readouterr().out == "One.\n"


def test_run_prints_events_as_json_lines(agent_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", agent_file, "how many?", "--json"]) == Exit.OK
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [next(iter(event["content"]["parts"][0])) for event in events] == ["functionCall", "functionResponse", "text"]
    assert [event["seq"] for event in events] == [2, 3, 4]


def test_run_that_fails_says_why(agent_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", f"{agent_file}:silent", "hi"]) == Exit.NO_ANSWER
    assert capsys.readouterr().err == "live-gateway: KeyError: 'no key'\n"


def test_run_goes_on_with_a_stored_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--store", str(tmp_path / "sessions.sqlite3"), "--session", "s"]
    for text in ("What is the weather?", "Paris"):
        assert main(["run", "live_gateway.demo:agent", text, *where]) == Exit.OK
    assert "In Paris it is" in capsys.readouterr().out.splitlines()[-1]


def test_run_with_a_store_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "live_gateway.demo:agent", "hi", "--store", "nope://"]) == Exit.USAGE
    assert "nope" in capsys.readouterr().err


def test_text_model_is_the_agents_own_or_gemini_or_rules(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for key in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    assert main(["run", "live_gateway.demo:agent", "hi", "--model", "gemini-x"]) == Exit.USAGE
    assert "GEMINI_API_KEY" in capsys.readouterr().err
    assert isinstance(text_model(None), KeywordModel)
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    assert text_model("gemini-x").name == "gemini-x"
    own, given = ScriptedModel([]), KeywordModel()
    child = LlmAgent(name="child")
    root = LlmAgent(name="root", model=own, sub_agents=[CustomAgent(name="middle", run=lambda _ctx: aiter(()), sub_agents=[child])])  # type: ignore[arg-type]
    equipped = with_text_models(root, given)
    assert equipped.model is own
    middle = equipped.sub_agents[0]
    assert [each.model for each in middle.sub_agents if isinstance(each, LlmAgent)] == [given]
    assert child.model is None
