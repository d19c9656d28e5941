"""A conversation of the console with an agent: store, runner, one run after the other, and what the agent wants to be told."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from live_gateway.agents.base import Agent
from live_gateway.agents.config import RunConfig
from live_gateway.artifacts.memory import InMemoryArtifactService
from live_gateway.confirmation import CONFIRM
from live_gateway.content import Content, FunctionResponse, Part, user_content
from live_gateway.events import USER, Event
from live_gateway.memory.in_memory import InMemoryMemoryService
from live_gateway.runner import Runner
from live_gateway.runner.stream import RunStream
from live_gateway.sessions.base import SessionService

ASK = "adk_request_input"


@dataclass(frozen=True, slots=True)
class Question:
    """Something that a run waits for. yes_or_no: a decision, not a text."""

    call_id: str
    name: str
    text: str
    yes_or_no: bool

    def answered(self, answer: bool | str) -> Part:
        """The part of a message that answers it."""
        response: dict[str, Any] = {"confirmed": answer} if self.yes_or_no else {"response": answer}
        return Part(function_response=FunctionResponse(id=self.call_id, name=self.name, response=response))


@dataclass(slots=True)
class Conversation:
    """One session with an agent. A run is stopped with `stop`; the session stays."""

    agent: Agent
    sessions: SessionService
    session_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    streaming: bool = False
    _runner: Runner = field(init=False)
    _stream: RunStream | None = None

    def __post_init__(self) -> None:
        self._runner = Runner(
            app_name=self.agent.name,
            agent=self.agent,
            session_service=self.sessions,
            artifact_service=InMemoryArtifactService(),
            memory_service=InMemoryMemoryService(),
            auto_create_session=True,
        )

    async def say(self, text: str, show: Callable[[Event | Exception], None]) -> list[Question]:
        """Say something and show what comes, to the end; what the agent wants to be told before it goes on."""
        return await self.send(user_content(text), show)

    async def send(self, message: Content, show: Callable[[Event | Exception], None]) -> list[Question]:
        """Send a message and show what comes, errors too, to the end."""
        config = RunConfig(streaming_mode="sse" if self.streaming else "none")
        events: list[Event] = []
        async with self._runner.run(user_id=USER, session_id=self.session_id, message=message, config=config) as stream:
            self._stream = stream
            async for event, error in stream.pairs():
                if event is not None:
                    show(event)
                    events.append(event)
                elif error is not None:
                    show(error)
        return open_questions(events)

    async def stop(self) -> None:
        """End the run that goes on, and wait until it has ended."""
        if self._stream is not None:
            await self._stream.aclose()


def open_questions(events: Iterable[Event]) -> list[Question]:
    """What the person at the console is asked in these events."""
    return [
        Question(call.id, call.name, _wording(call.name, call.args or {}), call.name == CONFIRM)
        for event in events
        for call in event.function_calls
        if call.name in (CONFIRM, ASK) and call.id in event.long_running_tool_ids
    ]


def _wording(name: str, args: dict[str, Any]) -> str:
    if name == ASK:
        return str(args.get("message") or args.get("prompt") or "The agent asks for input.")
    call: dict[str, Any] = args.get("originalFunctionCall") or {}
    hint = (args.get("toolConfirmation") or {}).get("hint")
    inputs = ", ".join(f"{key}={value!r}" for key, value in (call.get("args") or {}).items())
    return f"{hint or 'The agent wants to run'} {call.get('name', 'a tool')}({inputs})"
