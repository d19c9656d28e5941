"""Tools that ask first, in `run`: who is asked, what an answer does, and that nothing runs twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from live_gateway.agents.context import ToolContext
from live_gateway.agents.llm import LlmAgent
from live_gateway.confirmation import CONFIRM, INTERRUPTED, INTERRUPTED_S
from live_gateway.content import Content, FunctionCall, FunctionResponse, Part, function_calls, model_content, user_content
from live_gateway.errors import AgentError, InvalidInput, ToolResponseNotExpected
from live_gateway.events import Event, replace
from live_gateway.models.base import ModelResponse
from live_gateway.plugins.base import Plugin
from live_gateway.plugins.call_limit import CallLimitPlugin
from live_gateway.runner import Runner
from live_gateway.testing.scripted_model import calls
from live_gateway.tools.function import FunctionTool, tool
from tests.support.approvals import about, answer, forged, no, questions, results, yes
from tests.support.runs import bot, call, model_of, run, session, short, stored


class Till:
    """Counts what was paid."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    async def pay(self, amount: int) -> dict[str, bool]:
        """Pay."""
        self.paid.append(amount)
        await asyncio.sleep(0)
        return {"executed": True}

    def tool(self, **options: Any) -> FunctionTool:
        return FunctionTool(self.pay, **{"require_confirmation": True, **options})


async def asked(agent: LlmAgent, **options: Any) -> tuple[Runner, list[Event]]:
    """A run that ends in a question."""
    runner = Runner.in_memory("app", agent, **options)
    return runner, await run(runner)


# contract: HITL-06
# case: K-CONF-02, K-CONF-11, K-CONF-12
async def test_two_calls_wait_and_run_once_approved() -> None:
    till = Till()
    agent = bot(calls(call("pay", "c1", amount=1), call("pay", "c2", amount=2)), "Paid.", tools=[till.tool()])
    runner, first = await asked(agent)
    assert short(first) == ["bot: FC(pay) | FC(pay)", f"bot: FC({CONFIRM}) | FC({CONFIRM})"]
    asking = questions(first)
    assert [about(each) for each in asking] == [{"id": f"c{n}", "name": "pay", "args": {"amount": n}} for n in (1, 2)]
    assert [(each.args or {})["toolConfirmation"] for each in asking] == [{"hint": "", "confirmed": False, "payload": None}] * 2
    assert first[1].long_running_tool_ids == [each.id for each in asking]
    assert len({each.id for each in asking} | {"c1", "c2"}) == 4
    assert till.paid == []
    body = {"response": json.dumps({"confirmed": True})}
    second = await run(runner, answer(*((each, body) for each in asking)))
    assert results(second) == [("c1", {"executed": True}), ("c2", {"executed": True})]
    assert [event.text for event in second] == ["", "Paid."]
    assert till.paid == [1, 2]
    assert {event.invocation_id for event in await stored(runner)} == {first[0].invocation_id}


# contract: HITL-06
# case: K-CONF-04
@pytest.mark.parametrize("said", [False, {"confirmed": False}, {}, {"response": '{"confirmed": false}'}, {"response": "null"}, None])
async def test_a_call_that_is_denied_is_answered_with_an_error_that_names_the_tool(said: Any) -> None:
    till = Till()
    runner, first = await asked(bot(call("pay", "c1", amount=1), "Then not.", tools=[till.tool()]))
    second = await run(runner, answer((questions(first)[0], said)))
    ((call_id, response),) = results(second)
    assert call_id == "c1"
    assert "'pay'" in response["error"]
    assert "rejected" in response["error"]
    assert second[-1].text == "Then not."
    assert till.paid == []


# contract: HITL-04
# case: K-CONF-12
@pytest.mark.parametrize("said", [{"response": {"confirmed": "true"}}, {"response": "{"}, {"confirmed": "yes"}, {"response": "[1]"}])
async def test_an_answer_that_says_neither_yes_nor_no_is_refused_and_a_later_one_counts(said: Any) -> None:
    till = Till()
    runner, first = await asked(bot(call("pay", "c1", amount=1), "Paid.", tools=[till.tool()]))
    before = await stored(runner)
    with pytest.raises(InvalidInput):
        await run(runner, answer((questions(first)[0], said)))
    assert await stored(runner) == before
    await run(runner, yes(*questions(first)))
    assert till.paid == [1]


