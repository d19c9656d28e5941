"""One turn of an agent with a model: ask, answer, run tools, ask again, until the answer is final.

Everything happens when the next event is asked for: a tool starts only after the event with its call was stored and its consumer came back
for more. The flow stores nothing itself; whoever consumes it does, and the flow goes by what it then finds in the session: tools run with
the arguments of the *stored* call, and a call or a response that was not stored ends the turn.

A turn that follows a person's decision about a call begins with that call, approved or rejected, instead of with the model. While other
calls of the same run wait for a decision, it ends there.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from live_gateway.agents.base import Agent
from live_gateway.agents.context import InvocationContext
from live_gateway.agents.llm import LlmAgent
from live_gateway.content import Content
from live_gateway.errors import AgentError
from live_gateway.events import Event, EventActions
from live_gateway.flow.answers import answer_by_tool, event_of, is_nothing, is_thought_only
from live_gateway.flow.closing import has_ended
from live_gateway.flow.confirmation import asking_event, decisions_for
from live_gateway.flow.model_call import ModelCall
from live_gateway.flow.request import build_request
from live_gateway.flow.tool_calls import carry_out_all, run_calls
from live_gateway.plugins.chain import PluginChain
from live_gateway.plugins.tool_call import ToolOutcome, merge_outcomes
from live_gateway.tools.set_model_response import SET_MODEL_RESPONSE

MAX_THOUGHT_ONLY = 3
"""So many answers in a row may hold thoughts alone before the turn fails."""


class LlmFlow:
    """The events of one turn, pieces included. An async iterator; `aclose` cancels a running model or tool call before it returns.

    An error ends the turn: `AgentError` (too many model calls, thoughts without an answer, an answer that does not fit the output schema,
    a transfer to an agent that may not take over),
    `PluginError`, `ConfigurationError`, or what the model raised.
    """

    def __init__(self, invocation: InvocationContext, chain: PluginChain, agent: LlmAgent) -> None:
        self._invocation = invocation
        self._chain = chain
        self._agent = agent
        self._model = ModelCall(invocation, chain, agent)
        self._last: Event | None = None
        self._broken = False
        self.successor: Agent | None = None
        """Who goes on after this turn, once the response that says so was stored."""
        self._events = self._turn()

    @property
    def ended(self) -> bool:
        """Whether nothing more comes."""
        return has_ended(self._events)

    def __aiter__(self) -> LlmFlow:
        return self

    async def __anext__(self) -> Event:
        return await anext(self._events)

    async def aclose(self) -> None:
        """End the turn here."""
        await self._events.aclose()

    async def _turn(self) -> AsyncGenerator[Event, None]:
        thoughts = 0
        if decisions_for(self._invocation, self._agent):
            async with aclosing(self._carry_out()) as step:
                async for event in step:
                    yield event
            if self._last is None or self._broken or self._last.is_final_response() or self._waits():
                return
        while True:
            async with aclosing(self._step()) as step:
                async for event in step:
                    yield event
            if self._last is None or self._broken or self.successor is not None:
                return
            thoughts = thoughts + 1 if is_thought_only(self._last) else 0
            if not thoughts and self._last.is_final_response():
                return
            if thoughts >= MAX_THOUGHT_ONLY:
                raise AgentError(f"the model of agent {self._agent.name!r} thought {thoughts} times in a row without an answer")

    async def _step(self) -> AsyncGenerator[Event, None]:
        """One question to the model, its answer, and the tools that it calls."""
        self._last = None
        request = await build_request(self._invocation, self._agent)
        head = self._invocation.session.head_seq
        async with aclosing(self._model.answers(request)) as answers:
            async for response in answers:
                if is_nothing(response):
                    continue
                self._last = event_of(response, self._invocation, self._agent)
                yield self._last
        if self._last is None or not self._last.function_calls or self._last.partial:
            return
        stored = self._stored(self._last, head)
        self._broken = stored is None
        if stored is not None and stored.function_calls:
            outcomes = await run_calls(self._chain, self._agent, self._invocation, stored.function_calls)
            async with aclosing(self._report(outcomes, stored.content)) as events:
                async for event in events:
                    yield event

    async def _carry_out(self) -> AsyncGenerator[Event, None]:
        """Run or reject the calls that the user's message decided about."""
        decisions = decisions_for(self._invocation, self._agent)
        outcomes = await carry_out_all(self._chain, self._agent, self._invocation, decisions)
        async with aclosing(self._report(outcomes, None)) as events:
            async for event in events:
                yield event

    def _waits(self) -> bool:
        return self._invocation.decided is not None and self._invocation.decided.waiting

    async def _report(self, outcomes: Sequence[ToolOutcome], asked_by: Content | None) -> AsyncGenerator[Event, None]:
        """What became of calls: the results, then what is asked of a person. asked_by: the content with the calls."""
        async with aclosing(self._results([outcome for outcome in outcomes if outcome.asks is None])) as events:
            async for event in events:
                yield event
        asking = None if self._broken else asking_event(outcomes, asked_by, self._invocation, self._agent)
        if asking is not None:
            self._last = asking
            yield asking

    async def _results(self, outcomes: Sequence[ToolOutcome]) -> AsyncGenerator[Event, None]:
        content, actions = merge_outcomes(outcomes)
        if content is None and actions == EventActions():
            return
        self._last = Event(
            author=self._agent.name,
            invocation_id=self._invocation.invocation_id,
            branch=self._invocation.branch,
            isolation_scope=self._invocation.isolation_scope,
            content=content,
            actions=actions,
        )
        head = self._invocation.session.head_seq
        yield self._last
        stored = self._stored(self._last, head)
        self._broken = stored is None
        if stored is not None and stored.actions.transfer_to_agent is not None:
            self.successor = self._invocation.target(stored.actions.transfer_to_agent)
            return
        answer = _answer(outcomes)
        if answer is not None and not self._broken:
            self._last = answer_by_tool(answer, self._invocation, self._agent)
            yield self._last

    def _stored(self, event: Event, head: int) -> Event | None:
        """The event as it was stored after `head`, or None if it was rejected."""
        for known in reversed(self._invocation.session.events):
            if known.id == event.id:
                return known
            if known.seq <= head:
                break
        return None


def _answer(outcomes: Sequence[ToolOutcome]) -> str | None:
    """The answer that was given through `set_model_response`, as JSON."""
    for outcome in outcomes:
        if outcome.call.name == SET_MODEL_RESPONSE and outcome.status == "done" and outcome.response is not None:
            return json.dumps(outcome.response.response, ensure_ascii=False)
    return None
