"""Every example does what it says, in a process or a run of its own. The network is this machine's, the models are doubles."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shlex
import subprocess
import sys
import wave
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from live_gateway.agents.config import LiveRunConfig
from live_gateway.agents.llm import LlmAgent
from live_gateway.cli.local_voice import with_live_models
from live_gateway.cli.text_model import with_text_models
from live_gateway.content import FunctionCall, FunctionResponse, Part, function_responses, user_content
from live_gateway.errors import ModelUnavailable
from live_gateway.events import Event
from live_gateway.live.session import LiveSession
from live_gateway.models.base import ModelRequest
from live_gateway.models.cascade import CascadeLiveModel
from live_gateway.models.keyword import KeywordModel
from live_gateway.models.live import LiveSetup
from live_gateway.runner import Runner
from live_gateway.testing import steps
from live_gateway.testing.fake_gemini import FakeGemini
from live_gateway.testing.gemini_steps import expect_text, say
from live_gateway.testing.scripted_live import ScriptedLiveModel
from live_gateway.testing.scripted_model import ScriptedModel
from live_gateway.voice.local import Availability, available
from tests.support.approvals import answer, questions, results
from tests.support.cascade_talk import play, talk_to
from tests.support.docs import DOCS, ROOT, blocks, pages
from tests.support.fake_voice import FakeDetector, FakeSynthesiser, silence, speech
from tests.support.http_server import Reply, provider

EXAMPLES = ROOT / "examples"
WITH_TESTS_OF_THEIR_OWN = frozenset({"weather_agent.py", "shop.py"})


def load(name: str) -> ModuleType:
    """The example as a module; it is loaded anew each time."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def kitchen() -> LlmAgent:
    agent: LlmAgent = load("kitchen").agent
    return agent


def run_file(name: str, *arguments: str, cwd: Path = EXAMPLES) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(EXAMPLES)])}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_shown_or_tested() -> None:
    shown = {block.note.split()[1] for page in pages() for block in blocks(page, "python") if block.note}
    files = {f"examples/{path.name}" for path in EXAMPLES.glob("*.py") if path.name not in WITH_TESTS_OF_THEIR_OWN}
    assert files <= shown | {"examples/kitchen.py"}
    assert DOCS.is_dir()


# contract: CLI-03
def test_a_program_drives_an_agent_for_two_turns_of_one_session() -> None:
    assert run_file("run_agent.py").splitlines() == [
        "rover: I drove 2 meters left.",
        "rover: I am -2 meters to the right of the start and 0 meters ahead of it.",
    ]
    source = (EXAMPLES / "run_agent.py").read_text(encoding="utf-8")
    main = source[source.index("async def main") : source.index("if __name__")]
    assert len([line for line in main.splitlines() if line.strip()]) <= 10


def test_finish_baking() -> None:
    assert run_file("finish_baking.py").splitlines() == ["kitchen: The bread is in the oven.", "kitchen: The bread is ready."]


# contract: HITL-06
def test_approve() -> None:
    assert run_file("approve.py").splitlines() == [
        "asked: send_money {'amount': 500, 'to': 'Anna'}",
        "bank: 500 euros are on their way to Anna.",
    ]


# contract: HITL-06
async def test_the_bank_asks_who_gets_the_rest() -> None:
    bank: LlmAgent = load("bank").agent
    model = ScriptedModel([FunctionCall(id="fc-1", name="close_account", args={}), "Closed."])
    runner = Runner.in_memory("bank", replace(bank, model=model))
    asked = [event async for event in runner.run(user_id="u", session_id="s", message=user_content("close it"))]
    (question,) = questions(asked)
    said = answer((question, {"confirmed": True, "payload": {"to": "Anna"}}))
    done = [event async for event in runner.run(user_id="u", session_id="s", message=said)]
    assert results(done) == [("fc-1", {"summary": "The account is closed; 250 euros go to Anna."})]


def test_name_errors() -> None:
    assert run_file("name_errors.py") == ""