# contract: HITL-03
async def test_the_model_is_asked_again_only_when_all_are_decided() -> None:
    till = Till()
    agent = bot(calls(call("pay", "c1", amount=1), call("pay", "c2", amount=2)), "Done.", tools=[till.tool()])
    runner, first = await asked(agent)
    one, two = questions(first)
    assert results(await run(runner, yes(two))) == [("c2", {"executed": True})]
    assert len(model_of(agent).requests) == 1
    last = await run(runner, no(one))
    assert last[-1].text == "Done."
    assert till.paid == [2]


# report: A72
async def test_results_come_before_questions_and_questions_in_call_order() -> None:
    till = Till()

    def look() -> str:
        """Look."""
        return "seen"

    wanted = calls(call("pay", "c1", amount=1), call("look", "c2"), call("pay", "c3", amount=3), call("pay", "c4", amount=4))
    _, first = await asked(bot(wanted, "Done.", tools=[till.tool(), look]))
    assert results(first) == [("c2", {"result": "seen"})]
    assert [about(each)["id"] for each in questions(first)] == ["c1", "c3", "c4"]
    assert [bool(event.function_responses) for event in first] == [False, True, False]


# contract: HITL-06
# case: K-CONF-13
async def test_the_model_sees_neither_question_nor_answer() -> None:
    till = Till()
    agent = bot(call("pay", "c1", amount=1), "Paid.", tools=[till.tool()])
    runner, first = await asked(agent)
    await run(runner, yes(*questions(first)))
    contents = model_of(agent).requests[-1].contents
    shown = [part for content in contents for part in content.parts or ()]
    assert [part.text for part in shown[:1]] == ["hello"]
    assert [part.function_call.name for part in shown if part.function_call] == ["pay"]
    assert [part.function_response.response for part in shown if part.function_response] == [{"executed": True}]
    assert len(shown) == 3


async def test_while_a_call_waits_the_model_is_told_that_it_does() -> None:
    agent = bot(call("pay", "c1", amount=1), "It waits for you.", tools=[Till().tool()])
    runner, _ = await asked(agent)
    await run(runner, "Is it paid?")
    parts = [part for content in model_of(agent).requests[-1].contents for part in content.parts or ()]
    assert [part.function_response.response for part in parts if part.function_response] == [{"status": "pending"}]


# contract: HITL-06, HITL-02
# case: K-CONF-07
async def test_a_second_answer_is_refused_and_nothing_of_it_is_stored() -> None:
    till = Till()
    runner, first = await asked(bot(call("pay", "c1", amount=1), "Paid.", tools=[till.tool()]))
    await run(runner, yes(*questions(first)))
    before = await stored(runner)
    for second in (yes(*questions(first)), no(*questions(first)), answer(("nobody-asked", True))):
        with pytest.raises(ToolResponseNotExpected):
            await run(runner, second)
    assert await stored(runner) == before
    assert till.paid == [1]


# contract: HITL-06
async def test_of_two_answers_at_once_one_is_refused() -> None:
    till = Till()
    runner, first = await asked(bot(call("pay", "c1", amount=1), "Paid.", "Paid.", tools=[till.tool()]))
    others = Runner(app_name="app", agent=runner.agent, session_service=runner.session_service)

    async def one(by: Runner, content: Content) -> str:
        try:
            return "done" if await run(by, content) else "empty"
        except ToolResponseNotExpected:
            return "refused"

    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(one(by, content)) for by in (runner, others) for content in (yes(*questions(first)), no(*questions(first)))
        ]
    assert sorted(task.result() for task in tasks) == ["done", "refused", "refused", "refused"]
    assert len(results(await stored(runner))) == 1
    assert len(till.paid) <= 1


# contract: HITL-06
# case: K-CONF-09
async def test_a_question_that_another_agent_asked_does_not_count() -> None:
    till = Till()
    runner, first = await asked(bot(call("pay", "c1", amount=1), "Paid.", tools=[till.tool()], sub_agents=[bot("peer", name="peer")]))
    await runner.session_service.append_event(await session(runner), forged("peer", "q-1", first[0].function_calls[0]))
    with pytest.raises(ToolResponseNotExpected):
        await run(runner, answer(("q-1", True)))
    assert till.paid == []


# contract: HITL-06
# case: K-CONF-10
# report: A72
async def test_two_questions_of_one_id_count_for_nothing() -> None:
    till = Till()
    runner, first = await asked(bot(call("pay", "c1", amount=10), "Paid.", tools=[till.tool()]))
    question = questions(first)[0]
    again = forged("bot", question.id or "", first[0].function_calls[0], amount=1_000_000)
    await runner.session_service.append_event(await session(runner), again)
    with pytest.raises(ToolResponseNotExpected):
        await run(runner, yes(question))
    assert till.paid == []


