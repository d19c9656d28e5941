"""Runs what the model calls, beside the receive loop: a slow tool delays neither audio nor an interruption.

Calls of one message run side by side; their responses become one event in call order. The same call id runs once. A cancelled call is
recorded as cancelled at once, however long its tool takes to stop, and is not answered; every other call is answered exactly once,
whatever happens to it. The first outcome of a call counts; what comes later is dropped.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from live_gateway.agents.context import InvocationContext
from live_gateway.agents.llm import LlmAgent
from live_gateway.content import Content, FunctionCall, FunctionResponse
from live_gateway.errors import PluginError, ToolResponseNotExpected
from live_gateway.events import Event, EventActions
from live_gateway.live.items import ToolFinished, ToolStarted
from live_gateway.live.streams import Outlet, Streams
from live_gateway.plugins.chain import PluginChain
from live_gateway.plugins.tool_call import ToolOutcome, call_tool, merge_outcomes
from live_gateway.telemetry import get_logger

log = get_logger(__name__)

MAX_RUNNING = 32
MAX_REMEMBERED_IDS = 10_000


@dataclass(frozen=True, slots=True)
class ToolsAnswered:
    """All calls of one message are done. content: their responses for the record, None when there is none yet (long-running tools).
    answers: what goes to the model; cancelled calls are recorded and not answered."""

    content: Content | None
    actions: EventActions
    answers: tuple[FunctionResponse, ...]
    count: int


@dataclass(slots=True, eq=False)
class _Batch:
    """The calls of one message; it is forgotten once they were answered."""

    calls: tuple[FunctionCall, ...]
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    outcomes: dict[str, ToolOutcome] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)


class LiveTools:
    """The tool calls of one agent in a live session.

    show: takes the immediate notices. answered: takes each finished message of calls. Both are called on the loop and do not wait.
    """

    def __init__(
        self,
        agent: LlmAgent,
        invocation: InvocationContext,
        chain: PluginChain,
        show: Callable[[ToolStarted | ToolFinished], None],
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
        batch = _Batch(calls)
        self._batches.append(batch)
        for call in calls:
            tool = self._agent.find_tool(self._invocation, call.name)
            self._show(ToolStarted(call.id or "", call.name or "", dict(call.args or {}), tool.effect if tool else "read"))
            if self.long_running(call):
                self._pending[call.id or ""] = call
        room = max(0, MAX_RUNNING - len(self._alive))
        for call in calls[:room]:
            task = group.create_task(self._run(batch, call), name=f"tool {call.name}")
            batch.tasks[call.id or ""] = task
            self._alive.add(task)
            task.add_done_callback(partial(self._ended, batch, call))
        for call in calls[room:]:
            self._finish(batch, call, _failure(call, f"{MAX_RUNNING} tools are already running; try again when one has ended"))

    def cancel(self, ids: Sequence[str]) -> None:
        """The model no longer wants these answered: calls that run, and calls whose answer was to come from outside."""
        wanted = set(ids)
        for batch in list(self._batches):
            for call in batch.calls:
                if call.id in wanted:
                    self._cancel(batch, call)
        self._streams.cancel(ids)
        for call_id in ids:
            if call_id in self._pending:
                outcome = _failure(self._pending.pop(call_id), "cancelled")
                self._show(ToolFinished(call_id, "cancelled", 0))
                self._answered(ToolsAnswered(*merge_outcomes([outcome]), (), 0))

    def cancel_pending(self) -> None:
        """Nobody will ask for the answers that were to come from outside: the calls are recorded as cancelled."""
        self.cancel(list(self._pending))

    def cancel_all(self) -> list[asyncio.Task[None]]:
        """The session ends: whatever is not done is recorded as cancelled. The tasks that are still ending."""
        for batch in list(self._batches):
            for call in batch.calls:
                self._cancel(batch, call)
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
            outcome = await call_tool(self._chain, self._agent, self._invocation, call, self._streams.run_tool)
        except PluginError as error:  # the model still gets its answer
            outcome = _failure(call, str(error))
        except Exception as error:  # a defect of ours must cost one call and not the session
            log.error("call_failed", error, tool=call.name, agent=self._agent.name)
            outcome = _failure(call, f"the tool {call.name!r} could not be run ({type(error).__name__})")
        self._finish(batch, call, outcome)

    def _cancel(self, batch: _Batch, call: FunctionCall) -> None:
        """Of a message that was not answered yet. What is done stays in the record as it is, and is not told to the model."""
        if batch not in self._batches:
            return
        call_id = call.id or ""
        batch.cancelled.add(call_id)
        if call_id not in batch.outcomes:
            batch.tasks[call_id].cancel()
            self._finish(batch, call, _failure(call, "cancelled"))
        elif call_id in self._streams:  # it was to go on, and has not begun
            self._streams.discard(call_id)
            batch.outcomes[call_id] = _failure(call, "cancelled")
            self._show(ToolFinished(call_id, "cancelled", 0))

    def _ended(self, batch: _Batch, call: FunctionCall, task: asyncio.Task[None]) -> None:
        """A task that was cancelled by something else, perhaps before it began, has no outcome of its own."""
        self._alive.discard(task)
        if (call.id or "") not in batch.outcomes:
            batch.cancelled.add(call.id or "")
            self._finish(batch, call, _failure(call, "cancelled"))

    def _finish(self, batch: _Batch, call: FunctionCall, outcome: ToolOutcome) -> None:
        call_id = call.id or ""
        if call_id in batch.outcomes:  # cancelled; what it wrote to the state will not be stored
            self._invocation.settle(Event(author=self._agent.name, actions=outcome.actions))
            self._streams.discard(call_id)
            return
        if self.long_running(call) and call_id not in self._pending:  # answered from outside meanwhile
            outcome = replace(outcome, response=None)
        outcome = self._continued(batch, outcome)
        batch.outcomes[call_id] = outcome
        if call_id in batch.cancelled:
            if self._pending.pop(call_id, None) is None and self.long_running(call):
                self._cancelled_claims.add(call_id)
            self._show(ToolFinished(call_id, "cancelled", outcome.ms))
        elif outcome.status == "error":
            self._pending.pop(call_id, None)
            self._show(ToolFinished(call_id, "error", outcome.ms, error=outcome.error))
        elif call_id in self._pending or call_id in self._streams:
            self._show(ToolFinished(call_id, "progress", outcome.ms, result=outcome.response.response if outcome.response else None))
        else:
            self._show(ToolFinished(call_id, "done", outcome.ms, result=outcome.response.response if outcome.response else None))
        if len(batch.outcomes) == len(batch.calls):
            self._batches.remove(batch)
            self._answer(batch)

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
        content, actions = merge_outcomes(outcomes)
        answers = tuple(
            outcome.response
            for call, outcome in zip(batch.calls, outcomes, strict=True)
            if outcome.response is not None and (call.id or "") not in batch.cancelled
        )
        self._answered(ToolsAnswered(content, actions, answers, len(batch.calls)))
        for call in batch.calls:
            self._streams.begin(self._group, call.id or "")


def _failure(call: FunctionCall, text: str) -> ToolOutcome:
    response = FunctionResponse(id=call.id, name=call.name, response={"error": text})
    return ToolOutcome(call=call, response=response, actions=EventActions(), status="error", error=text, ms=0)
