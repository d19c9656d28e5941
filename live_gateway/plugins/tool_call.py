"""One tool call, from the model's call to the response: the same chain for `run` and for live.

    plugins' before_tool -> agent's before_tool -> the tool -> (on failure) plugins' on_tool_error -> agent's on_tool_error
    -> plugins' after_tool -> agent's after_tool

The first answer that is not None wins at each place. Whatever fails becomes a response with the key `error`, so that the model always
gets its answer; only a plugin's own failure and cancellation come out as exceptions.
"""

from __future__ import annotations

import asyncio
import copy
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from live_gateway.agents.context import InvocationContext, ToolContext
from live_gateway.agents.llm import LlmAgent
from live_gateway.confirmation import Decision, ToolConfirmation, as_asked, rejected
from live_gateway.content import Content, FunctionCall, FunctionResponse, Part
from live_gateway.errors import GatewayError, PluginError, ToolError
from live_gateway.events import EventActions
from live_gateway.plugins.chain import PluginChain
from live_gateway.telemetry import get_logger
from live_gateway.tools.base import AsksFirst, Tool
from live_gateway.tools.result import to_response
from live_gateway.tools.threads import as_failure

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """How a call ended.

    call: the call, with an id. response: what answers it, with id and name of the call; None while a long-running tool has nothing to say,
    and while a person is to approve the call. actions: side effects for the response's event. error: the words of the `error` in the
    response. ms: how long it took. asks: what the person is asked.
    """

    call: FunctionCall
    response: FunctionResponse | None
    actions: EventActions
    status: Literal["done", "error", "waiting"]
    error: str | None
    ms: int
    asks: ToolConfirmation | None = None


RunTool: TypeAlias = Callable[[Tool, dict[str, Any], ToolContext], Awaitable[Any]]


async def _run_tool(tool: Tool, args: dict[str, Any], context: ToolContext) -> Any:
    return await tool.run(args, context)


async def call_tool(
    chain: PluginChain,
    agent: LlmAgent,
    invocation: InvocationContext,
    call: FunctionCall,
    run: RunTool = _run_tool,
    confirmation: ToolConfirmation | None = None,
) -> ToolOutcome:
    """Run one call of the agent's model. The call is not changed; one without an id gets one in the outcome. run: runs the tool itself.
    confirmation: the person's approval; without, a tool that asks first is not run.

    Raises `PluginError` when a plugin's hook failed; what the tool wrote to the state is then gone, as it is after a cancellation.
    """
    loop = asyncio.get_running_loop()
    started = loop.time()
    if not call.id:
        call = call.model_copy(update={"id": f"call-{uuid.uuid4().hex}"})
    context = ToolContext(invocation, call.id or "", confirmation=confirmation)
    running = _Call(chain, agent, context, call.name or "", copy.deepcopy(call.args or {}), run)
    try:
        answer = await running.answer()
    except BaseException:
        context.discard()
        raise
    context.close()
    response = None if answer is None else FunctionResponse(id=call.id, name=call.name, response=answer)
    asks = context.requested if answer is None else None
    status: Literal["done", "error", "waiting"] = "waiting" if asks is not None else "done" if running.error is None else "error"
    return ToolOutcome(call, response, context.actions, status, running.error, round((loop.time() - started) * 1000), asks)


async def carry_out(
    chain: PluginChain, agent: LlmAgent, invocation: InvocationContext, decision: Decision, run: RunTool = _run_tool
) -> ToolOutcome:
    """Run or reject the stored call that a decision is about. A call that was rejected reaches no hook. Raises as `call_tool`."""
    question, confirmation = decision.question, decision.confirmation
    if confirmation.confirmed:
        return await call_tool(chain, agent, invocation, question.call, run, as_asked(confirmation, question))
    return failure_of(question.call, rejected(question.call.name))


def failure_of(call: FunctionCall, text: str, **more: str) -> ToolOutcome:
    """The outcome of a call that was not run, or not to its end. text, more: for the model."""
    response = FunctionResponse(id=call.id, name=call.name, response={"error": text, **more})
    return ToolOutcome(call=call, response=response, actions=EventActions(), status="error", error=text, ms=0)


@dataclass(frozen=True, slots=True)
class StreamHooks:
    """The chain around each piece that a streaming tool gives, and around its failure. Both raise `PluginError`."""

    chain: PluginChain
    agent: LlmAgent
    context: ToolContext
    tool: Tool
    args: dict[str, Any]

    async def piece(self, piece: Any) -> tuple[dict[str, Any], str | None]:
        """A piece as a response, and the words of the failure where a hook failed. Raises `ToolError` for what cannot be written."""
        call = self._call()
        return await call.after(self.tool, to_response(piece)), call.error

    async def failure(self, error: BaseException) -> tuple[dict[str, Any], str | None]:
        """What the model is told instead, and the words of the failure unless somebody answered it."""
        call = self._call()
        return await call.failed(self.tool, as_failure(error)), call.error

    def _call(self) -> _Call:
        return _Call(self.chain, self.agent, self.context, self.tool.name, copy.deepcopy(self.args), _run_tool)