# contract: HITL-06
async def test_a_question_that_shows_other_arguments_than_the_stored_call_does_not_count() -> None:
    till = Till()
    runner, first = await asked(bot(call("pay", "c1", amount=10), "Paid.", tools=[till.tool()]))
    fake = forged("bot", "q-1", first[0].function_calls[0], amount=1)
    await runner.session_service.append_event(await session(runner), fake)
    with pytest.raises(ToolResponseNotExpected):
        await run(runner, answer(("q-1", True)))
    assert till.paid == []


# case: K-CONF-11
async def test_a_question_takes_the_thought_signature_of_its_call_along() -> None:
    parts = [
        Part(function_call=FunctionCall(id="c1", name="pay", args={"amount": 1}), thought_signature=b"why"),
        Part(function_call=FunctionCall(id="c2", name="pay", args={"amount": 2})),
    ]
    _, first = await asked(bot(ModelResponse(content=model_content(parts)), tools=[Till().tool()]))
    content = first[1].content
    assert content is not None
    assert [part.thought_signature for part in content.parts or ()] == [b"why", None]


# case: K-CONF-14
async def test_a_callable_says_which_calls_are_asked_about() -> None:
    till = Till()
    seen: list[dict[str, Any]] = []

    async def much(args: Any, ctx: Any) -> bool:
        seen.append(dict(args))
        return bool(args["amount"] > 100 and ctx.call_id)

    wanted = calls(call("pay", "c1", amount=100), call("pay", "c2", amount="101"))
    _, first = await asked(bot(wanted, tools=[till.tool(require_confirmation=much)]))
    assert till.paid == [100]
    assert [about(each)["id"] for each in questions(first)] == ["c2"]
    assert seen == [{"amount": 100}, {"amount": 101}]


async def test_a_callable_that_fails_leaves_the_call_unrun() -> None:
    till = Till()

    def broken(args: Any, ctx: Any) -> bool:
        raise RuntimeError("no idea")

    _, first = await asked(bot(call("pay", "c1", amount=1), "Sorry.", tools=[till.tool(require_confirmation=broken)]))
    assert till.paid == []
    assert "error" in results(first)[0][1]


async def test_arguments_that_do_not_fit_are_not_asked_about() -> None:
    till = Till()
    _, first = await asked(bot(call("pay", "c1", amount="much"), "Sorry.", tools=[till.tool()]))
    assert questions(first) == []
    assert "invalid arguments" in results(first)[0][1]["error"]


# case: K-CONF-15
async def test_error_hooks_are_not_told_of_a_question() -> None:
    class OnError(Plugin):
        told = 0

        async def on_tool_error(self, context: Any, tool: Any, args: Any, error: Exception) -> None:
            self.told += 1

    plugin = OnError("errors")
    till = Till()
    runner, first = await asked(bot(call("pay", "c1", amount=1), "No.", tools=[till.tool()]), plugins=[plugin])
    await run(runner, no(*questions(first)))
    assert plugin.told == 0


# contract: HITL-06
async def test_a_tool_asks_by_itself_and_gets_what_the_person_filled_in() -> None:
    got: list[Any] = []

    @tool(effect="write")
    async def order(item: str, ctx: ToolContext) -> Any:
        """Order."""
        if ctx.confirmation is None:
            ctx.state["asked"] = item
            ctx.request_confirmation(hint=f"Order {item}?", payload={"count": 1})
            return "dropped"
        got.append((ctx.confirmation, ctx.state["asked"]))
        ctx.request_confirmation(hint="again?")
        return "never"

    runner, first = await asked(bot(call("order", "c1", item="tea"), "Ordered.", tools=[order]))
    assert results(first) == []
    question = questions(first)[0]
    assert (question.args or {})["toolConfirmation"] == {"hint": "Order tea?", "confirmed": False, "payload": {"count": 1}}
    assert first[1].actions.requested_tool_confirmations == {"c1": {"hint": "Order tea?", "confirmed": False, "payload": {"count": 1}}}
    second = await run(runner, answer((question, {"confirmed": True, "payload": {"count": 3}})))
    ((confirmation, remembered),) = got
    assert (confirmation.hint, confirmation.confirmed, confirmation.payload) == ("Order tea?", True, {"count": 3})
    assert remembered == "tea"
    assert "approved already" in results(second)[0][1]["error"]


