"""A call that a person approves runs at most once, whatever process dies and however many decide at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from live_gateway.confirmation import INTERRUPTED, INTERRUPTED_S
from live_gateway.content import Content, FunctionCall, user_content
from live_gateway.errors import ToolResponseNotExpected
from live_gateway.events import Event
from live_gateway.runner import Runner
from live_gateway.sessions import open_session_service
from tests.support.approval_worker import ApprovalWorker, paying_runner
from tests.support.approvals import answer, no, questions, results, yes
from tests.support.stores import Store


async def events(runner: Runner, message: Content) -> list[Event]:
    return [event async for event in runner.run(user_id="u", session_id="s", message=message)]


async def recorded(runner: Runner) -> list[tuple[str | None, Any]]:
    return results((await runner.session_service.get(app_name="app", user_id="u", session_id="s")).events)


# contract: HITL-05, HITL-06
async def test_a_process_that_dies_while_the_question_is_open_leaves_it_open(database: Store) -> None:
    question = ApprovalWorker(database.url, "asked").killed_then()
    paid: list[int] = []
    async with open_session_service(database.url) as sessions:
        runner = paying_runner(sessions, paid.append, "Paid.")
        assert (await events(runner, answer((question, True))))[-1].text == "Paid."
        with pytest.raises(ToolResponseNotExpected):
            await events(runner, answer((question, True)))
        assert await recorded(runner) == [("c1", {"paid": 1})]
    assert paid == [1]


# contract: HITL-05, HITL-06
async def test_a_process_that_dies_while_the_tool_runs_leaves_it_interrupted(database: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    question = ApprovalWorker(database.url, "running").killed_then()
    paid: list[int] = []
    async with open_session_service(database.url) as sessions:
        runner = paying_runner(sessions, paid.append, "I do not know.", "It was interrupted.")
        with pytest.raises(ToolResponseNotExpected):
            await events(runner, answer((question, True)))
        await events(runner, user_content("Is it paid?"))
        assert await recorded(runner) == []
        newest = (await sessions.get(app_name="app", user_id="u", session_id="s", recent=1)).events[0]
        monkeypatch.setattr("live_gateway.agents.interrupted.time.time", lambda: newest.timestamp + INTERRUPTED_S)
        await events(runner, user_content("And now?"))
        assert await recorded(runner) == [("c1", {"error": INTERRUPTED})]
    assert paid == []


# contract: HITL-05, HITL-06
async def test_a_process_that_dies_with_the_result_stored_leaves_it_answered(database: Store) -> None:
    question = ApprovalWorker(database.url, "stored").killed_then()
    paid: list[int] = []
    async with open_session_service(database.url) as sessions:
        runner = paying_runner(sessions, paid.append, "It is paid.")
        with pytest.raises(ToolResponseNotExpected):
            await events(runner, answer((question, True)))
        assert (await events(runner, user_content("Is it paid?")))[-1].text == "It is paid."
        assert await recorded(runner) == [("c1", {"paid": 1})]
    assert paid == []


# contract: HITL-06
# case: K-CONF-07
async def test_of_many_decisions_at_once_on_one_database_one_counts(postgres_store: Store) -> None:
    paid: list[int] = []
    async with open_session_service(postgres_store.url) as one, open_session_service(postgres_store.url) as two:
        call = FunctionCall(id="c1", name="pay", args={"amount": 1})
        first = paying_runner(one, paid.append, call)
        (question,) = questions(await events(first, user_content("pay")))
        runners = [paying_runner(sessions, paid.append, "Done.") for sessions in (one, two) for _ in range(3)]

        async def decide(runner: Runner, message: Content) -> bool:
            try:
                await events(runner, message)
            except ToolResponseNotExpected:
                return False
            return True

        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(decide(runner, message))
                for index, runner in enumerate(runners)
                for message in [yes(question) if index % 2 else no(question)]
            ]
        assert sum(task.result() for task in tasks) == 1
        assert len(await recorded(first)) == 1
    assert len(paid) <= 1