def merge_outcomes(outcomes: Sequence[ToolOutcome]) -> tuple[Content | None, EventActions]:
    """One message of calls as one response event: the responses in call order (None without any), and the side effects of all.

    State deltas are merged deeply, the later call wins; of artifacts the highest version, of transfers the last; flags are true if any is.
    What is asked of a person is listed by the id of the call.
    """
    parts = [Part(function_response=outcome.response) for outcome in outcomes if outcome.response is not None]
    content = Content(role="user", parts=parts) if parts else None
    state: dict[str, Any] = {}
    artifacts: dict[str, int] = {}
    confirmations: dict[str, Any] = {}
    transfer: str | None = None
    actions = [outcome.actions for outcome in outcomes]
    for one in actions:
        state = _merged(state, one.state_delta)
        for name, version in one.artifact_delta.items():
            artifacts[name] = max(version, artifacts.get(name, version))
        confirmations |= one.requested_tool_confirmations
        transfer = one.transfer_to_agent or transfer
    return content, EventActions(
        state_delta=state,
        artifact_delta=artifacts,
        requested_tool_confirmations=confirmations,
        transfer_to_agent=transfer,
        escalate=any(one.escalate for one in actions),
        skip_summarization=any(one.skip_summarization for one in actions),
        end_of_agent=any(one.end_of_agent for one in actions),
    )


class _Call:
    """One call on its way through the chain. `error` holds the words of a failure that nobody answered."""

    def __init__(self, chain: PluginChain, agent: LlmAgent, context: ToolContext, name: str, args: dict[str, Any], run: RunTool) -> None:
        self._chain = chain
        self._agent = agent
        self._context = context
        self._name = name
        self._args = args
        self._run = run
        self.error: str | None = None

    async def answer(self) -> dict[str, Any] | None:
        tool = self._agent.find_tool(self._context.invocation, self._name)
        if tool is None:
            return await self.failed(None, self._unknown())
        try:
            result = await self._result(tool)
        except BaseException as error:
            if is_not_the_tools(error):
                raise
            result = await self.failed(tool, as_failure(error))
        return None if result is None else await self.after(tool, result)

    async def _result(self, tool: Tool) -> dict[str, Any] | None:
        answer = await self._chain.first("before_tool", self._context, tool, self._args)
        if answer is None and self._agent.before_tool is not None:
            answer = await self._agent.before_tool(self._context, tool, self._args)
        if answer is None:
            if self._context.requested is None and await self._asks_first(tool):
                self._context.request_confirmation()
            if self._context.requested is None:
                answer = await self._run(tool, self._args, self._context)
            if self._context.requested is not None or (answer is None and tool.long_running):
                return None
        return to_response(answer)

    async def _asks_first(self, tool: Tool) -> bool:
        approved = self._context.confirmation is not None
        return not approved and isinstance(tool, AsksFirst) and await tool.asks_first(self._args, self._context)

    async def failed(self, tool: Tool | None, error: Exception) -> dict[str, Any]:
        """The plugins' or the agent's answer to a failure, else the words of it that the model may see."""
        answer = await self._chain.first("on_tool_error", self._context, tool, self._args, error)
        if answer is None:
            answer = await self._agents_answer(tool, error)
        if answer is not None:
            return self._written(answer)
        if isinstance(error, GatewayError):
            log.info("tool_refused", tool=self._name, code=error.code, agent=self._agent.name)
            self.error = str(error)
        else:  # a stranger's words may hold anything
            log.error("tool_failed", error, tool=self._name, agent=self._agent.name)
            self.error = f"the tool {self._name!r} failed ({type(error).__name__})"
        return {"error": self.error}

    async def _agents_answer(self, tool: Tool | None, error: Exception) -> Mapping[str, Any] | None:
        """What the agent's own hook makes of a failure; nothing where the hook fails too."""
        if self._agent.on_tool_error is None:
            return None
        try:
            return await self._agent.on_tool_error(self._context, tool, self._args, error)
        except BaseException as failure:
            if is_not_the_tools(failure):
                raise
            log.error("tool_failed", failure, tool=self._name, hook="on_tool_error", agent=self._agent.name)
            return None

    async def after(self, tool: Tool, result: dict[str, Any]) -> dict[str, Any]:
        answer = await self._chain.first("after_tool", self._context, tool, self._args, result)
        if answer is None and self._agent.after_tool is not None:
            try:
                answer = await self._agent.after_tool(self._context, tool, self._args, result)
            except BaseException as error:
                if is_not_the_tools(error):
                    raise
                log.error("tool_failed", error, tool=self._name, hook="after_tool", agent=self._agent.name)
                self.error = f"after_tool of agent {self._agent.name!r} failed ({type(error).__name__})"
                return {"error": self.error}
        if answer is None:
            return result
        self.error = None
        return self._written(answer)

    def _written(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return to_response(answer)
        except ToolError as error:
            self.error = str(error)
            return {"error": self.error}

    def _unknown(self) -> ToolError:
        invocation = self._context.invocation
        if (refusal := invocation.overlay.refusals.get(self._name)) is not None:
            return ToolError(refusal)
        names = ", ".join(tool.name for tool in self._agent.tools_in(invocation)) or "none"
        return ToolError(f"tool {self._name!r} not found. Available tools: {names}. Check the spelling, or answer without a tool.")


def is_not_the_tools(error: BaseException) -> bool:
    """Whether it is meant for the caller: a plugin's failure, the program's end, or a cancellation that somebody asked for.

    A cancellation that nobody asked for was raised by the tool itself; let out, it would end the task and leave the call unanswered.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, PluginError | KeyboardInterrupt | GeneratorExit)


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(first)
    for key, value in second.items():
        known = merged.get(key)
        merged[key] = _merged(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return merged
