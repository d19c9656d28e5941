"""A process that asks for the approval of a call and approves it itself, and stops at a certain moment to be killed."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Literal

from live_gateway.agents.llm import LlmAgent
from live_gateway.content import Content, FunctionCall, user_content
from live_gateway.runner import Runner
from live_gateway.sessions.base import SessionService
from live_gateway.sessions.sql import SqlSessionService
from live_gateway.testing.scripted_model import ScriptedModel
from live_gateway.tools.function import FunctionTool
from tests.support.approvals import questions, yes

Moment = Literal["asked", "running", "stored"]
"""The question is stored; the tool runs; its result is stored."""
WAIT_S = 30.0


def paying_runner(sessions: SessionService, pay: Callable[[int], Any], *answers: str | FunctionCall) -> Runner:
    """A runner of an agent that pays once it is approved."""

    async def paid(amount: int) -> dict[str, int]:
        """Pay."""
        await asyncio.to_thread(pay, amount)
        return {"paid": amount}

    agent = LlmAgent(name="agent", model=ScriptedModel(answers), tools=[FunctionTool(paid, name="pay", require_confirmation=True)])
    return Runner(app_name="app", agent=agent, session_service=sessions, auto_create_session=True)


class ApprovalWorker:
    """The process. It says when the moment has come and does nothing more."""

    def __init__(self, url: str, moment: Moment) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        self._said, theirs = context.Pipe()
        self._process = context.Process(target=_run, args=(url, moment, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def killed_then(self) -> Any:
        """kill -9 at the moment; what the process had said of the call until then."""
        assert self._said.poll(WAIT_S), "the worker did not get there"
        said = self._said.recv()
        self._process.kill()
        self._process.join(WAIT_S)
        self._process.close()
        self._said.close()
        return said


def _run(url: str, moment: Moment, out: Connection) -> None:
    asyncio.run(_work(url, moment, out))


async def _work(url: str, moment: Moment, out: Connection) -> None:
    asked: list[FunctionCall] = []

    def stop_at(here: Moment) -> None:
        if here == moment:
            out.send(asked[0].id)
            out.recv()

    async with SqlSessionService(url) as sessions:
        call = FunctionCall(id="c1", name="pay", args={"amount": 1})
        runner = paying_runner(sessions, lambda _: stop_at("running"), call, "Paid.")
        asked += questions(await _events(runner, user_content("pay")))
        stop_at("asked")
        async with runner.run(user_id="u", session_id="s", message=yes(*asked)) as stream:
            await anext(stream)
            stop_at("stored")


async def _events(runner: Runner, message: Content) -> list[Any]:
    return [event async for event in runner.run(user_id="u", session_id="s", message=message)]
