from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_gateway.content import Content, FunctionDeclaration, FunctionResponse, Part, function_calls, model_content, text_of, user_content
from live_gateway.demo import get_time, get_weather, move, set_timer
from live_gateway.models.base import Model, ModelRequest
from live_gateway.models.keyword import KeywordModel
from live_gateway.models.keyword.speech import say_results
from live_gateway.models.keyword.units import quantities, unit_of
from live_gateway.models.keyword.words import split_name, stem
from live_gateway.tools.hand_over import TaskCompleted, TransferToAgent
from live_gateway.voice.numbers import spell, tokenize

STRING, NUMBER, INTEGER, BOOLEAN = ({"type": kind} for kind in ("string", "number", "integer", "boolean"))


def declare(name: str, description: str, required: list[str] | None = None, **properties: dict[str, Any]) -> FunctionDeclaration:
    schema = {"type": "object", "properties": properties, "required": list(properties) if required is None else required}
    return FunctionDeclaration(name=name, description=description, parameters_json_schema=schema)


DEMO = tuple(tool.declaration for tool in (get_weather, get_time, move, set_timer))
ROBOT = (
    declare("get_weather", "Say what the weather is like in a city.", city=STRING),
    declare(
        "move",
        "Move the robot in a direction.",
        direction={"type": "string", "enum": ["forward", "backward", "left", "right"]},
        distance_m=NUMBER | {"description": "How far, in metres."},
    ),
    declare("get_time", "Say what time it is in a city.", city=STRING),
    declare("set_timer", "Set a timer that rings after so many seconds.", seconds=INTEGER),
)
OFFICE = (
    declare(
        "book_flight", "Book a flight between two airports.", ["origin", "destination"], origin=STRING, destination=STRING, date=STRING
    ),
    declare("play_music", "Play music of a genre.", genre=STRING),
    declare("switch_light", "Switch a light in a room.", room=STRING, state={"type": "string", "enum": ["on", "off"]}),
    declare("set_volume", "Set how loud it is.", percent=INTEGER),
    declare("send_message", "Send a message to a contact.", recipient=STRING, text=STRING),
    declare("createReminder", "Create a reminder.", ["text"], text=STRING, time=STRING),
    declare("search_web", "Search the web.", query=STRING),
    declare("set_alarm", "Switch the alarm on or off.", enabled=BOOLEAN),
)


async def answer(contents: list[Content], tools: tuple[FunctionDeclaration, ...]) -> Content:
    responses = [response async for response in KeywordModel().generate(ModelRequest(contents=tuple(contents), tools=tools))]
    assert len(responses) == 1
    assert not responses[0].partial
    content = responses[0].content
    assert content is not None
    assert content.role == "model"
    return content


async def understood(text: str, tools: tuple[FunctionDeclaration, ...]) -> tuple[str, dict[str, Any]] | str:
    content = await answer([user_content(text)], tools)
    calls = function_calls(content)
    return (calls[0].name or "", calls[0].args or {}) if calls else text_of(content)


async def conversation(*said: str, tools: tuple[FunctionDeclaration, ...] = ROBOT) -> list[Any]:
    """What the model answers to each: a text, or (tool, args), after which the tool answers `Done.`"""
    contents: list[Content] = []
    answers: list[Any] = []
    for text in said:
        contents.append(user_content(text))
        content = await answer(contents, tools)
        contents.append(content)
        calls = function_calls(content)
        answers.append((calls[0].name, calls[0].args) if calls else text_of(content))
        if calls:
            response = FunctionResponse(name=calls[0].name, response={"result": "Done."})
            contents.append(Content(role="user", parts=[Part(function_response=response)]))
            contents.append(await answer(contents, tools))
    return answers


def test_it_is_a_text_model() -> None:
    model: Model = KeywordModel()
    assert model.name == "keyword"


FORWARD_10 = ("move", {"direction": "forward", "distance_m": 10})