@pytest.mark.slow
@pytest.mark.voice
@pytest.mark.skipif(not available().ok, reason=str(available()))
def test_run_live_speaks_and_keeps_the_answer(tmp_path: Path) -> None:
    said = run_file("run_live.py", str(tmp_path / "answer.wav"))
    assert said.splitlines() == ["user: Go forward ten meters.", "rover: I drove 10 meters forward."]
    with wave.open(str(tmp_path / "answer.wav")) as answer:
        assert answer.getframerate() == 24_000
        assert answer.getnframes() > 24_000


# The kitchen: one tool of each kind.


async def call(agent: LlmAgent, name: str, runner: Runner | None = None, /, **args: Any) -> tuple[Runner, dict[str, Any]]:
    """Let a model call one of the agent's tools; the response that it gets."""
    with ScriptedModel([FunctionCall(id="fc-1", name=name, args=args), "Done."]) as model:
        kept = runner.session_service if runner is not None else None
        made = Runner.in_memory("kitchen", replace(agent, model=model))
        if kept is not None:
            made = Runner(app_name="kitchen", agent=replace(agent, model=model), session_service=kept, auto_create_session=True)
        async with made.run(user_id="u", session_id=f"s-{name}", message=user_content("please")) as events:
            async for _ in events:
                pass
    [response] = function_responses(model.requests[1].contents[-1])
    return made, dict(response.response or {})


async def test_a_plain_function_answers_from_its_thread(kitchen: LlmAgent) -> None:
    _, response = await call(kitchen, "read_thermometer", place="freezer")
    assert response == {"temperature_c": -18, "summary": "The freezer has -18 degrees."}
    assert kitchen.toolbox["read_thermometer"].effect == "read"


async def test_arguments_that_do_not_fit_never_reach_the_function(kitchen: LlmAgent) -> None:
    _, response = await call(kitchen, "add_to_list", item="eggs", amount=100)
    assert "amount" in response["error"]
    _, response = await call(kitchen, "read_thermometer", place="cellar")
    assert "place" in response["error"]


async def test_a_user_s_state_is_found_in_another_session(kitchen: LlmAgent) -> None:
    runner, _ = await call(kitchen, "add_to_list", item="eggs", amount=6)
    other = await runner.session_service.create(app_name="kitchen", user_id="u", session_id="another")
    assert dict(other.state["user:shopping"][0]) == {"item": "eggs", "amount": 6}
    stranger = await runner.session_service.create(app_name="kitchen", user_id="stranger")
    assert "user:shopping" not in stranger.state


async def test_an_error_for_the_model_and_the_idempotency_key(kitchen: LlmAgent) -> None:
    _, response = await call(kitchen, "brew_coffee", cups=12)
    assert response == {"error": "there are beans for 10 cups only; ask the user whether that is enough"}
    _, response = await call(kitchen, "brew_coffee", cups=2)
    assert response["order"] == "s-brew_coffee:fc-1"


@pytest.mark.virtual_time
async def test_a_tool_that_does_not_answer_is_given_up(kitchen: LlmAgent) -> None:
    _, response = await call(kitchen, "find_recipe", dish="soup")
    assert response["error"].startswith("timeout: 'find_recipe' did not finish within 2 seconds")


@pytest.mark.virtual_time
async def test_pieces_are_one_result_outside_of_a_live_session(kitchen: LlmAgent) -> None:
    _, response = await call(kitchen, "watch_oven", dish="bread")
    assert [piece["percent"] for piece in response["result"]] == [50, 100]


async def test_long_work_answers_with_a_status_and_later_with_its_result(kitchen: LlmAgent) -> None:
    ticket = FunctionCall(id="fc-1", name="bake", args={"dish": "bread"})
    with ScriptedModel([ticket, "It is in the oven.", "It is ready."]) as model:
        runner = Runner.in_memory("kitchen", replace(kitchen, model=model))

        async def told(parts: list[Part]) -> list[Event]:
            content = user_content("").model_copy(update={"parts": parts})
            return [event async for event in runner.run(user_id="u", session_id="s", message=content)]

        events = await told([Part(text="bake bread")])
        assert events[0].long_running_tool_ids == ["fc-1"]
        assert (events[1].function_responses[0].response or {})["ticket"] == "fc-1"
        events = await told([Part(function_response=FunctionResponse(id="fc-1", name="bake", response={"done": True}))])
    assert [event.text for event in events] == ["It is ready."]


