"""Tools that ask a person first, at every edge: `/live`, `/run_live`, HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from live_gateway.agents.llm import LlmAgent
from live_gateway.confirmation import CONFIRM
from live_gateway.content import FunctionCall, Part, digest, model_content
from live_gateway.events import Event
from live_gateway.runner import Runner
from live_gateway.server.app import create_app
from live_gateway.server.outgoing import Outgoing
from live_gateway.testing.scripted_live import ScriptedLiveModel
from live_gateway.testing.scripted_model import ScriptedModel, calls
from live_gateway.testing.steps import Step, call, expect_tool_responses, say
from live_gateway.tools.function import FunctionTool, tool
from tests.support.asgi_client import AsgiClient
from tests.support.live_app import model, welcomed
from tests.support.rest import SESSIONS, answering, asking, client_of, rest_runner
from tests.support.run_live import talking
from tests.support.running_server import RunningServer

ARGS = {"amount": 10}
SHOWN = digest(ARGS)


class Till:
    """Counts what was paid."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def tool(self) -> FunctionTool:
        def pay(amount: int) -> dict[str, int]:
            """Pay."""
            self.paid.append(amount)
            return {"paid": amount}

        return FunctionTool(pay, require_confirmation=True)


def live(scripted: ScriptedLiveModel, till: Till) -> Runner:
    return Runner.in_memory("demo", LlmAgent(name="assistant", live_model=scripted, tools=[till.tool()]))


def stages(frames: list[Any], *, stored: bool) -> list[str]:
    """What the client is told of the call, at once or from the record."""
    messages = [frame for frame in frames if isinstance(frame, dict) and frame["type"] in ("tool.call", "tool.update")]
    told = [message for message in messages if ("seq" in message) is stored]
    assert {message["call"] for message in told} <= {"fc-1"}
    return [message.get("status") or ("asked" if message["needs_confirm"] else "called") for message in told]


# contract: HITL-06, HITL-07
# case: K-LTOOL-13
@pytest.mark.virtual_time
@pytest.mark.parametrize(("approve", "ends"), [(True, ["running", "done"]), (False, ["denied"])])
async def test_a_client_decides_about_a_call(approve: bool, ends: list[str]) -> None:
    till = Till()
    with model(call("pay", ARGS), expect_tool_responses("fc-1"), say("So be it.")) as scripted:
        async with AsgiClient(create_app(live(scripted, till))) as client:
            await welcomed(client)
            frames = await client.until_all({"type": "tool.update", "status": "waiting_confirm", "seq": 2})
            asked = next(frame for frame in frames if isinstance(frame, dict) and frame.get("seq") == 2)
            assert (asked["call"], asked["name"], asked["args"], asked["digest"]) == ("fc-1", "pay", ARGS, SHOWN)
            for wrong in ({"call": "fc-2", "digest": SHOWN}, {"call": "fc-1", "digest": digest({"amount": 1})}):
                client.say("tool.confirm", approve=approve, **wrong)
                problem = await client.until("error")
                assert (problem["code"], problem["ref"], problem["fatal"]) == ("tool_response_not_expected", wrong["call"], False)
            client.say("tool.confirm", call="fc-1", approve=approve, digest=SHOWN)
            client.say("tool.confirm", call="fc-1", approve=approve, digest=SHOWN)
            frames += await client.until_all({"type": "tool.update", "seq": 4})
            frames += await client.until_all({"type": "error"}) if not any(_is_error(frame) for frame in frames) else []
    assert till.paid == ([10] if approve else [])
    assert stages(frames, stored=False) == ["called", "asked", "waiting_confirm", *ends]
    durable = stages(frames, stored=True)
    assert durable == ["called", "asked", "waiting_confirm", "running" if approve else "denied", ends[-1]]
    by = [frame.get("by") for frame in frames if isinstance(frame, dict) and frame.get("seq") == 3]
    assert by == ["user"]


def _is_error(frame: Any) -> bool:
    return isinstance(frame, dict) and frame["type"] == "error"