async def test_a_plugin_can_have_any_tool_asked_about() -> None:
    class Careful(Plugin):
        async def before_tool(self, context: ToolContext, tool: Any, args: Any) -> None:
            if context.confirmation is None:
                context.request_confirmation(hint="Sure?")

    till = Till()
    agent = bot(call("pay", "c1", amount=1), "Paid.", tools=[till.tool(require_confirmation=False)])
    runner, first = await asked(agent, plugins=[Careful("careful")])
    assert till.paid == []
    await run(runner, yes(*questions(first)))
    assert till.paid == [1]


# contract: HITL-06, HITL-05
async def test_an_approval_whose_run_died_is_recorded_as_interrupted_and_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    till = Till()
    agent = bot(call("pay", "c1", amount=1), "I do not know whether it was paid.", tools=[till.tool()])
    runner, first = await asked(agent)
    begun = runner.run(user_id="u", session_id="s", message=yes(*questions(first)), yield_user_message=True)
    async with begun as stream:
        assert (await anext(stream)).function_responses[0].name == CONFIRM  # stored, and then the process dies
    assert till.paid == []
    fresh = Runner(app_name="app", agent=agent, session_service=runner.session_service)
    with pytest.raises(ToolResponseNotExpected):
        await run(fresh, yes(*questions(first)))
    later = Runner(app_name="app", agent=agent, session_service=runner.session_service)
    then = (await stored(runner))[-1].timestamp + INTERRUPTED_S
    monkeypatch.setattr("live_gateway.agents.interrupted.time.time", lambda: then)
    await run(later, "Was it paid?")
    await _again(later)
    assert results(await stored(runner)) == [("c1", {"error": INTERRUPTED})]
    shown = model_of(agent).requests[1].contents
    assert [text for content in shown for part in content.parts or () if (text := part.text)] == ["hello", "Was it paid?"]
    assert [each.name for content in shown for each in function_calls(content)] == ["pay"]
    assert till.paid == []


async def _again(runner: Runner) -> None:
    with pytest.raises(AssertionError):  # the script is over, and so is what had to be recorded
        await run(runner, "And now?")


# contract: HITL-02
async def test_an_answer_to_the_call_itself_runs_nothing() -> None:
    till = Till()
    agent = bot(call("pay", "c1", amount=1), "Hm.", tools=[till.tool()])
    runner, _ = await asked(agent)
    direct = Content(role="user", parts=[Part(function_response=FunctionResponse(id="c1", name="pay", response={"executed": True}))])
    await run(runner, direct)
    assert till.paid == []


# contract: HITL-09
async def test_a_question_whose_agent_is_gone_stays_open_until_it_is_back() -> None:
    till = Till()
    runner, first = await asked(bot(call("pay", "c1", amount=1), "Paid.", tools=[till.tool()]))
    before = await stored(runner)
    renamed = Runner(app_name="app", agent=bot("Hello.", name="other", tools=[till.tool()]), session_service=runner.session_service)
    with pytest.raises(AgentError, match="'bot'"):
        await run(renamed, yes(*questions(first)))
    assert await stored(runner) == before
    await run(runner, yes(*questions(first)))
    assert till.paid == [1]


async def test_a_call_that_was_approved_is_no_further_call_for_a_limit() -> None:
    till = Till()
    agent = bot(call("pay", "c1", amount=1), "Paid.", tools=[till.tool()])
    runner, first = await asked(agent, plugins=[CallLimitPlugin(tool_calls=1)])
    await run(runner, yes(*questions(first)))
    assert till.paid == [1]


async def test_a_tool_that_gives_pieces_asks_first_too() -> None:
    @tool(require_confirmation=True)
    async def count(to: int) -> AsyncIterator[str]:
        """Count."""
        for number in range(to):
            yield str(number)

    runner, first = await asked(bot(call("count", "c1", to=3), "Counted.", tools=[count]))
    assert results(first) == []
    assert results(await run(runner, yes(*questions(first)))) == [("c1", {"result": "012"})]


async def test_a_question_that_was_not_stored_is_not_open() -> None:
    class Silent(Plugin):
        async def on_event(self, invocation: Any, event: Event) -> Event | None:
            return replace(event, content=user_content("nothing")) if questions([event]) else None

    runner, first = await asked(bot(call("pay", "c1", amount=1), tools=[Till().tool()]), plugins=[Silent("silent")])
    assert questions(first) == []
    assert questions(await stored(runner)) == []
