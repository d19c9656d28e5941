"""Calls of the text model in the local voice's conversation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from live_gateway.channel import Channel
from live_gateway.content import (
    Content,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    FunctionResponseScheduling,
    Part,
    function_responses,
    text_of,
    user_content,
)
from live_gateway.models.cascade import CascadeLimits
from live_gateway.models.keyword import KeywordModel
from live_gateway.models.live import (
    Activity,
    AudioOut,
    Interrupted,
    LiveSetup,
    ToolCalls,
    ToolCallsCancelled,
    TurnComplete,
    VoiceActivityConfig,
)
from live_gateway.models.tool_updates import TakesToolUpdates
from live_gateway.testing.scripted_model import Answer, ScriptedModel, calls, pieces
from tests.support.approvals import Till, asks, questions, results, yes
from tests.support.cascade_talk import Talk, play, talk_to
from tests.support.cascades import PAUSE, cascade
from tests.support.fake_voice import silence, speech
from tests.support.live import go_live, live_runner, until

PUSH_TO_TALK = LiveSetup(voice_activity=VoiceActivityConfig(automatic=False))


async def test_the_request_carries_instruction_tools_and_the_conversation() -> None:
    declaration = FunctionDeclaration(name="move", description="Move.")
    model = ScriptedModel(["One.", "Two."])
    async with talk_to(cascade(model), LiveSetup(instruction="Be brief.", tools=(declaration,))) as talk:
        await play(talk, [speech("first question"), PAUSE])
        await talk.turns(1)
        await play(talk, [speech("second question"), PAUSE])
        await talk.turns(2)
    request = model.requests[1]
    assert (request.instruction, request.tools, request.stream) == ("Be brief.", (declaration,), True)
    assert [(c.role, text_of(c)) for c in request.contents] == [
        ("user", "first question"),
        ("model", "One."),
        ("user", "second question"),
    ]


async def test_calls_are_handed_out_and_the_model_is_asked_again_with_their_answers() -> None:
    first, second = FunctionCall(name="move", args={"m": 1}), FunctionCall(name="turn", args={})
    model = ScriptedModel([calls(first, second, text="Let me do that."), "Done."])
    async with talk_to(cascade(model)) as talk:
        await talk.connection.send_content(user_content("move and turn"))
        await talk.until(lambda: bool(talk.of(ToolCalls)))
        assert talk.kinds == ["model~", "AudioOut", "model!", "ToolCalls"]
        (made,) = talk.of(ToolCalls)
        assert isinstance(made, ToolCalls)
        ids = [call.id for call in made.calls]
        assert len(set(ids)) == 2
        assert all(ids)
        await talk.connection.send_tool_responses([FunctionResponse(id=ids[1], name="turn", response={"ok": 2})])
        await talk.connection.send_tool_responses([FunctionResponse(id="unknown", name="x", response={})])
        assert len(model.requests) == 1
        await talk.connection.send_tool_responses([FunctionResponse(id=ids[0], name="move", response={"ok": 1})])
        await talk.turns(1)
        assert talk.said_by_model == "Let me do that.Done."
    contents = model.requests[1].contents
    assert [response.response for response in function_responses(contents[-1])] == [{"ok": 1}, {"ok": 2}]
    assert [part.function_call.name for part in contents[-2].parts or () if part.function_call] == ["move", "turn"]


async def test_rounds_of_calls_are_bounded() -> None:
    call = FunctionCall(name="again", args={})
    model = ScriptedModel([call] * 3)
    async with talk_to(cascade(model, limits=CascadeLimits(rounds=3))) as talk:
        await talk.connection.send_content(user_content("go"))
        for round_number in range(1, 4):
            await talk.until(lambda: len(talk.of(ToolCalls)) == round_number)  # noqa: B023
            made = talk.of(ToolCalls)[-1]
            assert isinstance(made, ToolCalls)
            await talk.connection.send_tool_responses([FunctionResponse(id=made.calls[0].id, name="again", response={})])
        await talk.turns(1)
        assert talk.of(TurnComplete) == [TurnComplete("model")]
        assert "could not" in talk.said_by_model


async def test_an_answer_to_a_call_that_comes_after_the_turn_is_spoken_then() -> None:
    model = ScriptedModel([FunctionCall(id="c1", name="approve", args={}), "Approved."])
    async with talk_to(cascade(model, limits=CascadeLimits(tools_s=0.01))) as talk:
        await talk.connection.send_content(user_content("please"))
        await talk.turns(1)
        assert talk.of(TurnComplete) == [TurnComplete("tools_pending")]
        part = Part(function_response=FunctionResponse(id="c1", name="approve", response={"by": "Ann"}))
        await talk.connection.send_content(Content(role="user", parts=[part]))
        await talk.turns(2)
        assert talk.said_by_model == "Approved."
    contents = model.requests[1].contents
    assert [len(function_responses(content)) for content in contents] == [0, 0, 1]
    assert function_responses(contents[-1])[0].response == {"by": "Ann"}


# contract: LIVE-17
# case: K-LTOOL-18
async def test_calls_outlast_an_interruption_and_their_answers_are_spoken_about_when_nobody_speaks() -> None:
    gate = asyncio.Event()
    new = pieces("Something new. And", " that.")
    model = ScriptedModel([calls(FunctionCall(id="c1", name="slow", args={})), (new[0], gate, *new[1:]), "It is done."])
    async with talk_to(cascade(model)) as talk:
        await talk.connection.send_content(user_content("do it"))
        await talk.until(lambda: bool(talk.of(ToolCalls)))
        await talk.connection.interrupt()
        await talk.connection.interrupt()
        await talk.connection.send_content(user_content("something else"))
        await talk.until(lambda: bool(talk.of(AudioOut)))
        await talk.connection.send_tool_responses([FunctionResponse(id="c1", name="slow", response={"ok": 1})])
        gate.set()
        await talk.turns(2)
        assert talk.said_by_model == "Something new. And that.It is done."
        assert len(talk.of(Interrupted)) == 1
        assert talk.of(ToolCallsCancelled) == []
    second, third = (request.contents for request in model.requests[1:])
    assert function_responses(second[2])[0].response == {"status": "pending"}
    assert [response.response for response in function_responses(third[-1])] == [{"ok": 1}]
    assert sum(len(function_responses(content)) for content in third) == 1


# case: K-LTOOL-18
@pytest.mark.parametrize("said", ["what about that thing", ""])
async def test_an_answer_that_comes_while_the_user_speaks_waits_until_they_have_finished(said: str) -> None:
    answers = ["About that.", "It is done."] if said else ["It is done."]
    model = ScriptedModel([calls(FunctionCall(id="c1", name="slow", args={})), *answers])
    async with talk_to(cascade(model), PUSH_TO_TALK) as talk:
        await talk.connection.send_content(user_content("do it"))
        await talk.until(lambda: bool(talk.of(ToolCalls)))
        await talk.connection.send_activity(Activity.START)
        await talk.until(lambda: bool(talk.of(Interrupted)))
        await talk.connection.send_tool_responses([FunctionResponse(id="c1", name="slow", response={"ok": 1})])
        await play(talk, [speech(said) if said else silence(640)])
        assert len(model.requests) == 1, "nobody speaks over the user"
        await talk.connection.send_activity(Activity.END)
        await talk.turns(2)
        assert talk.said_by_model == "".join(answers)


# case: K-LTOOL-18
async def test_a_silent_answer_to_an_interrupted_call_is_known_and_not_spoken_about() -> None:
    model = ScriptedModel([calls(FunctionCall(id="c1", name="slow", args={})), "Fine."])
    async with talk_to(cascade(model)) as talk:
        await talk.connection.send_content(user_content("do it"))
        await talk.until(lambda: bool(talk.of(ToolCalls)))
        await talk.connection.interrupt()
        silent = FunctionResponse(id="c1", name="slow", response={"error": "cancelled"}, scheduling=FunctionResponseScheduling.SILENT)
        await talk.connection.send_tool_responses([silent])
        await talk.connection.send_content(user_content("how are you"))
        await talk.turns(1)
    assert len(model.requests) == 2
    assert [response.response for content in model.requests[1].contents for response in function_responses(content)] == [
        {"error": "cancelled"}
    ]


async def test_what_comes_from_two_sides_at_once_is_one_answer_at_a_time() -> None:
    model = ScriptedModel([calls(FunctionCall(id="c1", name="slow", args={})), *["Well."] * 9])
    async with talk_to(cascade(model)) as talk:
        await talk.connection.send_content(user_content("do it"))
        await talk.until(lambda: bool(talk.of(ToolCalls)))
        async with asyncio.TaskGroup() as group:
            for text in ("one", "two", "three"):
                group.create_task(talk.connection.send_content(user_content(text)))
            group.create_task(talk.connection.send_tool_responses([FunctionResponse(id="c1", name="slow", response={})]))
        await talk.until(lambda: "Well." in talk.said_by_model)
    asked = [text_of(content) for content in model.requests[-1].contents if content.role == "user" and not function_responses(content)]
    assert asked == ["do it", "one", "two", "three"]


# contract: LIVE-17, HITL-06
# case: K-LTOOL-18, K-LTOOL-13
async def test_a_call_that_waits_for_a_person_outlasts_what_they_say_meanwhile() -> None:
    till = Till()
    model = ScriptedModel([calls(FunctionCall(id="c1", name="pay", args={"amount": 3})), "By card.", "Paid."])
    runner = live_runner(cascade(model), tools=[till.tool()])
    async with asyncio.timeout(20), go_live(runner) as live:
        await live.send(user_content("pay three"))
        (question,) = questions(await until(live, asks))
        await live.send(user_content("how would you pay"))
        await until(live, lambda event: event.turn_complete)
        await live.send(yes(question))
        said = await until(live, lambda event: event.turn_complete)
    assert till.paid == [3]
    assert results(said) == [("c1", {"paid": 3})]
    assert [event.output_transcription.text for event in said if event.output_transcription and not event.partial] == ["Paid."]


def piece(text: str, *, when: str | None = None, more: bool = True) -> FunctionResponse:
    scheduling = FunctionResponseScheduling(when) if when is not None else None
    return FunctionResponse(id="c1", name="watch", response={"result": text}, will_continue=more, scheduling=scheduling)


def watching(*answers: Answer) -> ScriptedModel:
    return ScriptedModel([calls(FunctionCall(id="c1", name="watch", args={})), *answers])


@asynccontextmanager
async def watched(model: ScriptedModel) -> AsyncIterator[tuple[Talk, TakesToolUpdates]]:
    """A talk in which the model has called a tool that gives pieces, and the call was answered with that it runs."""
    async with talk_to(cascade(model)) as talk:
        connection = talk.connection
        assert isinstance(connection, TakesToolUpdates)
        await talk.connection.send_content(user_content("watch it"))
        await talk.until(lambda: bool(talk.of(ToolCalls)))
        await talk.connection.send_tool_responses([piece("runs")])
        yield talk, connection


def told(model: ScriptedModel, request: int = -1) -> list[str]:
    """What the model was told of the tool's answers."""
    return [
        str((response.response or {})["result"]) + str((response.response or {}).get("status", ""))
        for content in model.requests[request].contents
        for response in function_responses(content)
    ]