@pytest.mark.parametrize("tools", [ROBOT, DEMO], ids=["made here", "of the demo agent"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("go forward ten meters", FORWARD_10),
        ("Go forward 10 meters.", FORWARD_10),
        ("Move ahead by ten metres please", FORWARD_10),
        ("drive straight 2.5 km", ("move", {"direction": "forward", "distance_m": 2500})),
        ("walk back half a meter", ("move", {"direction": "backward", "distance_m": 0.5})),
        ("go left three feet", ("move", {"direction": "left", "distance_m": 0.9144})),
        ("what is the weather in Hangzhou", ("get_weather", {"city": "Hangzhou"})),
        ("what's the weather like in new york tomorrow?", ("get_weather", {"city": "New York"})),
        ("weather Berlin", ("get_weather", {"city": "Berlin"})),
        ("what time is it in Paris", ("get_time", {"city": "Paris"})),
        ("tell me the time for Rio de Janeiro", ("get_time", {"city": "Rio de Janeiro"})),
        ("set a timer for two minutes", ("set_timer", {"seconds": 120})),
        ("Set a timer for 1 minute and 30 seconds.", ("set_timer", {"seconds": 90})),
        ("timer for an hour and a half", ("set_timer", {"seconds": 5400})),
        ("please set a timer, half an hour", ("set_timer", {"seconds": 1800})),
    ],
)
async def test_what_is_said_picks_the_tool_and_fills_it(text: str, expected: Any, tools: tuple[FunctionDeclaration, ...]) -> None:
    assert await understood(text, tools) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "book a flight from Berlin to New York on Friday",
            ("book_flight", {"origin": "Berlin", "destination": "New York", "date": "Friday"}),
        ),
        ("play some jazz", ("play_music", {"genre": "jazz"})),
        ("switch the light in the kitchen on", ("switch_light", {"room": "kitchen", "state": "on"})),
        ("turn off the light in the bedroom", ("switch_light", {"room": "bedroom", "state": "off"})),
        ("set the volume to 50%", ("set_volume", {"percent": 50})),
        ("volume thirty percent", ("set_volume", {"percent": 30})),
        ("send a message to Anna saying I will not be late", ("send_message", {"recipient": "Anna", "text": "I will not be late"})),
        ("remind me to call mom at 5 pm", ("createReminder", {"text": "call mom at 5 pm"})),
        ("search the web for cat videos", ("search_web", {"query": "cat videos"})),
        ("look for pizza places in Rome", ("search_web", {"query": "pizza places in Rome"})),
        ("alarm off", ("set_alarm", {"enabled": False})),
        ("enable the alarm", ("set_alarm", {"enabled": True})),
    ],
)
async def test_tools_it_has_never_seen(text: str, expected: Any) -> None:
    assert await understood(text, OFFICE) == expected


@pytest.mark.parametrize(
    "text",
    [
        "tell me a joke", "how are you", "He was not an ill-disposed young man.", "ten of clubs", "blah", "...", "",
        "Had he married a more amiable woman, he might have been made still more respectable than he was.",
        "cancel the timer", "stop the timer", "don't move", "do not go forward ten meters", "never mind",
    ],
)  # fmt: skip
@pytest.mark.parametrize("tools", [ROBOT, DEMO], ids=["made here", "of the demo agent"])
async def test_what_it_does_not_understand_it_says_with_what_it_can_do(text: str, tools: tuple[FunctionDeclaration, ...]) -> None:
    said = await understood(text, tools)
    assert isinstance(said, str)
    assert "did not understand" in said
    assert all(" ".join(split_name(tool.name or "")) in said for tool in tools)


@pytest.mark.parametrize("text", ["what can you do", "help", "Hello!"])
async def test_it_tells_what_it_can_do(text: str) -> None:
    said = await understood(text, ROBOT)
    assert "I can help with: get weather, move, get time and set timer." in said
    assert "did not understand" not in said


