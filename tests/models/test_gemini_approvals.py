"""A tool that asks a person first, behind Gemini Live."""

from __future__ import annotations

from typing import Any

import pytest

from live_gateway.content import digest
from live_gateway.errors import ToolResponseNotExpected
from live_gateway.live.session import LiveSession
from live_gateway.runner import Runner
from live_gateway.testing.fake_gemini import FakeGemini
from live_gateway.testing.gemini_steps import (
    Step,
    call,
    cancel,
    drop,
    expect_content,
    expect_setup,
    expect_tool_response,
    handle,
    hear,
    interrupted,
    ready,
    write,
)
from live_gateway.tools.function import FunctionTool
from tests.support.approvals import questions, results
from tests.support.gemini import gemini_model
from tests.support.live import go_live, live_runner, stored, until

ARGS = {"amount": 3}


class Till:
    """Counts what was paid."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    async def pay(self, amount: int) -> dict[str, int]:
        """Pay."""
        self.paid.append(amount)
        return {"paid": amount}


def is_paid(sent: Any) -> bool:
    return bool(sent[0] == {"id": "fc-1", "name": "pay", "response": {"paid": 3}})


def runner_on(gemini: FakeGemini, till: Till, name: str = "gemini-2.5-live") -> Runner:
    return live_runner(gemini_model(gemini, name=name), tools=[FunctionTool(till.pay, require_confirmation=True)])


async def asked(live: LiveSession, *also: str) -> None:
    """Until the question has come, and events of these other kinds."""
    missing = {"asked", *also}
    async for event in live:
        missing -= {"asked"} if questions([event]) else {"interrupted"} if event.interrupted else set()
        if not missing:
            return


# contract: LIVE-17
# case: K-LTOOL-13
@pytest.mark.parametrize("name", ["gemini-2.5-live", "gemini-3.8-live", "gemini-3.8-live-thinking"])
async def test_the_call_is_answered_once_when_it_was_approved_whatever_came_between(name: str) -> None:
    till = Till()
    script: list[Step] = [
        call("pay", ARGS),
        hear("hurry up", finished=True),
        interrupted(),
        expect_tool_response("fc-1", check=is_paid),
        write("Paid."),
    ]
    async with FakeGemini(script) as gemini, go_live(runner_on(gemini, till, name)) as live:
        await asked(live, "interrupted")
        await live.confirm("fc-1", approve=True, shown=digest(ARGS))
        await gemini.played()
    assert till.paid == [3]


# contract: LIVE-17, LIVE-19
# case: K-LTOOL-13
async def test_a_connection_that_breaks_meanwhile_loses_no_question() -> None:
    till = Till()
    script: tuple[list[Step], list[Step]] = (
        [call("pay", ARGS), handle("h1"), drop("rst")],
        [expect_setup(sessionResumption__handle="h1"), ready(), expect_tool_response("fc-1", check=is_paid), write("Paid.")],
    )
    async with FakeGemini(*script) as gemini, go_live(runner_on(gemini, till)) as live:
        await asked(live)
        await gemini.until(lambda: len(gemini.connections) == 2)
        await live.confirm("fc-1", approve=True, shown=digest(ARGS))
        await gemini.played()
    assert till.paid == [3]


# contract: LIVE-17, LIVE-18
async def test_a_model_that_begins_anew_is_told_the_result_in_words() -> None:
    till = Till()
    script: tuple[list[Step], list[Step]] = (
        [hear("pay", finished=True), call("pay", ARGS), drop("rst")],
        [expect_setup(), ready(), expect_content(), expect_content(_says_paid), write("Paid.")],
    )
    async with FakeGemini(*script) as gemini:
        runner = runner_on(gemini, till)
        async with go_live(runner) as live:
            await asked(live)
            await gemini.until(lambda: len(gemini.connections) == 2)
            await live.confirm("fc-1", approve=True, shown=digest(ARGS))
            await gemini.played()
        assert results(await stored(runner)) == [("fc-1", {"paid": 3})]


def _says_paid(content: Any) -> bool:
    return '{"paid":3}' in str(content)


# contract: LIVE-17
async def test_a_call_that_gemini_takes_back_is_not_run() -> None:
    till = Till()
    async with FakeGemini([call("pay", ARGS), cancel("fc-1"), write("Never mind.")]) as gemini:
        runner = runner_on(gemini, till)
        async with go_live(runner) as live:
            await until(live, lambda event: event.turn_complete)
            with pytest.raises(ToolResponseNotExpected):
                await live.confirm("fc-1", approve=True, shown=digest(ARGS))
        assert results(await stored(runner)) == [("fc-1", {"error": "cancelled"})]
    assert till.paid == []
