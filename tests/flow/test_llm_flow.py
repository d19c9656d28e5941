"""One agent turn: model, tools, again, until the answer is final."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest
from pydantic import BaseModel

from live_gateway.agents.config import RunConfig
from live_gateway.agents.context import InvocationContext, ToolContext
from live_gateway.agents.llm import LlmAgent
from live_gateway.content import Content, FunctionResponse, Part, Transcription, model_content, user_content
from live_gateway.errors import AgentError, ModelUnavailable, PluginError, UpstreamLost
from live_gateway.events import Event, replace
from live_gateway.models.base import ModelRequest, ModelResponse
from live_gateway.plugins.base import Plugin
from live_gateway.runner import Runner
from live_gateway.testing.scripted_model import calls, pieces
from live_gateway.tools.function import FunctionTool
from tests.support.runs import Recorder, bot, call, model_of, outcomes, run, session, short, start, stored

SSE = RunConfig(streaming_mode="sse")


def thought(text: str) -> ModelResponse:
    return ModelResponse(content=model_content([Part(text=text, thought=True)]))


def last_parts(request: ModelRequest) -> list[Part]:
    return list(request.contents[-1].parts or ())


# contract: FLOW-02
# case: K-RUN-04
async def test_the_weather_example_is_stored_in_order_and_each_event_before_it_is_yielded() -> None:
    def get_weather(city: str) -> dict[str, str]:
        """The weather in a city."""
        return {"weather": f"sunny in {city}"}

    agent = bot(call("get_weather", city="Rome"), "It is sunny.", tools=[get_weather])
    runner = Runner.in_memory("app", agent)
    seen: list[str] = []
    async for event in start(runner, "How is the weather in Rome?"):
        assert (await stored(runner))[-1].id == event.id
        seen += short([event])
    expected = ["bot: FC(get_weather)", "bot: FR(get_weather:{'weather': 'sunny in Rome'})", "bot: It is sunny."]
    assert seen == expected
    assert short(await stored(runner)) == ["user: How is the weather in Rome?", *expected]
    assert [event.seq for event in await stored(runner)] == [1, 2, 3, 4]
    answered = (await stored(runner))[2].content
    assert answered is not None
    assert answered.role == "user"


# contract: EVT-05
async def test_a_call_without_an_id_gets_one_that_pairs_it_and_that_the_model_never_sees() -> None:
    def one() -> str:
        return "a"

    agent = bot(calls(call("one"), call("one"), call("one", "own"), call("one", "own")), "done", tools=[one])
    runner = Runner.in_memory("app", agent)
    asked, answered, _ = await run(runner)
    ids = [each.id or "" for each in asked.function_calls]
    assert len(set(ids)) == 4
    assert ids[2] == "own"
    assert all(call_id.startswith("adk-") for call_id in (ids[0], ids[1], ids[3]))
    assert [each.id for each in answered.function_responses] == ids
    request = model_of(agent).requests[1]
    assert [part.function_response.id for part in last_parts(request) if part.function_response] == [None, None, "own", None]


# contract: FLOW-01, RUN-02
async def test_a_tool_starts_only_when_the_event_after_its_call_is_asked_for() -> None:
    started: list[str] = []

    def work() -> str:
        started.append("work")
        return "ok"

    runner = Runner.in_memory("app", bot(call("work"), "done", tools=[work]))
    async with start(runner) as stream:
        first = await anext(stream)
        await asyncio.sleep(0.01)
        assert first.function_calls
        assert started == []
        await anext(stream)
        assert started == ["work"]


# contract: FLOW-02
async def test_the_next_request_shows_the_event_as_a_plugin_changed_it() -> None:
    class Rewriter(Plugin):
        async def on_event(self, invocation: InvocationContext, event: Event) -> Event | None:
            if not event.function_calls:
                return None
            changed = event.function_calls[0].model_copy(update={"args": {"n": 2}})
            return replace(event, content=model_content([Part(function_call=changed)]))

    got: list[int] = []

    def take(n: int) -> str:
        got.append(n)
        return "ok"

    agent = bot(call("take", n=1), "done", tools=[take])
    await run(Runner.in_memory("app", agent, plugins=[Rewriter("rewriter")]))
    shown = model_of(agent).requests[1].contents[1].parts
    assert shown is not None
    assert shown[0].function_call is not None
    assert shown[0].function_call.args == {"n": 2}
    assert got == [2]


class Rejecter(Plugin):
    """Rejects every event that `which` picks."""

    def __init__(self, which: str) -> None:
        super().__init__("rejecter")
        self.which = which

    async def on_event(self, invocation: InvocationContext, event: Event) -> Event | None:
        if getattr(event, self.which):
            raise ValueError("no")
        return None


# contract: FLOW-03
@pytest.mark.parametrize(("which", "ran"), [("function_calls", 0), ("function_responses", 1)])
async def test_a_rejected_call_is_not_executed_and_a_rejected_response_ends_the_run(which: str, ran: int) -> None:
    started: list[int] = []

    def work() -> str:
        started.append(1)
        return "ok"

    agent = bot(call("work"), "never asked for", tools=[work])
    runner = Runner.in_memory("app", agent, plugins=[Rejecter(which)])
    got = await outcomes(runner)
    assert short(got) == (["PluginError"] if which == "function_calls" else ["bot: FC(work)", "PluginError"])
    assert len(started) == ran
    assert len(model_of(agent).requests) == 1


# contract: FLOW-04
# case: K-FLOW-08
async def test_the_model_is_asked_at_most_so_often_and_then_there_is_an_error() -> None:
    def work() -> str:
        return "ok"

    agent = bot(call("work"), call("work"), call("work"), tools=[work])
    got = await outcomes(Runner.in_memory("app", agent), config=RunConfig(max_llm_calls=2))
    assert short(got)[-1] == "AgentError"
    assert "max_llm_calls" in str(got[-1])
    assert len(model_of(agent).requests) == 2


# contract: FLOW-04
# case: K-FLOW-07
async def test_thoughts_alone_are_no_answer_and_three_in_a_row_are_an_error() -> None:
    agent = bot(thought("hm"), thought("hmm"), "so")
    assert [event.text for event in await run(Runner.in_memory("app", agent))] == ["", "", "so"]
    got = await outcomes(Runner.in_memory("app", bot(*[thought("hm")] * 3)))
    assert isinstance(got[-1], AgentError)
    assert len(got) == 4


# contract: FLOW-04
# case: K-FLOW-11
async def test_a_response_with_nothing_in_it_makes_no_event_and_ends_the_turn() -> None:
    assert await run(Runner.in_memory("app", bot(ModelResponse()))) == []
    refused = ModelResponse(error_code="SAFETY", error_message="no")
    (event,) = await run(Runner.in_memory("app", bot(refused)))
    assert (event.error_code, event.error_message) == ("SAFETY", "no")


# case: K-FLOW-09
async def test_a_missing_model_is_an_error_that_names_the_agent() -> None:
    (error,) = await outcomes(Runner.in_memory("app", LlmAgent(name="bare")))
    assert isinstance(error, ModelUnavailable)
    assert "'bare'" in str(error)


# contract: RUN-14, RUN-19
# case: K-RUN-06
# case: K-FLOW-10
async def test_streaming_yields_pieces_and_stores_the_whole_and_without_it_there_are_no_pieces() -> None:
    runner = Runner.in_memory("app", bot(pieces("He", "llo"), pieces("He", "llo"), output_key="said"))
    events = await run(runner, config=SSE)
    assert short(events) == ["bot~: He", "bot~: llo", "bot: Hello"]
    assert [event.actions.state_delta for event in events] == [{}, {}, {"said": "Hello"}]
    assert short(await stored(runner)) == ["user: hello", "bot: Hello"]
    assert short(await run(runner)) == ["bot: Hello"]


# case: K-FLOW-04
@pytest.mark.virtual_time
async def test_calls_of_one_message_run_side_by_side_and_answer_in_call_order() -> None:
    async def wait(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    agent = bot(calls(*(call("wait", seconds=s) for s in (0.5, 0.1, 0.3))), "done", tools=[wait])
    began = asyncio.get_running_loop().time()
    _, answered, _ = await run(Runner.in_memory("app", agent))
    assert asyncio.get_running_loop().time() - began == pytest.approx(0.5)
    assert [each.response for each in answered.function_responses] == [{"result": 0.5}, {"result": 0.1}, {"result": 0.3}]


# case: K-FLOW-02
@pytest.mark.parametrize(("long_running", "result", "events"), [(True, None, 1), (True, "started", 3), (False, None, 3), (False, "x", 3)])
async def test_how_many_events_a_tool_makes(long_running: bool, result: str | None, events: int) -> None:
    ran: list[int] = []

    def work() -> str | None:
        ran.append(1)
        return result

    agent = bot(call("work"), *["done"] * (events // 3), tools=[FunctionTool(work, long_running=long_running)])
    got = await run(Runner.in_memory("app", agent))
    assert len(got) == events
    assert ran == [1]
    assert got[0].long_running_tool_ids == ([got[0].function_calls[0].id] if long_running else [])
    model_of(agent).verify()


# contract: STATE-03, RUN-17
async def test_state_of_parallel_tools_is_merged_and_readable_by_the_next_tool() -> None:
    read: list[Any] = []

    def write(key: str, ctx: ToolContext) -> str:
        ctx.state[key] = {key: 1}
        ctx.state["temp:draft"] = key
        return "ok"

    def look(ctx: ToolContext) -> str:
        read.append((ctx.state["a"], ctx.state["temp:draft"]))
        return "ok"

    agent = bot(calls(call("write", key="a"), call("write", key="b")), call("look"), "done", tools=[write, look])
    runner = Runner.in_memory("app", agent)
    await run(runner)
    assert read == [({"a": 1}, "b")]
    assert dict((await session(runner)).state) == {"a": {"a": 1}, "b": {"b": 1}}


# report: A70
async def test_artifacts_saved_by_parallel_tools_are_all_recorded() -> None:
    async def save(name: str, ctx: ToolContext) -> int:
        return await ctx.save_artifact(name, Part(text=name))

    agent = bot(calls(*(call("save", name=name) for name in ("a", "b", "b"))), "done", tools=[save])
    _, answered, _ = await run(Runner.in_memory("app", agent))
    assert answered.actions.artifact_delta == {"a": 0, "b": 1}


# contract: NEW-07
async def test_a_service_that_is_not_configured_is_named() -> None:
    async def save(ctx: ToolContext) -> int:
        return await ctx.save_artifact("a", Part(text="x"))

    async def recall(ctx: ToolContext) -> int:
        return len(await ctx.search_memory("x"))

    agent = bot(calls(call("save"), call("recall")), "done", tools=[save, recall])
    full = Runner.in_memory("app", agent)
    bare = Runner(app_name="app", agent=agent, session_service=full.session_service, auto_create_session=True)
    _, answered, _ = await run(bare)
    assert [each.response for each in answered.function_responses] == [
        {"error": "artifact service is not set"},
        {"error": "memory service is not set"},
    ]


# contract: OUT-01, STATE-04
# case: K-AGENT-05
async def test_the_output_key_rides_on_the_final_answer_only() -> None:
    def work() -> str:
        return "ok"

    parts = [Part(text="secret", thought=True), Part(text="Hello "), Part(text="world"), Part(text="!")]
    agent = bot(calls(call("work"), text="let me see"), ModelResponse(content=model_content(parts)), tools=[work], output_key="result")
    runner = Runner.in_memory("app", agent)
    events = await run(runner)
    assert [event.actions.state_delta for event in events] == [{}, {}, {"result": "Hello world!"}]
    assert dict((await session(runner)).state) == {"result": "Hello world!"}


class Answer(BaseModel):
    text: str
    score: int = 0


# case: K-NODE-03
async def test_an_output_schema_without_tools_is_asked_of_the_model_and_checked() -> None:
    agent = bot('{"text": "ok"}', '{"wrong": 1}', output_schema=Answer, output_key="answer")
    runner = Runner.in_memory("app", agent)
    (event,) = await run(runner)
    assert event.output == {"text": "ok", "score": 0}
    assert dict((await session(runner)).state) == {"answer": {"text": "ok", "score": 0}}
    config = model_of(agent).requests[0].config
    assert config is not None
    assert config.response_schema is Answer
    assert config.response_mime_type == "application/json"
    (error,) = await outcomes(runner)
    assert isinstance(error, AgentError)
    assert "'bot'" in str(error)


# case: K-INST-09
async def test_an_output_schema_with_tools_is_answered_through_set_model_response() -> None:
    def work() -> str:
        return "ok"

    agent = bot(
        call("set_model_response", score="x"),
        call("set_model_response", text="fine", score=3),
        tools=[work],
        output_schema=Answer,
        output_key="answer",
    )
    runner = Runner.in_memory("app", agent)
    events = await run(runner)
    assert "does not fit" in str(events[1].function_responses[0].response)
    assert [event.output for event in events] == [None, None, None, None, {"text": "fine", "score": 3}]
    assert events[-1].text == '{"text": "fine", "score": 3}'
    assert dict((await session(runner)).state) == {"answer": {"text": "fine", "score": 3}}
    first = model_of(agent).requests[0]
    assert {declared.name for declared in first.tools} == {"work", "set_model_response"}
    assert "set_model_response" in first.instruction
    assert first.config is None


# contract: INST-01
async def test_the_instruction_is_filled_from_state_and_a_callable_is_taken_as_it_is() -> None:
    runner = Runner.in_memory("app", bot("a", instruction="Hello {name} {temp:mood}"))
    await run(runner, state_delta={"name": "Ada", "temp:mood": "calm"})
    assert model_of(runner.agent).requests[0].instruction == "Hello Ada calm"
    agent = bot("a", instruction=lambda _context: "raw {name}")
    await run(Runner.in_memory("app", agent))
    assert model_of(agent).requests[0].instruction == "raw {name}"


# case: K-CONT-01
async def test_include_contents_none_shows_the_current_turn_only() -> None:
    agent = bot("a", "b", include_contents="none")
    runner = Runner.in_memory("app", agent)
    await run(runner, "hello")
    await run(runner, "good bye")
    assert [content.parts for content in model_of(agent).requests[1].contents] == [[Part(text="good bye")]]


# case: K-LHIST-01
async def test_what_was_said_live_is_part_of_the_next_request() -> None:
    agent = bot("a")
    runner = Runner.in_memory("app", agent)
    live = await runner.session_service.create(app_name="app", user_id="u", session_id="s")
    for event in (
        Event(author="user", input_transcription=Transcription(text="my name is Ada")),
        Event(author="bot", output_transcription=Transcription(text="hello Ada")),
    ):
        await runner.session_service.append_event(live, event)
    await run(runner, "who am I?")
    contents = model_of(agent).requests[0].contents
    assert [(content.role, (content.parts or [Part()])[0].text) for content in contents] == [
        ("user", "my name is Ada"),
        ("model", "hello Ada"),
        ("user", "who am I?"),
    ]


# contract: PLUG-08
# case: K-PLUG-03
async def test_a_response_of_before_model_stands_for_the_model() -> None:
    seen: list[str] = []

    async def own(_context: InvocationContext, _request: ModelRequest) -> ModelResponse | None:
        seen.append("own before_model")
        return ModelResponse(content=model_content([Part(text="from the agent")]))

    agent = bot(before_model=own)
    plugin = Recorder(seen, before_model=ModelResponse(content=model_content([Part(text="from the plugin")])))
    assert short(await run(Runner.in_memory("app", agent, plugins=[plugin]))) == ["bot: from the plugin"]
    assert "own before_model" not in seen
    assert "after_model" not in seen
    assert short(await run(Runner.in_memory("app", agent))) == ["bot: from the agent"]
    assert model_of(agent).requests == []


# contract: PLUG-08
async def test_after_model_replaces_pieces_and_answers_without_making_one_of_the_other() -> None:
    async def shout(_context: InvocationContext, response: ModelResponse) -> ModelResponse | None:
        text = (response.content.parts or [Part()])[0].text if response.content else ""
        return ModelResponse(content=model_content([Part(text=(text or "").upper())]))

    events = await run(Runner.in_memory("app", bot(pieces("a", "b"), after_model=shout)), config=SSE)
    assert short(events) == ["bot~: A", "bot~: B", "bot: AB"]


# contract: PLUG-08
async def test_a_failing_model_is_answered_by_plugins_then_by_the_agent_and_else_reaches_the_caller() -> None:
    async def rescue(_context: InvocationContext, _request: ModelRequest, error: Exception) -> ModelResponse | None:
        return ModelResponse(content=model_content([Part(text=f"sorry: {error}")]), partial=True)

    lost = UpstreamLost("gone")
    assert short(await run(Runner.in_memory("app", bot(lost, on_model_error=rescue)))) == ["bot: sorry: gone"]
    plugin = Recorder([], on_model_error=ModelResponse(content=model_content([Part(text="from the plugin")])))
    assert short(await run(Runner.in_memory("app", bot(lost, on_model_error=rescue), plugins=[plugin]))) == ["bot: from the plugin"]
    assert await outcomes(Runner.in_memory("app", bot(lost))) == [lost]
    piece = ModelResponse(content=model_content([Part(text="half")]), partial=True)
    got = await outcomes(Runner.in_memory("app", bot([piece])), config=SSE)
    assert short(got) == ["bot~: half", "ModelError"]


# contract: PLUG-08
# case: K-AGENT-02
async def test_before_and_after_agent_add_an_event_or_stand_for_the_agent() -> None:
    def content(text: str) -> Content:
        return model_content([Part(text=text)])

    async def before(_context: InvocationContext) -> Content | None:
        return content("instead")

    async def after(_context: InvocationContext) -> Content | None:
        return content("and more")

    skipped = bot(before_agent=before, after_agent=after)
    assert short(await run(Runner.in_memory("app", skipped))) == ["bot: instead"]
    assert short(await run(Runner.in_memory("app", bot("a", after_agent=after)))) == ["bot: a", "bot: and more"]
    plugin = Recorder([], before_agent=content("plugin first"))
    assert short(await run(Runner.in_memory("app", skipped, plugins=[plugin]))) == ["bot: plugin first"]


# case: K-AGENT-03
async def test_what_callbacks_write_to_the_state_is_stored_with_an_event() -> None:
    async def before(context: InvocationContext) -> Content | None:
        context.state["before"] = 1
        return None

    async def before_model(context: InvocationContext, _request: ModelRequest) -> ModelResponse | None:
        context.state["model"] = context.state["before"] + 1
        return None

    runner = Runner.in_memory("app", bot("a", before_agent=before, before_model=before_model))
    events = await run(runner)
    assert [event.actions.state_delta for event in events] == [{"before": 1}, {"model": 2}]
    assert dict((await session(runner)).state) == {"before": 1, "model": 2}


# contract: PLUG-02
async def test_a_plugins_failure_in_a_tool_reaches_the_caller_and_the_other_calls_are_cancelled() -> None:
    ended: list[str] = []

    async def slow() -> str:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("slow")
        return "ok"

    async def quick() -> str:
        return "ok"

    agent = bot(calls(call("slow"), call("quick")), tools=[slow, quick])
    got = await outcomes(Runner.in_memory("app", agent, plugins=[Recorder([], after_tool=ValueError("bad"))]))
    assert short(got) == ["bot: FC(slow) | FC(quick)", "PluginError"]
    assert isinstance(got[-1], PluginError)
    assert (got[-1].plugin, got[-1].hook) == ("recorder", "after_tool")
    assert ended == ["slow"]


# contract: NODE-05
async def test_an_answer_to_a_long_running_call_reaches_the_model_with_its_call() -> None:
    agent = bot(call("slow", "c1"), "thank you", tools=[FunctionTool(lambda: None, name="slow", long_running=True)])
    runner = Runner.in_memory("app", agent)
    (asked,) = await run(runner)
    answer = Content(role="user", parts=[Part(function_response=FunctionResponse(name="slow", id="c1", response={"ok": True}))])
    (said,) = await run(runner, answer)
    assert said.text == "thank you"
    assert said.invocation_id == asked.invocation_id
    roles = [(content.role, len(content.parts or ())) for content in model_of(agent).requests[1].contents]
    assert roles == [("user", 1), ("model", 1), ("user", 1)]


# contract: NEW-08
async def test_a_run_changes_neither_agent_nor_message_nor_the_models_responses() -> None:
    def work() -> str:
        return "ok"

    response = calls(call("work"))
    agent, message = bot(response, "done", tools=[work]), user_content("hi")
    before = copy.deepcopy((message, response, agent.instruction, dict(agent.toolbox)["work"].declaration))
    await run(Runner.in_memory("app", agent), message)
    assert (message, response, agent.instruction, dict(agent.toolbox)["work"].declaration) == before