async def test_it_names_the_agents_to_whom_it_can_hand_over() -> None:
    hand_over = TransferToAgent(("orders", "returns"), {}).declaration
    assert await understood("what can you do", (hand_over,)) == "I can hand you over to orders or returns."
    said = await understood("help", (ROBOT[2], hand_over, TaskCompleted.declaration))
    assert said == "I can help with: get time. I can hand you over to orders or returns."


async def test_without_tools_it_says_that() -> None:
    assert "no tools" in await understood("go forward ten meters", ())


async def test_what_is_missing_is_asked_for_and_the_reply_completes_the_call() -> None:
    assert await conversation("what's the weather", "Hangzhou.") == ["Which city?", ("get_weather", {"city": "Hangzhou"})]
    assert await conversation("move", "forward", "ten") == [
        "Which direction: forward, backward, left or right?",
        "How many meters?",
        FORWARD_10,
    ]
    assert await conversation("set a timer", "uh, five minutes please") == ["How many seconds?", ("set_timer", {"seconds": 300})]
    assert (await conversation("book a flight", "from Rome", "Paris", tools=OFFICE))[-1] == (
        "book_flight",
        {"origin": "Rome", "destination": "Paris"},
    )


async def test_a_reply_may_ask_for_something_else_or_for_nothing() -> None:
    assert (await conversation("set a timer", "what time is it in Rome"))[-1] == ("get_time", {"city": "Rome"})
    assert (await conversation("set a timer", "never mind"))[-1] == "Okay."
    assert (await conversation("set a timer", "never mind", "ten"))[-1].startswith("Sorry")


async def test_a_reply_that_is_no_answer_is_asked_again() -> None:
    answers = await conversation("set a timer", "blue", "ninety seconds")
    assert answers == ["How many seconds?", "Sorry, I did not understand that. How many seconds?", ("set_timer", {"seconds": 90})]


async def test_a_question_that_was_answered_is_not_open_any_more() -> None:
    answers = await conversation("what's the weather", "Oslo", "Berlin")
    assert answers[1] == ("get_weather", {"city": "Oslo"})
    assert "did not understand" in answers[2]


async def test_a_question_cut_short_by_the_user_is_still_open() -> None:
    contents = [user_content("move"), model_content([Part(text="Which direction: ")]), user_content("left two meters")]
    calls = function_calls(await answer(contents, ROBOT))
    assert calls[0].args == {"direction": "left", "distance_m": 2}


async def test_two_tools_that_fit_alike_are_offered() -> None:
    tools = (declare("open_door", "Open.", ["x"], x=STRING), declare("close_door", "Close.", ["x"], x=STRING))
    assert await understood("the door", tools) == "Do you mean open door or close door?"


async def test_schemas_with_references_null_and_constants_are_read() -> None:
    schema = {
        "type": "object",
        "$defs": {"Mood": {"type": "string", "enum": ["happy", "sad"]}},
        "properties": {
            "mood": {"$ref": "#/$defs/Mood"},
            "minutes": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "options": {"type": "object"},
        },
        "required": ["mood"],
    }
    tools = (FunctionDeclaration(name="dance", description="Dance.", parameters_json_schema=schema),)
    assert await understood("dance happily for half an hour", tools) == "Which mood: happy or sad?"
    assert await understood("dance sad for half an hour", tools) == ("dance", {"mood": "sad", "minutes": 30})


async def test_a_parameter_that_words_cannot_fill_is_said_to_be_so() -> None:
    tools = (declare("upload_file", "Upload a file.", file={"type": "object"}),)
    assert await understood("upload a file", tools) == "I cannot upload file, because I cannot fill in file from what is said."


