"""Runs what the model calls, beside the receive loop: a slow tool delays neither audio nor an interruption.

Calls of one message run side by side; their responses become one event in call order. The same call id runs once. A cancelled call is
recorded as cancelled at once, however long its tool takes to stop, and is not answered; every other call is answered exactly once,
whatever happens to it. The first outcome of a call counts; what comes later is dropped. A call that a person is to approve first is
answered once that is decided (`approvals`), apart from its message.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from live_gateway.agents.context import InvocationContext
from live_gateway.agents.llm import LlmAgent
from live_gateway.confirmation import Decision
from live_gateway.content import Content, FunctionCall, FunctionResponse, FunctionResponseScheduling, Part
from live_gateway.errors import PluginError, ToolResponseNotExpected
from live_gateway.events import Event, EventActions
from live_gateway.live.approvals import MAX_QUESTIONS, Approvals, Outs
from live_gateway.live.items import ToolFinished, ToolRunning, ToolStarted, ToolStatus
from live_gateway.live.streams import Outlet, Streams
from live_gateway.plugins.chain import PluginChain
from live_gateway.plugins.tool_call import ToolOutcome, call_tool, carry_out, failure_of, merge_outcomes
from live_gateway.telemetry import get_logger
from live_gateway.tools.base import Interruptible

log = get_logger(__name__)

MAX_RUNNING = 32
MAX_REMEMBERED_IDS = 10_000
CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class ToolsAnswered:
    """All calls of one message are done. content: their responses for the record, None when there is none yet (long-running tools).
    answers: what goes to the model; cancelled calls are recorded and not answered. asking: the calls that ask a person about what waits,
    with the side effects of what asked. event_id: of the record, where it must have a certain one."""

    content: Content | None
    actions: EventActions
    answers: tuple[FunctionResponse, ...]
    count: int
    asking: tuple[Part, ...] = ()
    asking_actions: EventActions = field(default_factory=EventActions)
    event_id: str | None = None


@dataclass(slots=True, eq=False)
class _Batch:
    """The calls of one message, or one that was decided about; it is forgotten once they were answered. cancelled: these are not answered.
    interrupted: these are, with that they were cancelled."""

    calls: tuple[FunctionCall, ...]
    decision: Decision | None = None
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    outcomes: dict[str, ToolOutcome] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    interrupted: set[str] = field(default_factory=set)


class LiveTools:
    """The tool calls of one agent in a live session.

    show: takes the immediate notices. answered: takes each finished message of calls. Both are called on the loop and do not wait.
    """

    def __init__(
        self,
        agent: LlmAgent,
        invocation: InvocationContext,
        chain: PluginChain,
        show: Callable[[ToolStarted | ToolRunning | ToolFinished], None],
        answered: Callable[[ToolsAnswered], None],
        outlet: Outlet,
    ) -> None:
        self._agent = agent
        self._invocation = invocation
        self._chain = chain
        self._show = show
        self._answered = answered
        self._batches: list[_Batch] = []
        self._alive: set[asyncio.Task[None]] = set()
        self._seen: dict[str, None] = {}
        self._pending: dict[str, FunctionCall] = {}
        self._cancelled_claims: set[str] = set()
        self._streams = Streams(agent, invocation, chain, show, outlet)
        self.approvals = Approvals(agent.name, invocation.invocation_id, Outs(self._cancelled_waiting, self._decided_elsewhere))
        self._group: asyncio.TaskGroup

    def long_running(self, call: FunctionCall) -> bool:
        """Whether the call's final answer comes later, from outside."""
        tool = self._agent.find_tool(self._invocation, call.name)
        return tool is not None and tool.long_running

    def fresh(self, calls: Sequence[FunctionCall]) -> tuple[FunctionCall, ...]:
        """The calls whose id was not seen before, in this message or an earlier one; they count as seen now. One without an id gets one."""
        fresh: list[FunctionCall] = []
        for call in calls:
            known = call if call.id else call.model_copy(update={"id": f"call-{uuid.uuid4().hex}"})
            if known.id not in self._seen:
                self._seen[known.id or ""] = None
                fresh.append(known)
        while len(self._seen) > MAX_REMEMBERED_IDS:
            del self._seen[next(iter(self._seen))]
        return tuple(fresh)

    def start(self, group: asyncio.TaskGroup, calls: tuple[FunctionCall, ...]) -> None:
        """Run these calls. Their notices come at once, `answered` when all of them are done."""
        self._group = group
        for call in calls:
            self._show_call(call)
        self._launch(_Batch(calls))

    def event_stored(self, event_id: str, resumes: Callable[[], None]) -> None:
        """If this event is a decision, it takes effect: the call is run or rejected, like one of `start`. resumes: called before."""
        decision = self.approvals.stored(event_id)
        if decision is None:
            return
        resumes()
        call = decision.question.call
        self._launch(_Batch((call,), decision))

    def _launch(self, batch: _Batch) -> None:
        self._batches.append(batch)
        self._pending.update((call.id or "", call) for call in batch.calls if self.long_running(call))
        room = max(0, MAX_RUNNING - len(self._alive))
        for call in batch.calls[:room]:
            task = self._group.create_task(self._run(batch, call), name=f"tool {call.name}")
            batch.tasks[call.id or ""] = task
            self._alive.add(task)
            task.add_done_callback(partial(self._ended, batch, call))
        for call in batch.calls[room:]:
            self._finish(batch, call, failure_of(call, f"{MAX_RUNNING} tools are already running; try again when one has ended"))

    def interrupt(self) -> None:
        """The user interrupts: calls of tools that want it so are cancelled, and the model is told."""
        for batch in list(self._batches):
            for call in batch.calls:
                call_id = call.id or ""
                if call_id not in batch.outcomes and self._interruptible(call):
                    batch.interrupted.add(call_id)
                    batch.tasks[call_id].cancel()
                    self._finish(batch, call, _interrupted(call))

    def cancel(self, ids: Sequence[str]) -> None:
        """The model no longer wants these answered: calls that run, and calls whose answer was to come from outside."""
        wanted = set(ids)
        for batch in list(self._batches):
            for call in batch.calls:
                if call.id in wanted:
                    self._cancel(batch, call)
        self._streams.cancel(ids)
        self.approvals.cancel(wanted)
        for call_id in ids:
            if call_id in self._pending:
                self._cancelled_waiting(self._pending.pop(call_id))

    def cancel_pending(self) -> None:
        """Nobody will ask for the answers that were to come from outside: the calls are recorded as cancelled."""
        self.cancel(list(self._pending))

    def cancel_all(self) -> list[asyncio.Task[None]]:
        """The agent is left: whatever is not done is recorded as cancelled. The tasks that are still ending."""
        for batch in list(self._batches):
            for call in batch.calls:
                self._cancel(batch, call)
        self.approvals.cancel(None)
        return [*self._alive, *self._streams.cancel_all()]

    def claim(self, responses: Sequence[FunctionResponse]) -> tuple[FunctionCall, ...]:
        """Take the calls that these outside answers belong to, so that nobody else answers them. Raises `ToolResponseNotExpected`."""
        claimed: list[FunctionCall] = []
        for response in responses:
            call = self._pending.get(response.id or "")
            if call is None or (response.name and response.name != call.name):
                self.give_back(claimed)
                raise ToolResponseNotExpected(f"no call with the id {response.id!r} waits for an answer from outside")
            claimed.append(self._pending.pop(response.id or ""))
        return tuple(claimed)

    def give_back(self, calls: Sequence[FunctionCall]) -> None:
        """The answers did not reach the model: these calls wait again, but for those that were cancelled meanwhile."""
        self._pending.update((call.id or "", call) for call in calls if call.id not in self._cancelled_claims)

    async def _run(self, batch: _Batch, call: FunctionCall) -> None:
        try:
            if batch.decision is None:
                outcome = await call_tool(self._chain, self._agent, self._invocation, call, self._streams.run_tool)
            else:
                outcome = await carry_out(self._chain, self._agent, self._invocation, batch.decision, self._streams.run_tool)
        except PluginError as error:  # the model still gets its answer
            outcome = failure_of(call, str(error))
        except Exception as error:  # a defect of ours must cost one call and not the session
            log.error("call_failed", error, tool=call.name, agent=self._agent.name)
            outcome = failure_of(call, f"the tool {call.name!r} could not be run ({type(error).__name__})")
        self._finish(batch, call, outcome)

    def _cancel(self, batch: _Batch, call: FunctionCall) -> None:
        """Of a message that was not answered yet. What is done stays in the record as it is, and is not told to the model."""
        if batch not in self._batches:
            return
        call_id = call.id or ""
        batch.cancelled.add(call_id)
        if call_id not in batch.outcomes:
            batch.tasks[call_id].cancel()
            self._finish(batch, call, failure_of(call, CANCELLED))
        elif call_id in self._streams or batch.outcomes[call_id].asks is not None:  # it was to go on, and has not begun
            self._streams.discard(call_id)
            self._invocation.settle(Event(author=self._agent.name, actions=batch.outcomes[call_id].actions))
            batch.outcomes[call_id] = failure_of(call, CANCELLED)
            self._show(ToolFinished(call_id, "cancelled", 0))

    def _cancelled_waiting(self, call: FunctionCall, event_id: str | None = None) -> None:
        """A call that waited for somebody is over: recorded, and not answered."""
        self._show(ToolFinished(call.id or "", "cancelled", 0))
        self._answered(ToolsAnswered(*merge_outcomes([failure_of(call, CANCELLED)]), (), 0, event_id=event_id))

    def _decided_elsewhere(self, call: FunctionCall) -> None:
        """Whoever decided records the result; this session's model still waits for its one answer."""
        self._show(ToolFinished(call.id or "", "done", 0))
        answer = FunctionResponse(id=call.id, name=call.name, response={"status": "decided about elsewhere; the result is not known here"})
        self._answered(ToolsAnswered(None, EventActions(), (answer,), 0))

    def _ended(self, batch: _Batch, call: FunctionCall, task: asyncio.Task[None]) -> None:
        """A task that was cancelled by something else, perhaps before it began, has no outcome of its own."""
        self._alive.discard(task)
        if (call.id or "") not in batch.outcomes:
            batch.cancelled.add(call.id or "")
            self._finish(batch, call, failure_of(call, CANCELLED))

    def _finish(self, batch: _Batch, call: FunctionCall, outcome: ToolOutcome) -> None:
        call_id = call.id or ""
        if call_id in batch.outcomes:  # cancelled; what it wrote to the state will not be stored
            self._invocation.settle(Event(author=self._agent.name, actions=outcome.actions))
            self._streams.discard(call_id)
            return
        if self.long_running(call) and call_id not in self._pending:  # answered from outside meanwhile
            outcome = replace(outcome, response=None, asks=None)
        outcome = self._continued(batch, self._askable(batch, outcome))
        batch.outcomes[call_id] = outcome
        if call_id in batch.cancelled and call_id not in self._pending and self.long_running(call):
            self._cancelled_claims.add(call_id)
        if outcome.status == "error" or outcome.asks is not None:
            self._pending.pop(call_id, None)
        self._show_outcome(batch, outcome)
        if len(batch.outcomes) == len(batch.calls):
            self._batches.remove(batch)
            self._answer(batch)

    def _askable(self, batch: _Batch, outcome: ToolOutcome) -> ToolOutcome:
        """The outcome, or a failure where it would be one question too many."""
        asking = sum(one.asks is not None for one in batch.outcomes.values())
        if outcome.asks is None or self.approvals.room > asking:
            return outcome
        self._invocation.settle(Event(author=self._agent.name, actions=outcome.actions))
        return failure_of(outcome.call, f"{MAX_QUESTIONS} calls already wait for the user's decision; try again when one is decided")

    def _show_outcome(self, batch: _Batch, outcome: ToolOutcome) -> None:
        call, status = outcome.call, self._status(batch, outcome)
        if outcome.asks is not None:
            self._show_call(call, outcome.asks.hint)
        shown = outcome.response.response if status in ("progress", "done") and outcome.response is not None else None
        error = outcome.error if status in ("error", "denied") else None
        self._show(ToolFinished(call.id or "", status, outcome.ms, result=shown, error=error))

    def _status(self, batch: _Batch, outcome: ToolOutcome) -> ToolStatus:
        call_id = outcome.call.id or ""
        if call_id in batch.cancelled or call_id in batch.interrupted:
            return "cancelled"
        if outcome.asks is not None:
            return "waiting_confirm"
        if outcome.status == "error":
            denied = batch.decision is not None and not batch.decision.confirmation.confirmed
            return "denied" if denied else "error"
        return "progress" if call_id in self._pending or call_id in self._streams else "done"

    def _show_call(self, call: FunctionCall, hint: str | None = None) -> None:
        """hint: what a person is asked, where one is asked."""
        tool = self._agent.find_tool(self._invocation, call.name)
        effect = tool.effect if tool is not None else "read"
        self._show(ToolStarted(call.id or "", call.name or "", dict(call.args or {}), effect, hint is not None, hint or ""))

    def _interruptible(self, call: FunctionCall) -> bool:
        tool = self._agent.find_tool(self._invocation, call.name)
        return isinstance(tool, Interruptible) and tool.cancel_on_interrupt

    def _continued(self, batch: _Batch, outcome: ToolOutcome) -> ToolOutcome:
        """The outcome, which says so where more will follow. What was prepared for a call that failed or was cancelled is dropped."""
        call_id = outcome.call.id or ""
        if call_id not in self._streams:
            return outcome
        if outcome.response is None or outcome.status == "error" or call_id in batch.cancelled:
            self._streams.discard(call_id)
            return outcome
        return replace(outcome, response=outcome.response.model_copy(update={"will_continue": True}))

    def _answer(self, batch: _Batch) -> None:
        outcomes = [batch.outcomes[call.id or ""] for call in batch.calls]
        content, actions = merge_outcomes([outcome for outcome in outcomes if outcome.asks is None])
        answers = tuple(
            outcome.response
            for call, outcome in zip(batch.calls, outcomes, strict=True)
            if outcome.response is not None and (call.id or "") not in batch.cancelled
        )
        asking = self.approvals.ask(outcomes)
        asked = merge_outcomes([outcome for outcome in outcomes if outcome.asks is not None])[1]
        self._answered(ToolsAnswered(content, actions, answers, len(batch.calls), asking, asked))
        for call in batch.calls:
            self._streams.begin(self._group, call.id or "")


def _interrupted(call: FunctionCall) -> ToolOutcome:
    """The user knows, so the model need not speak about it."""
    outcome = failure_of(call, CANCELLED, reason="the user interrupted")
    silent = {"scheduling": FunctionResponseScheduling.SILENT}
    return replace(outcome, response=outcome.response.model_copy(update=silent) if outcome.response is not None else None)