# contract: LIVE-17
async def test_pieces_of_a_tool_are_spoken_about_and_of_several_the_newest() -> None:
    gate = asyncio.Event()
    first = pieces("It runs. And", " on.")
    model = watching((first[0], gate, *first[1:]), "Two.", "Three.")
    async with watched(model) as (talk, connection):
        await talk.until(lambda: bool(talk.of(AudioOut)))
        for text in ("one", "two"):
            await connection.send_tool_update(piece(text))
        gate.set()
        await talk.turns(2)
        await connection.send_tool_update(piece("three"))
        await talk.turns(3)
        assert talk.said_by_model == "It runs. And on.Two.Three."
        assert talk.of(Interrupted) == []
    assert [told(model, request) for request in (1, 2, 3)] == [["runs"], ["two"], ["three"]]


# contract: LIVE-17
async def test_a_piece_may_interrupt_and_a_silent_one_is_only_known() -> None:
    gate = asyncio.Event()
    first = pieces("It runs. And", " on.")
    model = watching((first[0], gate, *first[1:]), "One.", "Well.")
    async with watched(model) as (talk, connection):
        await talk.until(lambda: bool(talk.of(AudioOut)))
        await connection.send_tool_update(piece("one", when="INTERRUPT"))
        await talk.turns(1)
        assert len(talk.of(Interrupted)) == 1
        await connection.send_tool_update(piece("two", when="SILENT"))
        ends = piece("", when="SILENT", more=False).model_copy(update={"response": {"status": " ended"}})
        await connection.send_tool_update(ends)
        await talk.connection.send_content(user_content("how is it"))
        await talk.turns(2)
        assert talk.said_by_model == "It runs. One.Well."
    assert told(model) == ["two ended"]