# Parts of one's own.


async def test_own_model_gives_pieces_where_they_are_wanted_and_one_whole() -> None:
    model = load("own_model").agent.model
    for stream in (True, False):
        request = ModelRequest(contents=(user_content("good morning"),), stream=stream)
        responses = [response async for response in model.generate(request)]
        assert [response.partial for response in responses] == ([True] * 4 if stream else []) + [False]
        assert responses[-1].content.parts[0].text == "You said: good morning"


async def test_own_model_is_spoken_by_the_local_voice() -> None:
    """The parrot behind a voice: what was said to it is said back."""
    live = CascadeLiveModel(model=load("own_model").Parrot(), vad=FakeDetector, stt=_Words(), tts=FakeSynthesiser())
    async with talk_to(live) as talk:
        await play(talk, [silence(300), speech("hello there"), silence(1000)])
        await talk.turns(1)
    assert talk.said_by_model.strip() == "You said: hello there"


class _Words:
    def transcribe(self, pcm: bytes) -> str:
        return "hello there"


RECOGNISER = """
import io, sys, wave
with wave.open(io.BytesIO(sys.stdin.buffer.read())) as sound:
    assert (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) == (16000, 1, 2)
    print("  move forward" if sound.getnframes() > 3200 else "")
"""


@pytest.fixture
def recogniser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example's recogniser around a program that knows one sentence."""
    program = tmp_path / "recogniser.py"
    program.write_text(RECOGNISER, encoding="utf-8")
    monkeypatch.setenv("RECOGNISER", shlex.join([sys.executable, str(program)]))
    return load("own_recogniser").recogniser


async def test_own_recogniser_is_heard_in_a_conversation(recogniser: Any) -> None:
    live = CascadeLiveModel(model=KeywordModel(), vad=FakeDetector, stt=recogniser, tts=FakeSynthesiser())
    async with talk_to(live, LiveSetup()) as talk:
        await play(talk, [silence(300), speech("what ever is said"), silence(1000)])
        await talk.turns(1)
    assert talk.said_by_user == ["move forward"]


def test_own_recogniser_says_nothing_where_its_program_does_and_raises_where_it_fails(recogniser: Any) -> None:
    assert recogniser.transcribe(bytes(3200)) == ""
    with pytest.raises(subprocess.CalledProcessError):
        type(recogniser)([sys.executable, "-c", "raise SystemExit(3)"]).transcribe(bytes(3200))


async def test_openai_agent_asks_the_server_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    message = {"role": "assistant", "content": "It is noon."}
    completion = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "message": message}]}
    async with provider(Reply(body=completion)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("MODEL", "my-model")
        assert await answer_of(load("openai_agent").agent) == "It is noon."
    path, _, body = server.asked[0]
    assert path == "/v1/chat/completions"
    assert body["model"] == "my-model"
    assert {tool["function"]["name"] for tool in body["tools"]} == {"get_weather", "get_time", "move", "set_timer"}


async def test_gemini_agent_asks_with_the_key_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    candidate = {"content": {"role": "model", "parts": [{"text": "It is noon."}]}, "finishReason": "STOP"}
    async with provider(Reply(body={"candidates": [candidate]})) as server:
        monkeypatch.setenv("GEMINI_BASE_URL", server.url)
        monkeypatch.setenv("GEMINI_API_KEY", "a-key")
        monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
        assert await answer_of(load("gemini_agent").agent) == "It is noon."
    path, headers, _ = server.asked[0]
    assert path.endswith("gemini-2.5-flash:generateContent")
    assert headers["x-goog-api-key"] == "a-key"


async def test_gemini_live_agent_talks_to_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeGemini([expect_text("what time is it"), say("It is noon.", ms=80)]) as gemini:
        monkeypatch.setenv("GEMINI_BASE_URL", gemini.base_url)
        monkeypatch.setenv("GEMINI_API_KEY", "a-key")
        monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
        runner = Runner.in_memory("demo", load("gemini_live_agent").agent)
        async with asyncio.timeout(10), runner.run_live(user_id="u", session_id="s") as live:
            await live.send(user_content("what time is it"))
            said = [event.output_transcription.text async for event in heard_until_the_turn_is_over(live) if event.output_transcription]
    assert said[-1] == "It is noon."


async def heard_until_the_turn_is_over(live: LiveSession) -> AsyncIterator[Event]:
    async for event in live:
        yield event
        if event.turn_complete:
            return


def test_gemini_live_agent_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_CLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ModelUnavailable):
        load("gemini_live_agent")


