"""Runs of agents on a store in memory, read to the end, and their events in short."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Sequence
from typing import Any

from live_gateway.agents.base import Agent
from live_gateway.agents.custom import CustomAgent
from live_gateway.agents.llm import LlmAgent
from live_gateway.content import Content, FunctionCall, Part, model_content, user_content
from live_gateway.events import Event
from live_gateway.plugins.base import Plugin
from live_gateway.runner import Runner
from live_gateway.runner.stream import RunStream
from live_gateway.sessions.base import Session
from live_gateway.testing.scripted_model import Answer, ScriptedModel

WHO: dict[str, Any] = {"user_id": "u", "session_id": "s"}


def bot(*answers: Answer, **fields: Any) -> LlmAgent:
    """An agent with a scripted model."""
    return LlmAgent(name=fields.pop("name", "bot"), model=ScriptedModel(answers), **fields)


def model_of(agent: Agent) -> ScriptedModel:
    """The scripted model of an agent."""
    assert isinstance(agent, LlmAgent)
    assert isinstance(agent.model, ScriptedModel)
    return agent.model


def call(name: str, call_id: str | None = None, /, **args: Any) -> FunctionCall:
    """A call as a model makes it."""
    return FunctionCall(name=name, id=call_id, args=args)


def saying(*texts: str, name: str = "custom") -> CustomAgent:
    """A custom agent that says these texts, an event each."""

    async def run(_context: object) -> AsyncIterator[Event]:
        for text in texts:
            yield told(name, text)

    return CustomAgent(name=name, run=run)


def told(author: str, text: str, **fields: Any) -> Event:
    """An event with a text of the model."""
    return Event(author=author, content=model_content([Part(text=text)]), **fields)


def start(runner: Runner, message: Content | str | None = "hello", **options: Any) -> RunStream:
    """A run in the one session of these tests."""
    content = user_content(message) if isinstance(message, str) else message
    return runner.run(**WHO, message=content, **options)


async def run(runner: Runner, message: Content | str | None = "hello", **options: Any) -> list[Event]:
    """The events of a run, read to its end."""
    return [event async for event in start(runner, message, **options)]


async def outcomes(runner: Runner, message: Content | str | None = "hello", **options: Any) -> list[Event | Exception]:
    """Events and errors of a run in order, read to its end in spite of errors."""
    got: list[Event | Exception] = []
    async for event, error in start(runner, message, **options).pairs():
        got += [each for each in (event, error) if each is not None]
    return got


async def stored(runner: Runner) -> list[Event]:
    """What a fresh look into the store finds."""
    return (await session(runner)).events


async def session(runner: Runner) -> Session:
    """A fresh handle on the session of these tests."""
    return await runner.session_service.get(app_name=runner.app_name, **WHO)


def short(events: Sequence[Event | Exception]) -> list[str]:
    """Author and content of events, type of errors."""
    return [_short(event) if isinstance(event, Event) else type(event).__name__ for event in events]


def _short(event: Event) -> str:
    words = [event.text] if event.text else []
    words += [f"FC({each.name})" for each in event.function_calls]
    words += [f"FR({each.name}:{each.response})" for each in event.function_responses]
    return f"{event.author}{'~' if event.partial else ''}: {' | '.join(words) or '-'}"


def snapshot(agent: LlmAgent) -> dict[str, Any]:
    """The fields of an agent, to see whether a run changes one."""
    return {field.name: getattr(agent, field.name) for field in dataclasses.fields(agent)}


class Recorder(Plugin):
    """Notes every hook in `seen`; a hook that is given an answer returns it, or raises it if it is an exception."""

    def __init__(self, seen: list[str], name: str = "recorder", **answers: Any) -> None:
        super().__init__(name)
        self.seen = seen
        self.answers = answers

    def _note(self, hook: str, detail: str = "") -> Any:
        self.seen.append(f"{hook}{f' {detail}' if detail else ''}")
        answer = self.answers.get(hook)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def on_user_message(self, invocation: Any, content: Any) -> Any:
        return self._note("on_user_message")

    async def before_run(self, invocation: Any) -> Any:
        return self._note("before_run")

    async def before_agent(self, invocation: Any, agent: Any) -> Any:
        return self._note("before_agent", agent.name)

    async def after_agent(self, invocation: Any, agent: Any) -> Any:
        return self._note("after_agent", agent.name)

    async def before_model(self, invocation: Any, request: Any) -> Any:
        return self._note("before_model")

    async def after_model(self, invocation: Any, response: Any) -> Any:
        return self._note("after_model")

    async def on_model_error(self, invocation: Any, request: Any, error: Any) -> Any:
        return self._note("on_model_error", type(error).__name__)

    async def before_tool(self, context: Any, tool: Any, args: Any) -> Any:
        return self._note("before_tool", tool.name)

    async def after_tool(self, context: Any, tool: Any, args: Any, result: Any) -> Any:
        return self._note("after_tool", tool.name)

    async def on_event(self, invocation: Any, event: Any) -> Any:
        return self._note("on_event", _short(event))

    async def after_run(self, invocation: Any) -> None:
        self._note("after_run")
