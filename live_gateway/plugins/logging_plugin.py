"""Logs what every run does: names, counts and durations, and no word of what was said unless that is asked for."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from live_gateway.agents.context import InvocationContext, ToolContext
from live_gateway.content import Content, text_of
from live_gateway.events import Event
from live_gateway.models.base import ModelRequest, ModelResponse
from live_gateway.plugins.base import Plugin
from live_gateway.telemetry import get_logger
from live_gateway.tools.base import Tool

_log = get_logger(__name__)
_content_log = logging.getLogger(f"{__name__}.content")

_Key: TypeAlias = tuple[str, str]


@dataclass(slots=True)
class _Run:
    """What is known of a run that goes on. Times are `time.monotonic`; `began`: by kind and name of what is under way."""

    started: float
    events: int = 0
    began: dict[_Key, float] = field(default_factory=dict)


class LoggingPlugin(Plugin):
    """One line for each run, message, question to a model, tool call and whole event, on `run` and on `run_live`.

    Lines go through this package's logging (`live_gateway.telemetry`), which lets no content through. content: also log what was said, the
    arguments of tools and their results, to the logger `live_gateway.plugins.logging_plugin.content`. It is for one's own machine: what is
    written there may be anything that a user says. Register the plugin first, and it sees the rest before other plugins answer.
    """

    def __init__(self, *, content: bool = False, name: str = "logging") -> None:
        super().__init__(name)
        self._content = content
        self._runs: dict[str, _Run] = {}

    async def on_user_message(self, invocation: InvocationContext, content: Content) -> None:
        _log.info("user_message", **_place(invocation), count=len(content.parts or ()))
        self._say(f"user: {text_of(content)}")

    async def before_run(self, invocation: InvocationContext) -> None:
        self._runs[invocation.invocation_id] = _Run(time.monotonic())
        _log.info("run_started", **_place(invocation))

    async def before_model(self, invocation: InvocationContext, request: ModelRequest) -> None:
        self._begin(invocation, ("model", invocation.agent.name))
        _log.info("model_asked", **_place(invocation), count=len(request.contents))

    async def after_model(self, invocation: InvocationContext, response: ModelResponse) -> None:
        if response.partial:
            return
        tokens = response.usage.total_token_count if response.usage is not None else None
        duration = self._since(invocation, ("model", invocation.agent.name))
        _log.info("model_answered", **_place(invocation), count=tokens, duration_ms=duration, code=response.error_code)

    async def on_model_error(self, invocation: InvocationContext, request: ModelRequest, error: Exception) -> None:
        duration = self._since(invocation, ("model", invocation.agent.name))
        _log.warning("model_failed", **_place(invocation), duration_ms=duration, error_type=type(error).__name__)

    async def before_tool(self, context: ToolContext, tool: Tool, args: dict[str, Any]) -> None:
        self._begin(context.invocation, ("tool", context.call_id))
        _log.info("tool_started", **_place(context.invocation), tool=tool.name)
        self._say(f"{tool.name} is called with {args}")

    async def after_tool(self, context: ToolContext, tool: Tool, args: dict[str, Any], result: Mapping[str, Any]) -> None:
        duration = self._since(context.invocation, ("tool", context.call_id))
        status = "error" if "error" in result else "done"
        _log.info("tool_ended", **_place(context.invocation), tool=tool.name, duration_ms=duration, status=status)
        self._say(f"{tool.name} answers {dict(result)}")

    async def on_tool_error(self, context: ToolContext, tool: Tool | None, args: dict[str, Any], error: Exception) -> None:
        name = tool.name if tool is not None else None  # a name that the model made up is content
        _log.warning("tool_failed", **_place(context.invocation), tool=name, error_type=type(error).__name__)

    async def on_event(self, invocation: InvocationContext, event: Event) -> None:
        if event.partial:
            return
        run = self._runs.get(invocation.invocation_id)
        if run is not None:
            run.events += 1
        _log.info("event", **_place(invocation), name=event.author, status=_kind(event))
        words = event.text or (event.transcription.text if event.transcription is not None else None)
        if words:
            self._say(f"{event.author}: {words}")

    async def after_run(self, invocation: InvocationContext) -> None:
        run = self._runs.pop(invocation.invocation_id, None)
        if run is not None:
            _log.info("run_ended", **_place(invocation), count=run.events, duration_ms=_ms(run.started))

    def _begin(self, invocation: InvocationContext, key: _Key) -> None:
        run = self._runs.get(invocation.invocation_id)
        if run is not None:
            run.began[key] = time.monotonic()

    def _since(self, invocation: InvocationContext, key: _Key) -> int | None:
        run = self._runs.get(invocation.invocation_id)
        began = run.began.pop(key, None) if run is not None else None
        return None if began is None else _ms(began)

    def _say(self, words: str) -> None:
        if self._content:
            _content_log.info(words)


def _place(invocation: InvocationContext) -> dict[str, str]:
    return {"app": invocation.app_name, "session": invocation.session.id, "agent": invocation.agent.name}


def _ms(since: float) -> int:
    return round((time.monotonic() - since) * 1000)


def _kind(event: Event) -> str:
    if event.function_calls:
        return "call"
    if event.function_responses:
        return "response"
    if event.transcription is not None:
        return "transcription"
    return "text" if event.text else "mark"
