"""Random interleavings of calls, approvals, denials, duplicates, cancellations and the end. `LIVE_GATEWAY_STORMS=5000` plays more."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from live_gateway.agents.config import LiveRunConfig
from live_gateway.agents.context import ToolContext
from live_gateway.agents.llm import LlmAgent
from live_gateway.content import TRANSFER_TO_AGENT, FunctionCall
from live_gateway.errors import GatewayError, NotDelivered, StorageError
from live_gateway.events import Event
from live_gateway.live.session import LiveSession
from live_gateway.models.live import Activity, Interrupted, LiveMessage, ToolCalls, ToolCallsCancelled, Transcript
from live_gateway.runner import Runner
from live_gateway.sessions.memory import InMemorySessionService
from live_gateway.testing import FaultySessionService
from live_gateway.testing.scripted_model import ScriptedModel
from live_gateway.testing.virtual_time import run
from live_gateway.tools.function import FunctionTool
from tests.support.approvals import about, answer, questions, results
from tests.support.live import go_live, live_runner, stored
from tests.support.puppet_model import PuppetModel

Gust = tuple[str, Any]
STORMS = int(os.environ.get("LIVE_GATEWAY_STORMS", "250"))
TOOLS = ["free", "careful", "asking", "stoppable"]


@dataclass
class Seen:
    """What happened. runs: calls whose tool took effect. taken: decisions that were taken. elsewhere: calls that a text run decided about,
    or was about to. calm, before_end: ids of the calls that were answered, and have a response in the record, once everything had come to
    rest, before the session ended. told: which connection made a call."""

    model: PuppetModel = field(default_factory=PuppetModel)
    sessions: FaultySessionService = field(default_factory=lambda: FaultySessionService(InMemorySessionService()))
    runs: list[str] = field(default_factory=list)
    taken: list[tuple[str, bool]] = field(default_factory=list)
    elsewhere: set[str] = field(default_factory=set)
    calm: list[str | None] = field(default_factory=list)
    before_end: list[str | None] = field(default_factory=list)
    uncalled: set[str] = field(default_factory=set)
    kept: list[Event] = field(default_factory=list)
    calls: dict[str, str] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)
    tasks_left: int = 0
    loop_errors: list[str] = field(default_factory=list)
    at_rest: bool = False
    troubled: bool = False


def tools(seen: Seen) -> list[FunctionTool]:
    async def work(ctx: ToolContext) -> str:
        seen.runs.append(ctx.call_id)
        await asyncio.sleep(2)
        return "done"

    async def asking(ctx: ToolContext) -> str:
        await asyncio.sleep(0.1)
        if ctx.confirmation is None:
            ctx.request_confirmation(hint="really?")
            return "dropped"
        return await work(ctx)

    return [
        FunctionTool(work, name="free"),
        FunctionTool(work, name="careful", require_confirmation=True),
        FunctionTool(asking, name="asking"),
        FunctionTool(work, name="stoppable", require_confirmation=True, cancel_on_interrupt=True),
    ]


class Storm:
    """Plays the gusts against a live session, and text runs beside it."""

    def __init__(self, seen: Seen, runner: Runner, live: LiveSession, group: asyncio.TaskGroup) -> None:
        self._seen, self._runner, self._live, self._group = seen, runner, live, group
        self._transfers = 0

    async def blow(self, gust: Gust) -> None:
        kind, value = gust
        await getattr(self, f"_{kind}")(value)

    async def _say(self, message: LiveMessage) -> None:
        self._seen.model.connection.say(message)

    async def _call(self, names: list[str]) -> None:
        first = len(self._seen.calls)
        ids = {f"c-{first + index}": name for index, name in enumerate(names)}
        self._seen.calls |= ids
        self._seen.told |= dict.fromkeys(ids, len(self._seen.model.connections) - 1)
        await self._say(ToolCalls(tuple(FunctionCall(id=call_id, name=name, args={}) for call_id, name in ids.items())))

    async def _ask(self, name: str) -> None:
        """A call whose question is there."""
        await self._call([name])
        await asyncio.sleep(0.2)

    async def _move(self, seconds: float) -> None:
        """To the agent that does not answer now; go on so long after it."""
        await self._transfer("other" if self._live.agent.name == "agent" else "agent")
        await asyncio.sleep(seconds)

    async def _transfer(self, to: str) -> None:
        self._transfers += 1
        call = FunctionCall(id=f"t-{self._transfers}", name=TRANSFER_TO_AGENT, args={"agent_name": to})
        await self._say(ToolCalls((call,)))

    async def _opening(self, seconds: float) -> None:
        self._seen.model.opens_in_s = seconds

    async def _activity(self, activity: Activity) -> None:
        self._group.create_task(self._talking(activity))

    async def _talking(self, activity: Activity) -> None:
        with suppress(GatewayError, NotDelivered):
            await self._live.activity(activity)

    async def _uncall(self, back: int) -> None:
        await self._cancel(f"c-{len(self._seen.calls) - 1 - back}")

    async def _cancel(self, call_id: str) -> None:
        self._seen.uncalled.add(call_id)
        await self._say(ToolCallsCancelled((call_id,)))

    async def _duel(self, wheres: list[tuple[bool, bool]]) -> None:
        """Several decide about the newest question at once."""
        for approve, elsewhere in wheres:
            await self._decide((0, approve, elsewhere, 60.0))

    async def _regret(self, _: None) -> None:
        """The newest question is approved, and its call cancelled before the store has the approval."""
        self._seen.sessions.slow_appends(0.3)
        await self._decide((0, True, False, 60.0))
        await asyncio.sleep(0.1)
        if asked := questions(await stored(self._runner)):
            await self._cancel(about(asked[-1])["id"])

    async def _decide(self, how: tuple[int, bool, bool, float]) -> None:
        """Decide about one of the questions, perhaps about one that is decided already, here or in a text run."""
        back, approve, elsewhere, patience_s = how
        asked = questions(await stored(self._runner))
        if asked:
            question = asked[-1 - back % len(asked)]
            self._group.create_task(self._deciding(question, approve, elsewhere=elsewhere, patience_s=patience_s))

    async def _deciding(self, question: FunctionCall, approve: bool, *, elsewhere: bool, patience_s: float) -> None:
        message = answer((question, approve))
        with suppress(GatewayError, NotDelivered, TimeoutError):
            async with asyncio.timeout(patience_s):
                if elsewhere:
                    self._seen.elsewhere.add(about(question)["id"])
                    async for _ in self._runner.run(user_id="u", session_id="s", message=message):
                        pass
                else:
                    await self._live.send(message)
                self._seen.taken.append((about(question)["id"], approve))

    async def _wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _store(self, how: str) -> None:
        sessions = self._seen.sessions
        self._seen.troubled |= how == "fail"
        if how == "fail":
            sessions.fail_append(1, StorageError("no"))
        else:
            sessions.slow_appends(0.3 if how == "slow" else 0.0)


async def weather(gusts: list[Gust], *, comes_to_rest: bool, config: LiveRunConfig | None = None) -> Seen:
    seen = Seen()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: seen.loop_errors.append(str(context)))
    other = LlmAgent(name="other", live_model=seen.model, tools=tools(seen), model=ScriptedModel(["Well."] * 50))
    runner = live_runner(seen.model, tools=tools(seen), sessions=seen.sessions, model=ScriptedModel(["Well."] * 50), sub_agents=[other])
    async with asyncio.timeout(600), asyncio.TaskGroup() as group, go_live(runner, config=config) as live:
        storm = Storm(seen, runner, live, group)
        for gust in gusts:
            await storm.blow(gust)
        seen.sessions.repair()
        if comes_to_rest:
            await asyncio.sleep(60)
            seen.at_rest = True
            seen.calm = [each.id for each in seen.model.connection.answers]
            seen.before_end = [call_id for call_id, _ in results(await stored(runner))]
    seen.tasks_left = len(asyncio.all_tasks()) - 1
    seen.kept = await stored(runner)
    return seen


def check(seen: Seen) -> None:
    assert seen.tasks_left == 0
    assert seen.loop_errors == []
    last = len(seen.model.connections) - 1
    runs, answers = Counter(seen.runs), Counter(each.id for each in seen.model.connection.answers)
    recorded = Counter(call_id for call_id, _ in results(seen.kept))
    asked = Counter(about(question)["id"] for question in questions(seen.kept))
    begun = {call.id for event in seen.kept for call in event.function_calls}
    approved, denied = ({call_id for call_id, said in seen.taken if said is wanted} for wanted in (True, False))
    assert not approved & denied, "two decisions about one call were taken"
    taken = Counter(seen.taken)
    assert set(taken.values()) <= {1}
    for call_id, name in seen.calls.items():
        assert runs[call_id] <= 1, "a tool ran twice"
        assert answers[call_id] <= 1, "the model was answered twice"
        assert asked[call_id] <= 1
        assert not (runs[call_id] and call_id in denied), "a call that was denied ran"
        if name == "free":
            assert asked[call_id] == 0
        elif runs[call_id] and not seen.troubled:
            assert asked[call_id] == 1, "it ran and nobody was asked"
        if not seen.troubled and call_id in begun:
            if call_id in seen.elsewhere:
                # a run that was given up leaves an approved call without a result; a session that ends while a decision of its own is
                # on the way to the store says that the call was cancelled, and does not wait for who was first
                assert recorded[call_id] <= (1 if seen.at_rest else 2)
                continue
            assert recorded[call_id] == 1, "not exactly one response in the record"
            wanted = call_id not in seen.uncalled and seen.told[call_id] == last
            if call_id in approved and seen.before_end and wanted and name != "stoppable":  # which an interruption may end before it began
                assert runs[call_id] == 1, "a call that was approved did not run"
            if call_id in seen.before_end and wanted:
                assert call_id in seen.calm, "a call that is over was not answered"


decisions = st.tuples(st.integers(0, 3), st.booleans(), st.sampled_from([False, False, True]), st.sampled_from([60.0, 0.1]))
gusts: st.SearchStrategy[Gust] = st.one_of(
    st.tuples(st.just("call"), st.lists(st.sampled_from(TOOLS), min_size=1, max_size=3)),
    st.tuples(st.just("call"), st.lists(st.sampled_from(TOOLS), min_size=1, max_size=3)),
    st.tuples(st.just("ask"), st.sampled_from(["careful", "asking", "stoppable"])),
    st.tuples(st.just("ask"), st.sampled_from(["careful", "asking", "stoppable"])),
    st.tuples(st.just("decide"), decisions),
    st.tuples(st.just("decide"), st.tuples(st.integers(0, 3), st.just(True), st.just(False), st.just(60.0))),
    st.tuples(st.just("duel"), st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=4)),
    st.tuples(st.just("regret"), st.none()),
    st.tuples(st.just("uncall"), st.integers(0, 2)),
    st.tuples(st.just("say"), st.sampled_from([Interrupted(), Transcript("model", "one "), Transcript("user", "two ", finished=True)])),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.0, 0.01, 0.2, 1.0, 3.0])),
    st.tuples(st.just("store"), st.sampled_from(["slow", "fine", "fail"])),
)


# contract: LIVE-17, HITL-06
# case: K-LTOOL-13
# report: A72
@settings(max_examples=STORMS, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(gusts, min_size=5, max_size=25), st.booleans())
def test_each_tool_runs_at_most_once_and_each_call_is_answered_once(storm: list[Gust], comes_to_rest: bool) -> None:
    note(f"{storm}; comes to rest: {comes_to_rest}")
    check(run(weather(storm, comes_to_rest=comes_to_rest)))


moves: st.SearchStrategy[Gust] = st.one_of(
    st.tuples(st.just("move"), st.sampled_from([0.0, 0.01, 1.0, 1.0])),
    st.tuples(st.just("move"), st.sampled_from([0.0, 0.01, 1.0, 1.0])),
    st.tuples(st.just("opening"), st.sampled_from([0.0, 0.3, 2.0, 30.0])),
    st.tuples(st.just("activity"), st.sampled_from(Activity)),
    gusts,
    gusts,
)


# contract: LIVE-17, LIVE-21, HITL-06
@settings(max_examples=STORMS, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(moves, min_size=5, max_size=25), st.booleans(), st.booleans())
def test_the_same_holds_while_agents_hand_over_and_the_call_is_recorded(storm: list[Gust], comes_to_rest: bool, recorded: bool) -> None:
    note(f"{storm}; comes to rest: {comes_to_rest}; recorded: {recorded}")
    with tempfile.TemporaryDirectory() as directory:
        config = LiveRunConfig(record_to=Path(directory)) if recorded else None
        check(run(weather(storm, comes_to_rest=comes_to_rest, config=config)))
        assert len(list(Path(directory).iterdir())) == recorded