# contract: LIVE-17
async def test_an_end_that_overtakes_nothing_goes_with_the_piece_that_waits() -> None:
    gate = asyncio.Event()
    first = pieces("It runs. And", " on.")
    model = watching((first[0], gate, *first[1:]), "Done.")
    async with watched(model) as (talk, connection):
        await talk.until(lambda: bool(talk.of(AudioOut)))
        await connection.send_tool_update(piece("last"))
        ends = piece("", when="SILENT", more=False).model_copy(update={"response": {"status": " ended"}})
        await connection.send_tool_update(ends)
        gate.set()
        await talk.turns(2)
    assert told(model) == ["last ended"]


# contract: LIVE-17
async def test_rules_speak_about_each_piece_and_call_the_tool_once() -> None:
    runs: list[str] = []
    go_on: Channel[str] = Channel(3)

    async def watch_oven() -> AsyncIterator[dict[str, str]]:
        """Watch the oven."""
        runs.append("watch")
        while (share := await go_on.get()) != "out":
            yield {"summary": f"Bread is {share} done."}

    said: list[str] = []
    async with asyncio.timeout(20), go_live(live_runner(cascade(KeywordModel()), tools=[watch_oven])) as live:
        await live.send(user_content("watch the oven"))
        for share in ("half", "all", "out"):
            events = await until(live, lambda event: event.turn_complete)
            said += [
                event.output_transcription.text or "" for event in events if event.output_transcription is not None and not event.partial
            ]
            go_on.put_nowait(share)
        await until(live, lambda event: bool(event.function_responses))
    assert runs == ["watch"]
    assert said[0] == "Watch oven is running in the background; its results follow as they come."
    assert said[1:] == ["Bread is half done.", "Bread is all done."]