async def answer_of(agent: LlmAgent) -> str:
    """What the agent says to one question; its model's connections are then given back."""
    runner = Runner.in_memory("demo", agent)
    try:
        async with runner.run(user_id="u", session_id="s", message=user_content("what time is it")) as events:
            return "".join([event.text async for event in events])
    finally:
        model: Any = agent.model
        await model.aclose()


# Several agents.


async def test_the_desk_hands_over_to_who_knows_about_orders() -> None:
    desk: LlmAgent = load("helpdesk").agent
    orders, returns = desk.sub_agents
    assert isinstance(orders, LlmAgent)
    transfer = FunctionCall(id="t-1", name="transfer_to_agent", args={"agent_name": "orders"})
    look = FunctionCall(id="c-1", name="find_order", args={"number": 7})
    with ScriptedModel([transfer]) as of_desk, ScriptedModel([look, "It is on its way."]) as of_orders:
        agent = replace(desk, model=of_desk, sub_agents=[replace(orders, model=of_orders), returns])
        async with Runner.in_memory("desk", agent).run(user_id="u", session_id="s", message=user_content("where is order 7?")) as events:
            said = [(event.author, event.text) async for event in events if event.text]
    assert said == [("orders", "It is on its way.")]


@pytest.mark.virtual_time
async def test_the_intake_asks_first_and_confirms_then() -> None:
    intake = load("intake").agent
    done: list[steps.Step] = [steps.call("task_completed", id="d-1"), steps.hang()]
    scripts: list[list[steps.Step]] = [[steps.say("Who are you?"), *done], [steps.say("We call back."), *done]]
    models = [ScriptedLiveModel(script) for script in scripts]
    agents = [replace(agent, live_model=model) for agent, model in zip(intake.sub_agents, models, strict=True)]
    async with Runner.in_memory("intake", replace(intake, sub_agents=agents)).run_live(user_id="u", session_id="s") as live:
        said = [event.transcription.text async for event in live if event.transcription and not event.partial]
    assert said == ["Who are you?", "We call back."]


async def test_the_rules_hand_over_once_and_answer_then() -> None:
    desk: LlmAgent = with_text_models(load("helpdesk").agent, KeywordModel())
    async with Runner.in_memory("desk", desk).run(user_id="u", session_id="s", message=user_content("where is order 7?")) as events:
        said = [(event.author, event.text) async for event in events if event.text]
    assert said == [("orders", "Order 7 left the warehouse yesterday.")]


@pytest.mark.virtual_time
async def test_the_rules_do_so_in_a_live_session_too() -> None:
    desk = with_live_models(load("helpdesk").agent, Availability(("voice",), ()))
    async with Runner.in_memory("desk", desk).run_live(user_id="u", session_id="s", config=LiveRunConfig(modality="TEXT")) as live:
        await live.send(user_content("where is order 7?"))
        said: list[tuple[str, str]] = []
        async for event in live:
            said += [(event.author, event.text)] if event.text and not event.partial else []
            if event.turn_complete and event.author == "orders":
                break
    assert said == [("orders", "Order 7 left the warehouse yesterday.")]
