"""`POST /run`: a run and its events at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from live_gateway.agents.context import InvocationContext
from live_gateway.content import Content, FunctionCall
from live_gateway.errors import PluginError, StorageError, UpstreamQuota
from live_gateway.plugins.base import Plugin
from live_gateway.testing.scripted_live import ScriptedLiveModel
from live_gateway.testing.scripted_model import Answer, ScriptedModel, calls
from live_gateway.tools.function import tool
from tests.support.asgi_client import AsgiClient
from tests.support.http_client import HttpClient
from tests.support.rest import SESSIONS, answering, asking, client_of, rest_runner

pytestmark = pytest.mark.virtual_time

ACTIONS: dict[str, Any] = {"stateDelta": {}, "artifactDelta": {}, "requestedAuthConfigs": {}, "requestedToolConfirmations": {}}


def get_weather(city: str) -> dict[str, Any]:
    """Tell the weather."""
    return {"city": city, "sky": "sunny"}


@tool(long_running=True)
def ask_boss(what: str) -> dict[str, Any]:
    """Ask somebody else."""
    return {"status": "asked"}


async def opened(client: HttpClient) -> HttpClient:
    await client.post(f"{SESSIONS}/s")
    return client


async def test_events_have_the_shape_of_google_adk() -> None:
    model = ScriptedModel([FunctionCall(id="fc-1", name="get_weather", args={"city": "Oslo"}), "It is sunny."])
    async with client_of(rest_runner(model, tools=[get_weather])) as client:
        await opened(client)
        answer = await client.post("/run", asking("Oslo?"))
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
        call, response, text = answer.json
        for event in answer.json:
            assert event["author"] == "agent"
            assert event["actions"] == ACTIONS
            assert event["nodeInfo"] == {"path": ""}
            assert event["invocationId"] == call["invocationId"]
            assert None not in event.values()
            assert isinstance(event["timestamp"], float)
        assert call["content"] == {
            "role": "model",
            "parts": [{"functionCall": {"id": "fc-1", "name": "get_weather", "args": {"city": "Oslo"}}}],
        }
        assert call["longRunningToolIds"] == []
        assert response["content"]["role"] == "user"
        assert response["content"]["parts"][0]["functionResponse"]["response"] == {"city": "Oslo", "sky": "sunny"}
        assert text["content"] == {"role": "model", "parts": [{"text": "It is sunny."}]}
        stored = (await client.get(f"{SESSIONS}/s")).json["events"]
        assert [event["id"] for event in stored[1:]] == [event["id"] for event in answer.json]
        assert (stored[0]["author"], stored[0]["content"]) == ("user", {"role": "user", "parts": [{"text": "Oslo?"}]})


# case: K-REST-07
async def test_arguments_of_a_call_are_always_there() -> None:
    model = ScriptedModel([FunctionCall(id="fc-1", name="ask_boss"), "I asked."])
    async with client_of(rest_runner(model, tools=[ask_boss])) as client:
        await opened(client)
        call = (await client.post("/run", asking())).json[0]
        assert call["content"]["parts"][0]["functionCall"] == {"id": "fc-1", "name": "ask_boss", "args": {}}
        assert call["longRunningToolIds"] == ["fc-1"]


async def test_snake_case_and_unknown_fields() -> None:
    body = {"app_name": "app", "user_id": "u", "session_id": "s", "new_message": {"parts": [{"text": "hi", "thought": None}]}, "flavour": 1}
    nothing: dict[str, Any] = {
        "functionCallEventId": None,
        "invocationId": None,
        "customMetadata": {},
        "serviceTier": None,
        "stateDelta": {},
    }
    async with client_of(rest_runner(ScriptedModel(["Hi.", "Hi."]))) as client:
        await opened(client)
        assert len((await client.post("/run", body)).json) == 1
        assert len((await client.post("/run", asking(**nothing))).json) == 1


# case: K-REST-09
async def test_state_delta_is_there_before_the_agent_runs() -> None:
    seen: list[Any] = []

    async def before(ctx: InvocationContext) -> Content | None:
        seen.append(ctx.state["mood"])
        return None

    async with client_of(rest_runner(ScriptedModel(["Hi."]), before_agent=before)) as client:
        await opened(client)
        await client.post("/run", asking(stateDelta={"mood": "good"}))
        assert seen == ["good"]
        assert (await client.get(f"{SESSIONS}/s")).json["state"] == {"mood": "good"}


# contract: RUN-10
async def test_state_delta_without_a_message_is_an_event_of_its_own() -> None:
    async with client_of(rest_runner(ScriptedModel(["Hi."]))) as client:
        await opened(client)
        (event,) = (await client.post("/run", asking(None, stateDelta={"a": 1}))).json
        assert event["author"] == "agent"
        first = (await client.get(f"{SESSIONS}/s")).json["events"][0]
        assert (first["author"], first["actions"]["stateDelta"], "content" in first) == ("user", {"a": 1}, False)


async def test_role_of_the_client_is_ignored() -> None:
    async with client_of(rest_runner(ScriptedModel(["Hi."]))) as client:
        await opened(client)
        await client.post("/run", asking(newMessage={"role": "model", "parts": [{"text": "I am the model."}]}))
        first = (await client.get(f"{SESSIONS}/s")).json["events"][0]
        assert (first["author"], first["content"]["role"]) == ("user", "user")


async def test_text_streams_only_over_sse() -> None:
    async with client_of(rest_runner(ScriptedModel(["Hi."]))) as client:
        await opened(client)
        (event,) = (await client.post("/run", asking(streaming=True))).json
        assert "partial" not in event


# report: A71
@pytest.mark.parametrize("path", ["/run", "/run_sse"])
async def test_missing_session_is_known_before_anything_starts(path: str) -> None:
    async with client_of(rest_runner(ScriptedModel([]))) as client:
        answer = await client.post(path, asking(sessionId="nope"))
        assert (answer.status, answer.json["detail"]) == (404, "Session not found: nope")
        assert answer.headers["content-type"] == "application/json"


async def test_errors_of_model_store_and_plugin_are_told_with_their_status() -> None:
    class Broken(Plugin):
        async def on_user_message(self, invocation: InvocationContext, content: Content) -> Content | None:
            raise ValueError("the words of a plugin")

    async with client_of(rest_runner(ScriptedModel([UpstreamQuota("quota is used up"), KeyError("secret")]))) as client:
        await opened(client)
        quota = await client.post("/run", asking())
        assert quota.status == 429
        assert quota.json == {"detail": "quota is used up", "code": "upstream_quota", "retryable": True}
        assert quota.headers["retry-after"] == "1"
        foreign = await client.post("/run", asking())
        assert (foreign.status, foreign.json["code"]) == (500, "internal")
        assert b"secret" not in foreign.body
    async with client_of(rest_runner(ScriptedModel([]), plugins=[Broken("broken")])) as client:
        await opened(client)
        answer = await client.post("/run", asking())
        assert (answer.status, answer.json["code"]) == (500, PluginError.code)
        assert (await client.get(f"{SESSIONS}/s")).json["events"] == []


# contract: HITL-07
async def test_answer_to_a_call_that_nobody_made() -> None:
    model = ScriptedModel([FunctionCall(id="fc-1", name="get_weather", args={"city": "Oslo"}), "Sunny."])
    async with client_of(rest_runner(model, tools=[get_weather])) as client:
        await opened(client)
        await client.post("/run", asking())
        before = (await client.get(f"{SESSIONS}/s")).json
        for call in ("fc-1", "fc-2"):
            for path in ("/run", "/run_sse"):
                answer = await client.post(path, answering(call, "get_weather", {"sky": "raining frogs"}))
                assert (answer.status, answer.json["code"]) == (409, "tool_response_not_expected")
        assert (await client.get(f"{SESSIONS}/s")).json == before
        assert (await client.post("/run", answering("fc-1", "get_weather", {}, sessionId="nope"))).status == 404


# contract: HITL-01, HITL-07
# case: K-REST-06, K-REST-07
async def test_two_cycles_of_a_long_running_call() -> None:
    asked: list[Answer] = [FunctionCall(id="fc-1", name="ask_boss", args={"what": "a"}), "I asked."]
    again: list[Answer] = [FunctionCall(id="fc-2", name="ask_boss", args={"what": "b"}), "I asked again.", "He said no."]
    async with client_of(rest_runner(ScriptedModel([*asked, *again]), tools=[ask_boss])) as client:
        await opened(client)
        first = (await client.post("/run", asking())).json
        assert [event["longRunningToolIds"] for event in first if "longRunningToolIds" in event] == [["fc-1"]]
        wrong = await client.post("/run", answering("fc-1", "another", {"ok": True}))
        elsewhere = await client.post("/run", answering("fc-1", "ask_boss", {"ok": True}, functionCallEventId=first[1]["id"]))
        other = await client.post("/run", answering("fc-1", "ask_boss", {"ok": True}, invocationId="e-other"))
        assert {answer.status for answer in (wrong, elsewhere, other)} == {409}
        place = {"functionCallEventId": first[0]["id"], "invocationId": first[0]["invocationId"]}
        second = (await client.post("/run", answering("fc-1", "ask_boss", {"ok": True}, **place))).json
        assert {event["invocationId"] for event in second} == {first[0]["invocationId"]}
        assert (await client.post("/run", answering("fc-1", "ask_boss", {"ok": False}))).status == 409
        third = (await client.post("/run", answering("fc-2", "ask_boss", {"ok": False}))).json
        assert third[-1]["content"]["parts"] == [{"text": "He said no."}]


# contract: HITL-07
async def test_of_two_answers_at_once_one_is_refused() -> None:
    gate = asyncio.Event()
    model = ScriptedModel([FunctionCall(id="fc-1", name="ask_boss", args={"what": "a"}), "I asked.", [gate, "He said yes."]])
    async with client_of(rest_runner(model, tools=[ask_boss])) as client:
        await opened(client)
        await client.post("/run", asking())
        body = answering("fc-1", "ask_boss", {"ok": True})
        async with client.open("POST", "/run", data=body) as one, client.open("POST", "/run", data=body) as two:
            refused = await two.whole()
            assert (refused.status, refused.json["code"]) == (409, "tool_response_not_expected")
            gate.set()
            assert (await one.whole()).status == 200
        model.verify()


@pytest.mark.parametrize(
    ("part", "status", "code"),
    [
        ({"fileData": {"fileUri": "gs://bucket/x", "mimeType": "text/plain"}}, 400, "content_refused"),
        ({"file_data": {"file_uri": "https://example.org/x"}}, 400, "content_refused"),
        ({"functionCall": {"name": "f", "args": {}}}, 400, "content_refused"),
        ({"executableCode": {"code": "1", "language": "PYTHON"}}, 400, "content_refused"),
        ({"codeExecutionResult": {"outcome": "OUTCOME_OK"}}, 400, "content_refused"),
        ({"text": ""}, 422, None),
        ({}, 422, None),
        ({"text": "a", "inlineData": {"mimeType": "image/png", "data": "AAAA"}}, 422, None),
        ({"inlineData": {"mimeType": "nothing", "data": "AAAA"}}, 422, None),
        ({"inlineData": {"mimeType": "image/png", "data": "&&&&"}}, 422, None),
    ],
)
async def test_content_that_a_client_may_not_send(part: dict[str, Any], status: int, code: str | None) -> None:
    async with client_of(rest_runner(ScriptedModel([]))) as client:
        await opened(client)
        answer = await client.post("/run", asking(newMessage={"parts": [part]}))
        assert (answer.status, answer.json.get("code")) == (status, code)
        assert (await client.get(f"{SESSIONS}/s")).json["events"] == []


async def test_a_file_reaches_the_model() -> None:
    model = ScriptedModel(["A note."])
    note = {"inlineData": {"mimeType": "application/pdf", "data": "-_8", "displayName": "note.pdf"}}
    async with client_of(rest_runner(model)) as client:
        await opened(client)
        await client.post("/run", asking(newMessage={"parts": [{"text": "What is it?"}, note]}))
        text, file = model.requests[0].contents[-1].parts or []
        assert text.text == "What is it?"
        assert file.inline_data is not None
        assert (file.inline_data.data, file.inline_data.mime_type) == (b"\xfb\xff", "application/pdf")


async def test_answers_and_text_do_not_mix() -> None:
    parts = [{"text": "yes"}, {"functionResponse": {"id": "fc-1", "name": "f", "response": {}}}]
    async with client_of(rest_runner(ScriptedModel([]))) as client:
        await opened(client)
        assert (await client.post("/run", asking(newMessage={"parts": parts}))).status == 422


@pytest.mark.parametrize(
    "fields",
    [
        {"customMetadata": {"a": 1}},
        {"serviceTier": "flex"},
        {"userId": None},
        {"sessionId": "a b"},
        {"stateDelta": []},
        {"stateDelta": {"a": 10**400}},
    ],
)
async def test_bodies_that_are_refused(fields: dict[str, Any]) -> None:
    async with client_of(rest_runner(ScriptedModel([]))) as client:
        await opened(client)
        answer = await client.post("/run", asking(**fields))
        assert answer.status == 422
        (problem,) = answer.json["detail"]
        assert problem["loc"][:2] == ["body", next(iter(fields))]
        assert set(problem) == {"type", "loc", "msg"}


@pytest.mark.parametrize("fields", [{"invocationId": "e-1"}, {"functionCallEventId": "x"}])
async def test_ids_of_a_call_without_an_answer_to_it(fields: dict[str, Any]) -> None:
    async with client_of(rest_runner(ScriptedModel([]))) as client:
        await opened(client)
        assert (await client.post("/run", asking(**fields))).status == 400


async def test_client_that_leaves_does_not_end_the_run_unless_it_asks_for_it() -> None:
    for query, events in (("", 2), ("?cancel_on_disconnect=true", 1)):
        gate = asyncio.Event()
        async with client_of(rest_runner(ScriptedModel([[gate, "Here."]]))) as client:
            await opened(client)
            async with client.open("POST", f"/run{query}", data=asking()) as exchange:
                await asyncio.sleep(1)
                assert len((await client.get(f"{SESSIONS}/s")).json["events"]) == 1
                exchange.leave()
                await asyncio.sleep(1)
                gate.set()
                await exchange.finished.wait()
            assert len((await client.get(f"{SESSIONS}/s")).json["events"]) == events


async def test_runs_end_with_the_server() -> None:
    gate = asyncio.Event()
    ended: list[str] = []

    class Watching(Plugin):
        async def after_run(self, invocation: InvocationContext) -> None:
            ended.append(invocation.invocation_id)

    client = client_of(rest_runner(ScriptedModel([[gate, "Never."]]), plugins=[Watching("watching")]))
    async with client:
        await opened(client)
        async with client.open("POST", "/run_sse", data=asking()) as exchange:
            assert await exchange.started() == 200
            exchange.leave()
            await exchange.finished.wait()
        assert ended == []
    assert len(ended) == 1
    refused = await client.post("/run", asking())
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")


async def test_calls_in_one_answer_belong_together() -> None:
    two = calls(FunctionCall(id="a", name="ask_boss", args={"what": "a"}), FunctionCall(id="b", name="ask_boss", args={"what": "b"}))
    async with client_of(rest_runner(ScriptedModel([two, "Asked.", "Both."]), tools=[ask_boss])) as client:
        await opened(client)
        await client.post("/run", asking())
        part = {"functionResponse": {"id": "a", "name": "ask_boss", "response": {}}}
        assert (await client.post("/run", asking(newMessage={"parts": [part, part]}))).status == 409
        other = {"functionResponse": {"id": "b", "name": "ask_boss", "response": {}}}
        assert (await client.post("/run", asking(newMessage={"parts": [part, other]}))).status == 200


async def test_a_store_that_fails_is_told_with_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = rest_runner(ScriptedModel([]))

    async def broken(**_names: Any) -> Any:
        raise StorageError("the disk is full")

    monkeypatch.setattr(runner.session_service, "get", broken)
    async with client_of(runner) as client:
        for answer in (await client.post("/run", asking()), await client.get(f"{SESSIONS}/s")):
            assert (answer.status, answer.json["code"], answer.json["retryable"]) == (503, "storage_unavailable", True)


# contract: STATE-07
async def test_run_on_a_session_with_a_live_connection_is_announced_to_it() -> None:
    with ScriptedLiveModel([]) as live_model:
        runner = rest_runner(ScriptedModel(["Hi."]), live_model=live_model)
        async with client_of(runner) as client:
            await opened(client)
            async with AsgiClient(client.app) as socket:
                socket.say("hello", v=1, user="u", session="s")
                await socket.until("welcome")
                (event,) = (await client.post("/run", asking())).json
                assert event["content"]["parts"] == [{"text": "Hi."}]
                assert (await socket.until("notice"))["code"] == "run_on_session"
        assert [event.author for event in (await runner.session_service.get(app_name="app", user_id="u", session_id="s")).events] == [
            "user",
            "agent",
        ]
