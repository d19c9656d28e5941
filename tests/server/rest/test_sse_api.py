"""`POST /run_sse`: the events of a run as they come, and what holds when the connection does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from live_gateway.agents.context import InvocationContext, ToolContext
from live_gateway.agents.custom import CustomAgent
from live_gateway.content import FunctionCall, Part, model_content
from live_gateway.errors import UpstreamLost
from live_gateway.events import Event, EventActions
from live_gateway.runner import Runner
from live_gateway.server.gateway import ServerConfig
from live_gateway.server.rest import runs as serving
from live_gateway.testing.scripted_model import ScriptedModel, pieces
from live_gateway.tools.function import tool
from tests.support.http_client import Frame, HttpClient
from tests.support.rest import SESSIONS, answering, asking, client_of, rest_runner

pytestmark = pytest.mark.virtual_time


async def opened(client: HttpClient) -> HttpClient:
    await client.post(f"{SESSIONS}/s")
    return client


def texts(frames: list[Frame]) -> list[str]:
    """The texts of the frames; `~` before a piece, the id behind what has one."""
    found = []
    for frame in frames:
        if frame.comment is None and frame.data is not None and "content" in frame.data:
            text = frame.data["content"]["parts"][0].get("text", "?")
            found.append(f"{'~' if frame.data.get('partial') else ''}{text}{'' if frame.id is None else f'@{frame.id}'}")
    return found


# contract: RUN-19
# report: C11
async def test_pieces_then_the_whole_with_ids_and_headers() -> None:
    async with client_of(rest_runner(ScriptedModel([pieces("All ", "is well.")]))) as client:
        await opened(client)
        async with client.open("POST", "/run_sse", data=asking(streaming=True)) as exchange:
            frames = await exchange.frames()
        assert exchange.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert exchange.headers["cache-control"] == "no-cache"
        assert exchange.headers["x-accel-buffering"] == "no"
        assert "content-length" not in exchange.headers
        assert frames[0] == Frame(id=1)
        assert texts(frames) == ["~All ", "~is well.", "All is well.@2"]
        assert [frame.data.get("seq") for frame in frames[1:]] == [None, None, 2]


async def test_without_streaming_only_whole_events_come() -> None:
    async with client_of(rest_runner(ScriptedModel([pieces("All ", "is well.")]))) as client:
        await opened(client)
        async with client.open("POST", "/run_sse", data=asking()) as exchange:
            assert texts(await exchange.frames()) == ["All is well.@2"]


# contract: RUN-15
async def test_frames_come_while_the_run_goes_on_and_after_they_were_stored() -> None:
    gate = asyncio.Event()
    model = ScriptedModel([FunctionCall(id="fc-1", name="wait_here", args={}), "Done."])

    @tool
    async def wait_here() -> dict[str, Any]:
        """Wait."""
        await gate.wait()
        return {}

    async with client_of(rest_runner(model, tools=[wait_here])) as client:
        await opened(client)
        async with client.open("POST", "/run_sse", data=asking()) as exchange:
            await exchange.frame()
            call = await exchange.frame()
            assert call is not None
            stored = (await client.get(f"{SESSIONS}/s")).json["events"]
            assert stored[-1]["id"] == call.data["id"]
            gate.set()
            assert texts(await exchange.frames())[-1] == "Done.@4"


# report: A64
# case: K-REST-08
async def test_silence_is_filled_with_comments() -> None:
    @tool(timeout_s=60)
    async def think() -> dict[str, Any]:
        """Take a while."""
        await asyncio.sleep(40)
        return {}

    async with client_of(rest_runner(ScriptedModel([FunctionCall(id="fc-1", name="think", args={}), "Yes."]), tools=[think])) as client:
        await opened(client)
        async with client.open("POST", "/run_sse", data=asking()) as exchange:
            frames = await exchange.frames()
        kinds = ["comment" if frame.comment else frame.id for frame in frames]
        assert kinds == [1, 2, "comment", "comment", 3, 4]


# report: A71
async def test_failure_after_the_beginning_is_one_frame_and_a_clean_end() -> None:
    model = ScriptedModel([[*pieces("So ")[:1], UpstreamLost("the model hung up")], [*pieces("So ")[:1], KeyError("secret")]])
    async with client_of(rest_runner(model)) as client:
        await opened(client)
        for code, message in (("upstream_lost", "the model hung up"), ("internal", "Something went wrong on the server.")):
            async with client.open("POST", "/run_sse", data=asking(streaming=True)) as exchange:
                frames = await exchange.frames()
            assert exchange.status == 200
            assert texts(frames) == ["~So "]
            problem = frames[-1].data
            assert problem["error"] == f"{code}: {message}"
            assert isinstance(problem["error_details"].pop("timestamp"), float)
            assert problem["error_details"] == {"error_type": code, "error_message": message, "retryable": code == "upstream_lost"}


async def test_failure_before_the_beginning_is_an_answer_of_its_own() -> None:
    async with client_of(rest_runner(ScriptedModel([UpstreamLost("the model hung up")]))) as client:
        await opened(client)
        answer = await client.post("/run_sse", asking(None))
        assert (answer.status, answer.json["code"]) == (502, "upstream_lost")


async def test_a_slow_beginning_opens_the_stream_all_the_same() -> None:
    gate = asyncio.Event()
    async with client_of(rest_runner(ScriptedModel([[gate, "At last."]]))) as client:
        await opened(client)
        async with client.open("POST", "/run_sse", data=asking(None)) as exchange:
            assert await exchange.started() == 200
            assert asyncio.get_running_loop().time() == 10
            gate.set()
            assert texts(await exchange.frames()) == ["At last.@1"]


async def test_event_with_content_and_artifact_is_split_as_google_adk_does() -> None:
    @tool
    async def draw(ctx: ToolContext) -> dict[str, Any]:
        """Draw."""
        await ctx.save_artifact("picture", Part(text="a cat"))
        return {}

    model = ScriptedModel([FunctionCall(id="fc-1", name="draw", args={}), "Drawn."])
    async with client_of(rest_runner(model, tools=[draw])) as client:
        await opened(client)
        async with client.open("POST", "/run_sse", data=asking()) as exchange:
            frames = await exchange.frames()
        drawn = [frame for frame in frames if frame.data and frame.data["seq"] == 3]
        assert [(frame.id, "content" in frame.data, frame.data["actions"]["artifactDelta"]) for frame in drawn] == [
            (None, True, {}),
            (3, False, {"picture": 0}),
        ]


async def test_answer_that_names_its_event_gets_whole_events() -> None:
    @tool(long_running=True)
    async def order() -> dict[str, Any]:
        """Order."""
        return {"status": "ordered"}

    @tool
    async def draw(ctx: ToolContext) -> dict[str, Any]:
        """Draw."""
        await ctx.save_artifact("picture", Part(text="a cat"))
        return {}

    model = ScriptedModel([FunctionCall(id="a", name="order"), "Ordered.", FunctionCall(id="b", name="draw"), "Drawn."])
    async with client_of(rest_runner(model, tools=[order, draw])) as client:
        await opened(client)
        call = (await client.post("/run", asking())).json[0]
        answer = answering("a", "order", {}, functionCallEventId=call["id"])
        async with client.open("POST", "/run_sse", data=answer) as exchange:
            frames = await exchange.frames()
        (drawn,) = [frame for frame in frames if frame.data and frame.data["actions"]["artifactDelta"]]
        assert "content" in drawn.data
        assert drawn.id == drawn.data["seq"]


async def test_client_that_leaves_can_come_back_and_miss_nothing() -> None:
    gate = asyncio.Event()
    model = ScriptedModel([FunctionCall(id="fc-1", name="wait_here", args={}), pieces("Well", " done.")])

    @tool
    async def wait_here() -> dict[str, Any]:
        """Wait."""
        await gate.wait()
        return {}

    async with client_of(rest_runner(model, tools=[wait_here])) as client:
        await opened(client)
        body = asking(streaming=True)
        async with client.open("POST", "/run_sse", data=body) as exchange:
            first = await exchange.frame()
            assert first == Frame(id=1)
            exchange.leave()
            await exchange.finished.wait()
        async with client.open("POST", "/run_sse", data=body, headers={"Last-Event-ID": "1"}) as exchange:
            call = await exchange.frame()
            assert call is not None
            assert call.id == 2
            gate.set()
            frames = await exchange.frames()
        assert [frame.id for frame in frames] == [3, None, None, 4]
        assert texts(frames)[1:] == ["~Well", "~ done.", "Well done.@4"]
        async with client.open("POST", "/run_sse", data=body, headers={"Last-Event-ID": "2"}) as exchange:
            assert [frame.id for frame in await exchange.frames()] == [3, 4]
        model.verify()


async def test_resuming_shows_one_run_and_not_the_next() -> None:
    async with client_of(rest_runner(ScriptedModel(["One.", "Two."]))) as client:
        await opened(client)
        for _ in range(2):
            await client.post("/run", asking())
        async with client.open("POST", "/run_sse", data=asking(), headers={"Last-Event-ID": "1"}) as exchange:
            assert texts(await exchange.frames()) == ["One.@2"]
        async with client.open("POST", "/run_sse", data=asking(), headers={"Last-Event-ID": "4"}) as exchange:
            assert await exchange.frames() == []


async def test_resuming_a_run_that_failed_tells_why() -> None:
    async with client_of(rest_runner(ScriptedModel([UpstreamLost("the model hung up")]))) as client:
        await opened(client)
        async with client.open("POST", "/run_sse", data=asking()) as exchange:
            await exchange.frames()
        async with client.open("POST", "/run_sse", data=asking(), headers={"Last-Event-ID": "1"}) as exchange:
            (frame,) = await exchange.frames()
        assert frame.data["error"].startswith("upstream_lost")


@pytest.mark.parametrize(("last", "status"), [("7", 404), ("0", 400), ("-1", 400), ("x", 400), ("", 400), ("9" * 30, 400)])
async def test_resuming_after_an_event_that_is_none(last: str, status: int) -> None:
    async with client_of(rest_runner(ScriptedModel([]))) as client:
        await opened(client)
        assert (await client.post("/run_sse", asking(), headers={"Last-Event-ID": last})).status == status


async def test_resuming_in_a_session_that_is_none() -> None:
    async with client_of(rest_runner(ScriptedModel([]))) as client:
        answer = await client.post("/run_sse", asking(), headers={"Last-Event-ID": "1"})
        assert (answer.status, answer.json["detail"]) == (404, "Session not found: s")


async def test_leaving_ends_the_run_where_that_was_asked_for() -> None:
    gate = asyncio.Event()
    async with client_of(rest_runner(ScriptedModel([[gate, "Never."]]))) as client:
        await opened(client)
        async with client.open("POST", "/run_sse?cancel_on_disconnect=true", data=asking()) as exchange:
            assert await exchange.frame() == Frame(id=1)
        gate.set()
        await asyncio.sleep(1)
        assert len((await client.get(f"{SESSIONS}/s")).json["events"]) == 1
        assert (await client.post("/run_sse?cancel_on_disconnect=maybe", asking())).status == 422


def chatter(count: int) -> Runner:
    """A runner whose agent says so many things, each a stored event of 100 kB."""

    async def run(_ctx: InvocationContext) -> AsyncIterator[Event]:
        for number in range(count):
            yield Event(author="agent", content=model_content([Part(text=f"{number} " + "x" * 100_000)]))

    agent = CustomAgent(name="agent", run=run)
    return Runner(app_name="app", agent=agent, session_service=rest_runner().session_service)


async def test_reader_that_takes_nothing_does_not_hold_the_run_for_ever() -> None:
    runner = chatter(200)
    async with client_of(runner, ServerConfig(send_s=5)) as client:
        await opened(client)
        async with client.open("POST", "/run_sse", data=asking(), reads=False) as exchange:
            await exchange.finished.wait()
            assert asyncio.get_running_loop().time() <= 11
        session = await runner.session_service.get(app_name="app", user_id="u", session_id="s")
        assert len(session.events) == 201


async def test_slow_reader_gets_everything() -> None:
    async with client_of(chatter(200)) as client:
        await opened(client)
        async with client.open("POST", "/run_sse", data=asking()) as exchange:
            ids = [frame.id for frame in await exchange.frames()]
        assert ids == list(range(1, 202))


async def test_reader_that_fell_behind_is_told_where_to_go_on() -> None:
    run = serving.ServedRun(("app", "u", "s"), patience_s=5)
    follower = run.follow()
    for number in range(1, 100):
        await run.publish(Event(author="agent", seq=number, actions=EventActions()))
    run.end(None)
    assert [event.seq async for event in follower] == list(range(1, serving.FOLLOWER_EVENTS + 1))
    assert follower.problem is not None
    assert "Last-Event-ID" in str(follower.problem)
    assert asyncio.get_running_loop().time() == 5


async def test_draining_server_takes_no_more_runs() -> None:
    client = client_of(rest_runner(ScriptedModel([])))
    async with client:
        await opened(client)
        client.app.state.gateway.draining = True
        answer = await client.post("/run_sse", asking())
        assert (answer.status, answer.json["code"]) == (503, "drain")


async def test_runs_and_readers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MAX_RUNS", 1)
    monkeypatch.setattr(serving, "MAX_FOLLOWERS", 2)
    gate = asyncio.Event()
    async with client_of(rest_runner(ScriptedModel([[gate, "Done."]]))) as client:
        await opened(client)
        resume = {"Last-Event-ID": "1"}
        async with client.open("POST", "/run_sse", data=asking()) as one:
            assert await one.frame() == Frame(id=1)
            assert (await client.post("/run", asking())).status == 503
            async with client.open("POST", "/run_sse", data=asking(), headers=resume) as two:
                assert await two.started() == 200
                assert (await client.post("/run_sse", asking(), headers=resume)).status == 429
                gate.set()
                assert texts(await one.frames()) == texts(await two.frames()) == ["Done.@2"]
