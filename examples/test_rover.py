"""Tests of the rover without a model, a network or a voice. Run them with `python -m pytest examples/test_rover.py`.

A test is a plain function here: `run` runs it on virtual time, so pauses and time-outs cost nothing.
"""

from dataclasses import replace

import pytest
from rover import agent

from live_gateway import DeliveredNotPersisted, Event, InMemorySessionService, LiveModel, Model, Runner, StorageError, user_content
from live_gateway.content import FunctionCall, function_responses
from live_gateway.testing import FaultySessionService, ScriptedLiveModel, ScriptedModel, run, steps


def runner_of(model: Model | None = None, live_model: LiveModel | None = None, store: FaultySessionService | None = None) -> Runner:
    """The rover with doubles in the place of what it cannot have in a test."""
    return Runner(
        app_name="rover",
        agent=replace(agent, model=model, live_model=live_model),
        session_service=store or InMemorySessionService(),
        auto_create_session=True,
    )


def test_the_model_s_call_moves_the_rover() -> None:
    call = FunctionCall(id="fc-1", name="drive", args={"direction": "left", "distance_m": 2})

    async def scenario() -> None:
        with ScriptedModel([call, "Done."]) as model:
            runner = runner_of(model)
            async with runner.run(user_id="u", session_id="s", message=user_content("two meters to the left")) as events:
                answers = [event.text async for event in events if event.text]
        assert answers == ["Done."]
        [response] = function_responses(model.requests[1].contents[-1])
        assert response.response == {"summary": "I drove 2 meters left."}
        session = await runner.session_service.get(app_name="rover", user_id="u", session_id="s")
        assert session.state["position"] == (-2, 0)

    run(scenario())


def test_a_spoken_question_is_recorded_in_the_order_in_which_it_was_heard() -> None:
    script: list[steps.Step] = [
        steps.expect_audio(ms=200),
        steps.hear("where are you"),
        steps.call("report_position", id="fc-1"),
        steps.expect_tool_responses("fc-1"),
        steps.say("At the start.", ms=600),
        steps.pause(2),  # until it was played: a session that ends before records how much of it was heard
        steps.end(),
    ]

    async def scenario() -> None:
        with ScriptedLiveModel(script) as model:
            runner = runner_of(live_model=model)
            async with runner.run_live(user_id="u", session_id="s") as live:
                live.push_audio(bytes(2 * 16 * 200))
                events = [event async for event in live]
        record = [kind(event) for event in events if event.seq]
        assert record == ["heard: where are you", "call", "response", "said: At the start.", "turn complete"]

    run(scenario())


def test_the_model_goes_silent_for_a_minute() -> None:
    async def scenario() -> None:
        with ScriptedLiveModel([steps.expect_content("hello"), steps.pause(60), steps.say("Hello."), steps.end()]) as model:
            async with runner_of(live_model=model).run_live(user_id="u", session_id="s") as live:
                await live.send(user_content("hello"))
                said = [event.transcription.text async for event in live if event.transcription and not event.partial]
        assert said == ["Hello."]

    run(scenario())  # takes no minute


def test_a_store_that_fails_is_told_apart_from_a_model_that_does() -> None:
    async def scenario() -> None:
        store = FaultySessionService(InMemorySessionService())
        with ScriptedLiveModel([steps.expect_content("hello")]) as model:
            async with runner_of(live_model=model, store=store).run_live(user_id="u", session_id="s") as live:
                store.fail_append(1, StorageError("the disk is full"))
                with pytest.raises(DeliveredNotPersisted):
                    await live.send(user_content("hello"))

    run(scenario())


def kind(event: Event) -> str:
    """What an event of the record is, in a word or two."""
    if event.input_transcription is not None:
        return f"heard: {event.input_transcription.text}"
    if event.output_transcription is not None:
        return f"said: {event.output_transcription.text}"
    if event.function_calls:
        return "call"
    return "response" if event.function_responses else "turn complete" if event.turn_complete else "other"