@pytest.mark.parametrize(
    ("response", "said"),
    [
        ({"summary": "It is sunny.", "sky": "sunny"}, "It is sunny."),
        ({"result": "moved ten meters"}, "Moved ten meters."),
        ({"result": {"message": "All good!"}}, "All good!"),
        ({"result": 42}, "42."),
        ({"result": [1, 2, 3, 4, 5, 6, 7]}, "1, 2, 3, 4, 5 and 2 more."),
        ({"result": []}, "None."),
        (
            {"city": "Oslo", "temperature_c": -3.5, "windy": True},
            "The city is Oslo, the temperature is -3.5 degrees Celsius and the windy is yes.",
        ),
        ({"distance_m": 10, "ok": True}, "The distance is 10 meters."),
        ({"error": "no such city"}, "That did not work: no such city."),
        ({"error": "no such city", "summary": "All fine."}, "That did not work: no such city."),
        ({"error": {"code": 5}}, "That did not work: the code is 5."),
        ({"status": "error", "message": "The wheel is stuck."}, "That did not work: The wheel is stuck."),
        ({"status": "failed"}, "That did not work: get weather failed."),
        ({"ok": False}, "That did not work: get weather failed."),
        ({"status": "ok"}, "Get weather: done."),
        ({"result": None}, "Get weather: done."),
        ({}, "Get weather: done."),
        ({"status": "pending"}, "Get weather is still under way."),
    ],
)
def test_results_are_read_out_and_failures_are_called_so(response: dict[str, Any], said: str) -> None:
    assert say_results([FunctionResponse(name="get_weather", response=response)]) == said


async def test_several_results_are_read_out_in_order() -> None:
    parts = [Part(function_response=FunctionResponse(name="x", response={"say": text})) for text in ("One", "Two")]
    content = await answer([user_content("do both"), Content(role="user", parts=parts)], ROBOT)
    assert text_of(content) == "One. Two."


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("timers", "timer"),
        ("moving", "move"),
        ("cities", "city"),
        ("boxes", "box"),
        ("stopped", "stop"),
        ("metres", "meter"),
        ("Go", "drives"),
    ],
)
def test_words_of_one_meaning_have_one_stem(one: str, other: str) -> None:
    assert stem(one) == stem(other)


def test_time_and_timer_differ() -> None:
    assert stem("time") != stem("timer")


def test_identifiers_are_split() -> None:
    assert split_name("getHTTPCode_v2-now") == ["get", "http", "code", "v", "2", "now"]


units = st.sampled_from([("seconds", 1), ("minutes", 60), ("hours", 3600)])


@given(st.integers(1, 500), units, st.booleans())
def test_any_duration_fills_a_parameter_in_seconds(count: int, unit: tuple[str, int], as_words: bool) -> None:
    text = f"{spell(count) if as_words else count} {unit[0]}"
    (quantity,) = quantities(text, tokenize(text))
    assert quantity.unit == unit_of(unit[0])
    assert quantity.unit is not None
    assert quantity.value * quantity.unit.factor == count * unit[1]


words = st.sampled_from(
    [
        "set",
        "a",
        "timer",
        "for",
        "ten",
        "two",
        "meters",
        "minutes",
        "go",
        "forward",
        "left",
        "in",
        "Paris",
        "weather",
        "time",
        "and",
        "not",
        "half",
        "of",
    ]
)


@given(st.lists(words, max_size=10).map(" ".join))
async def test_whatever_is_said_a_call_is_complete_and_made_of_the_users_words(text: str) -> None:
    result = await understood(text, ROBOT)
    if isinstance(result, str):
        assert result
        return
    name, args = result
    declaration = next(tool for tool in ROBOT if tool.name == name)
    schema = declaration.parameters_json_schema
    assert isinstance(schema, dict)
    assert set(schema["required"]) == set(args)
    for value in args.values():
        assert not isinstance(value, str) or value.lower() in text.lower() or value in ("forward", "left")


@given(st.text(max_size=80))
async def test_any_text_has_an_answer(text: str) -> None:
    for tools in (ROBOT, OFFICE):
        result = await understood(text, tools)
        assert result


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda v: st.lists(v, max_size=4) | st.dictionaries(st.text(max_size=8), v, max_size=4),
        max_leaves=8,
    )
)
def test_any_result_can_be_said(value: Any) -> None:
    response = value if isinstance(value, dict) else {"result": value}
    assert say_results([FunctionResponse(name="f", response=response)])
