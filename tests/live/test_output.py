"""The whole answer of a live turn in the state, by the agent's `output_key`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from live_gateway.agents.llm import LlmAgent
from live_gateway.content import FunctionCall, FunctionResponse, Part, Transcription, model_content
from live_gateway.events import Event, replace
from live_gateway.live.output import TurnOutput, joined
from live_gateway.models.base import ModelRequest, ModelResponse
from live_gateway.models.live import GenerationComplete, Interrupted, TextOut, TurnComplete
from live_gateway.plugins.base import Plugin
from live_gateway.testing.scripted_live import ScriptedLiveModel
from live_gateway.testing.steps import Step, call, emit, end, expect_tool_responses, voice
from tests.support.live import all_of, go_live, live_runner, spoke, stored

pytestmark = pytest.mark.virtual_time


class Masking(Plugin):
    """Takes the words of the agent away."""

    def __init__(self) -> None:
        super().__init__("masking")

    async def on_event(self, invocation: Any, event: Event) -> Event | None:
        if event.output_transcription is None:
            return None
        return replace(event, output_transcription=Transcription(text="***", finished=not event.partial))


async def deltas(*script: Step, tools: Any = (), plugins: Any = (), **agent: Any) -> tuple[list[dict[str, Any]], list[Event]]:
    """The state deltas that this script leaves in the store, and all stored events."""
    with ScriptedLiveModel(script) as model:
        runner = live_runner(model, tools=tools, plugins=plugins, output_key="answer", **agent)
        async with go_live(runner) as live:
            await all_of(live)
        events = await stored(runner)
    return [event.actions.state_delta for event in events if event.actions.state_delta], events


# contract: LIVE-29
# case: K-LHIST-06
async def test_the_whole_answer_of_a_turn_is_set_once_on_the_event_that_completes_it() -> None:
    """Several transcriptions, with a tool in between, and an event for each piece: one value, on one stored event of the agent."""

    def lookup(city: str) -> dict[str, Any]:
        """Look a city up."""
        return {"city": city}

    found, events = await deltas(
        emit(spoke("Let me"), spoke(" look."), GenerationComplete()),
        call("lookup", {"city": "Oslo"}),
        expect_tool_responses("fc-1"),
        emit(voice(20), spoke("It is"), spoke(" sunny", finished=True), spoke("Bye."), TurnComplete()),
        end(),
        tools=[lookup],
    )
    assert found == [{"answer": "Let me look. It is sunny Bye."}]
    carrier = next(event for event in events if event.actions.state_delta)
    assert (carrier.author, carrier.turn_complete) == ("agent", True)


# contract: LIVE-29
async def test_each_turn_sets_its_own_answer_and_a_turn_without_words_sets_nothing() -> None:
    found, _ = await deltas(
        emit(spoke("One."), TurnComplete()), emit(voice(20), TurnComplete()), emit(spoke("Two."), TurnComplete()), emit(spoke("Thr")), end()
    )
    assert found == [{"answer": "One."}, {"answer": "Two."}]


# contract: LIVE-29, LIVE-28
async def test_a_text_answer_is_set_without_its_thoughts() -> None:
    found, _ = await deltas(emit(TextOut("Hm.", thought=True), TextOut("It is "), TextOut("42."), TurnComplete()), end())
    assert found == [{"answer": "It is 42."}]


# contract: LIVE-29
async def test_an_answer_goes_on_past_a_turn_that_was_called_complete_while_its_tool_ran() -> None:
    gate = asyncio.Event()

    async def lookup() -> str:
        """Look."""
        await gate.wait()
        return "found"

    with ScriptedLiveModel(
        [
            emit(spoke("Let me look.")),
            call("lookup"),
            emit(TurnComplete()),
            expect_tool_responses("fc-1"),
            emit(spoke("It is sunny."), TurnComplete()),
            end(),
        ]
    ) as model:
        runner = live_runner(model, tools=[lookup], output_key="answer")
        async with go_live(runner) as live:
            async for event in live:
                if event.turn_complete:
                    gate.set()
        found = [event.actions.state_delta for event in await stored(runner) if event.actions.state_delta]
    assert found == [{"answer": "Let me look. It is sunny."}]


# contract: LIVE-29
async def test_what_was_cut_off_is_no_part_of_the_answer_after_it() -> None:
    found, _ = await deltas(emit(voice(400), spoke("One two thr"), Interrupted()), emit(voice(20), spoke("Sorry."), TurnComplete()), end())
    assert found == [{"answer": "Sorry."}]
    found, _ = await deltas(emit(voice(400), spoke("One two thr"), Interrupted(), TurnComplete()), end())
    assert found == [{"answer": "One two thr"}]


# contract: LIVE-29, PLUG-04
async def test_the_state_holds_the_words_that_the_plugins_left() -> None:
    found, _ = await deltas(emit(spoke("secret"), TurnComplete()), end(), plugins=[Masking()])
    assert found == [{"answer": "***"}]


# contract: LIVE-29
async def test_an_answer_that_stands_for_the_models_is_the_turns_answer() -> None:
    async def before_model(context: Any, request: ModelRequest) -> ModelResponse:
        return ModelResponse(content=model_content([Part(text="Closed today.")]))

    model = ScriptedLiveModel()
    runner = live_runner(model, output_key="answer", before_model=before_model)
    async with go_live(runner) as live:
        await all_of(live)
    assert [event.actions.state_delta for event in await stored(runner)] == [{"answer": "Closed today."}]


async def test_without_an_output_key_nothing_is_set() -> None:
    output = TurnOutput(LlmAgent(name="agent"))
    done = Event(author="agent", turn_complete=True)
    output.apply(Event(author="agent", output_transcription=Transcription(text="Hello", finished=True)))
    assert output.apply(done) is done


def test_a_call_that_runs_on_beyond_the_next_turn_holds_nothing_up() -> None:
    output = TurnOutput(LlmAgent(name="agent", output_key="answer"))
    said = Event(author="agent", output_transcription=Transcription(text="Hello.", finished=True))
    called = Event(author="agent", content=model_content([Part(function_call=FunctionCall(id="c", name="f"))]))
    answered = Event(author="agent", content=model_content([Part(function_response=FunctionResponse(id="c", name="f"))]))
    done = Event(author="agent", turn_complete=True)
    assert [output.apply(event).actions.state_delta for event in (called, said, done, said, done, answered, done)] == [
        *[{}] * 4,
        {"answer": "Hello. Hello."},
        {},
        {},
    ]


def test_the_answers_of_other_agents_and_the_words_of_the_user_are_left_out() -> None:
    output = TurnOutput(LlmAgent(name="agent", output_key="answer"))
    for author in ("user", "other"):
        output.apply(Event(author=author, output_transcription=Transcription(text="Hello", finished=True)))
    assert output.apply(Event(author="agent", turn_complete=True)).actions.state_delta == {}


def test_utterances_are_joined_as_their_script_wants_it() -> None:
    assert joined(["Hello", "world. ", "Yes", "", "no"]) == "Hello world. Yes no"
    assert joined(["你好。", "再见。"]) == "你好。再见。"
