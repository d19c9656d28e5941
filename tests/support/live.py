"""Runners and listeners for tests of live sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from live_gateway.agents.llm import LlmAgent
from live_gateway.events import Event
from live_gateway.live.session import LiveSession
from live_gateway.models.live import LiveModel, Transcript
from live_gateway.plugins.base import Plugin
from live_gateway.runner import Runner
from live_gateway.sessions.base import SessionService
from live_gateway.sessions.memory import InMemorySessionService
from live_gateway.tools.base import Tool

USER_ID, SESSION_ID = "u", "s"


def live_runner(
    model: LiveModel | None,
    /,
    *,
    tools: Sequence[Tool | Callable[..., Any]] = (),
    plugins: Sequence[Plugin] = (),
    sessions: SessionService | None = None,
    **agent: Any,
) -> Runner:
    """A runner of one agent called `agent` over this live model; sessions are made when needed."""
    return Runner(
        app_name="app",
        agent=LlmAgent(name="agent", live_model=model, tools=tools, **agent),
        session_service=sessions if sessions is not None else InMemorySessionService(),
        plugins=plugins,
        auto_create_session=True,
    )


def go_live(runner: Runner, **options: Any) -> LiveSession:
    """A live session of the test's user and session, not yet entered."""
    return runner.run_live(user_id=USER_ID, session_id=SESSION_ID, **options)


async def stored(runner: Runner) -> list[Event]:
    """What is in the store, read through a fresh handle."""
    session = await runner.session_service.get(app_name="app", user_id=USER_ID, session_id=SESSION_ID)
    return session.events


async def until(live: LiveSession, done: Callable[[Event], bool]) -> list[Event]:
    """The events up to and including the first for which `done` is true."""
    events: list[Event] = []
    async for event in live:
        events.append(event)
        if done(event):
            return events
    raise AssertionError(f"the stream ended before that; it gave {in_short(events)}")


async def all_of(live: LiveSession) -> list[Event | Exception]:
    """Everything the stream gives until it ends, errors included."""
    got: list[Event | Exception] = []
    while True:
        try:
            got.append(await anext(live))
        except StopAsyncIteration:
            return got
        except Exception as error:
            got.append(error)


def in_short(events: Sequence[Event | Exception]) -> list[str]:
    """Events as a person writes them down: `in~"par"`, `OUT "whole"`, `call f`, `resp f`, `audio`, `done`, `interrupted`, `user "text"`."""
    return [_short(event) for event in events]


def heard(text: str, **options: Any) -> Transcript:
    """A piece of the user's transcription."""
    return Transcript("user", text, **options)


def spoke(text: str, **options: Any) -> Transcript:
    """A piece of the agent's transcription."""
    return Transcript("model", text, **options)


def _short(event: Event | Exception) -> str:
    if isinstance(event, Exception):
        return f"error {type(event).__name__}"
    for name, transcription in (("in", event.input_transcription), ("out", event.output_transcription)):
        if transcription is not None:
            return f'{name}~"{transcription.text}"' if event.partial else f'{name.upper()} "{transcription.text}"'
    if event.function_calls:
        return "call " + " ".join(call.name or "" for call in event.function_calls)
    if event.function_responses:
        return "resp " + " ".join(response.name or "" for response in event.function_responses)
    if event.content and event.content.parts and event.content.parts[0].inline_data is not None:
        return "audio"
    if event.text:
        return f'{event.author}{"~" if event.partial else ""} "{event.text}"'
    for mark in ("turn_complete", "interrupted"):
        if getattr(event, mark):
            return "done" if mark == "turn_complete" else mark
    return "heard" if "heard" in event.custom_metadata else "delta" if event.actions.state_delta else "empty"