def _questions(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The calls that ask, in order."""
    parts = [part for event in events for part in event.get("content", {}).get("parts", [])]
    return [part["functionCall"] for part in parts if part.get("functionCall", {}).get("name") == CONFIRM]


# contract: HITL-06, HITL-07
# case: K-CONF-02, K-CONF-12
@pytest.mark.virtual_time
async def test_over_http_a_question_is_answered_once_and_only_what_was_asked() -> None:
    till = Till()
    wanted = calls(FunctionCall(id="fc-1", name="pay", args={"amount": 1}), FunctionCall(id="fc-2", name="pay", args={"amount": 2}))
    async with client_of(rest_runner(ScriptedModel([wanted, "Done."]), tools=[till.tool()])) as client:
        await client.post(f"{SESSIONS}/s")
        first = (await client.post("/run", asking())).json
        one, two = _questions(first)
        assert [question["args"]["originalFunctionCall"]["id"] for question in (one, two)] == ["fc-1", "fc-2"]
        assert first[-1]["longRunningToolIds"] == [one["id"], two["id"]]
        assert first[-1]["actions"]["requestedToolConfirmations"].keys() == {"fc-1", "fc-2"}
        before = (await client.get(f"{SESSIONS}/s")).json
        for call_id, name in (("fc-1", "pay"), ("nobody-asked", CONFIRM), (one["id"], "pay")):
            refused = await client.post("/run", answering(call_id, name, {"confirmed": True}))
            assert (refused.status, refused.json["code"]) == (409, "tool_response_not_expected")
        unclear = await client.post("/run", answering(one["id"], CONFIRM, {"response": {"confirmed": "true"}}))
        assert (unclear.status, unclear.json["code"]) == (400, "invalid_input")
        assert (await client.get(f"{SESSIONS}/s")).json == before
        again = {"newMessage": {"role": "user", "parts": [_answer(one, True), _answer(two, False)]}}
        second = (await client.post("/run", asking(None, **again))).json
        assert second[-1]["content"]["parts"] == [{"text": "Done."}]
        assert {event["invocationId"] for event in second} == {first[0]["invocationId"]}
        for question in (one, two):
            assert (await client.post("/run", answering(question["id"], CONFIRM, {"confirmed": True}))).status == 409
    assert till.paid == [1]


def _answer(question: dict[str, Any], confirmed: bool) -> dict[str, Any]:
    return {"functionResponse": {"id": question["id"], "name": CONFIRM, "response": {"confirmed": confirmed}}}


# contract: HITL-06, HITL-07
@pytest.mark.virtual_time
async def test_of_two_decisions_at_once_over_http_one_is_refused() -> None:
    till = Till()
    script = ScriptedModel([FunctionCall(id="fc-1", name="pay", args={"amount": 1}), "Done."])
    async with client_of(rest_runner(script, tools=[till.tool()])) as client:
        await client.post(f"{SESSIONS}/s")
        (question,) = _questions((await client.post("/run", asking())).json)
        async with asyncio.TaskGroup() as group:
            bodies = [answering(question["id"], CONFIRM, {"confirmed": said}) for said in (True, False)]
            both = [group.create_task(client.post("/run", body)) for body in bodies]
    assert sorted(task.result().status for task in both) == [200, 409]
    assert len(till.paid) <= 1


# contract: HITL-07
@pytest.mark.virtual_time
async def test_a_long_running_call_waits_for_no_answer_before_it_is_approved_and_for_none_once_it_is_denied() -> None:
    started: list[str] = []

    @tool(long_running=True, require_confirmation=True)
    def bake(dish: str) -> None:
        """Bake."""
        started.append(dish)

    script = calls(*(FunctionCall(id=f"fc-{dish}", name="bake", args={"dish": dish}) for dish in ("bread", "cake")))
    async with client_of(rest_runner(ScriptedModel([script, "It is in the oven.", "It is ready."]), tools=[bake])) as client:
        await client.post(f"{SESSIONS}/s")
        bread, cake = _questions((await client.post("/run", asking())).json)
        assert (await client.post("/run", answering("fc-bread", "bake", {"done": True}))).status == 409
        decided = {"newMessage": {"role": "user", "parts": [_answer(bread, True), _answer(cake, False)]}}
        assert (await client.post("/run", asking(None, **decided))).status == 200
        assert started == ["bread"]
        assert (await client.post("/run", answering("fc-cake", "bake", {"done": True}))).status == 409
        assert (await client.post("/run", answering("fc-bread", "bake", {"done": True}))).status == 200


# contract: HITL-06, HITL-07
async def test_on_the_adk_socket_a_question_is_an_event_and_its_answer_a_content() -> None:
    till = Till()
    steps: list[Step] = [call("pay", ARGS), expect_tool_responses("fc-1"), say("Paid.")]
    with model(*steps) as scripted:
        async with RunningServer(create_app(live(scripted, till))) as server, talking(server) as client:
            asked: list[dict[str, Any]] = []
            while not asked:
                asked = _questions([await client.next()])
            (question,) = asked
            content = {"parts": [_answer(question, True)]}
            await client.send(content=content)
            await client.send(content=content)
            await client.error("tool_response_not_expected")
    assert till.paid == [10]


# contract: HITL-06
def test_a_stored_question_that_names_no_call_is_not_shown() -> None:
    for args in ({}, {"originalFunctionCall": "pay"}, {"originalFunctionCall": {"name": "pay"}}):
        asking_badly = model_content([Part(function_call=FunctionCall(id="q", name=CONFIRM, args=args))])
        assert Outgoing("s", {}).durable(Event(author="a", seq=1, content=asking_badly)) == []
