"""The user's message: what plugins make of it, its files, and the events that hold it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile
from typing import Any

from live_gateway.agents.config import RunConfig
from live_gateway.agents.context import InvocationContext
from live_gateway.agents.interrupted import record_interrupted
from live_gateway.agents.services import ArtifactAccess
from live_gateway.confirmation import Decided, Decision, Questions, decision_id
from live_gateway.content import Content, Part
from live_gateway.errors import DuplicateEvent, ToolResponseNotExpected
from live_gateway.events import USER, Event, EventActions, replace
from live_gateway.plugins.chain import PluginChain
from live_gateway.sessions.base import SessionService
from live_gateway.sessions.state import TEMP


async def store_message(
    invocation: InvocationContext,
    chain: PluginChain,
    sessions: SessionService,
    delta: Mapping[str, Any] | None,
    scope: str | None,
    questions: Questions,
) -> list[Event]:
    """Store what the user said (`invocation.user_content`, which a plugin may replace) with the state delta: one event, after one for each
    decision about a call that waited. `invocation.decided` is then what was decided here; somebody else may have been first.

    Raises `PluginError`, `InvalidState`, `StorageError`, `ToolResponseNotExpected` and `InvalidInput` for a decision that does not count,
    or what the artifact service raised; nothing of the message is stored then.
    """
    await record_interrupted(sessions, invocation.session, questions)
    message = invocation.user_content
    if message is None and not delta:
        return []
    if message is not None:
        message = await chain.first("on_user_message", invocation, message) or message
        message = message if message.role else Content(role=USER, parts=message.parts)
        invocation.user_content = message = await _with_files_saved(message, invocation)
    stored: list[Event] = []
    if decisions := questions.decisions(message):
        head = invocation.session.head_seq
        stored = await _store_decisions(invocation, sessions, decisions, scope)
        invocation.decided = Decided(tuple(_won(decisions, stored)), _waits(invocation, questions, head))
        message = _without(message, {decision.question.id for decision in decisions})
        if message is None and not delta:
            return stored
    event = Event(
        author=USER,
        invocation_id=invocation.invocation_id,
        branch=invocation.branch,
        isolation_scope=scope,
        content=message,
        actions=EventActions(state_delta=dict(delta or {})),
    )
    stored.append(await sessions.append_event(invocation.session, event))
    keep_temporary(invocation, event)
    return stored


async def _store_decisions(
    invocation: InvocationContext, sessions: SessionService, decisions: Sequence[Decision], scope: str | None
) -> list[Event]:
    """Storing is what decides: what the store has already was decided by somebody else. Raises where that is so for all of them."""
    stored: list[Event] = []
    for decision in decisions:
        event = replace(decision.event(invocation.invocation_id), branch=invocation.branch, isolation_scope=scope)
        try:
            stored.append(await sessions.append_event(invocation.session, event))
        except DuplicateEvent:
            continue
    if not stored:
        raise ToolResponseNotExpected("the call was decided about already")
    return stored


def _won(decisions: Sequence[Decision], stored: Sequence[Event]) -> list[Decision]:
    ids = {event.id for event in stored}
    return [decision for decision in decisions if decision_id(decision.question.id) in ids]


def _waits(invocation: InvocationContext, questions: Questions, head: int) -> bool:
    """Whether other questions of this run are open, after all that was stored by now."""
    newer = takewhile(lambda event: event.seq > head, reversed(invocation.session.events))
    answered = {response.id for event in newer for response in event.function_responses}
    return questions.open_besides(answered, invocation.invocation_id)


def _without(message: Content | None, ids: Collection[str]) -> Content | None:
    """The message without the answers to these calls; None where nothing is left."""
    parts = [part for part in (message.parts or () if message is not None else ()) if not _answers(part, ids)]
    return Content(role=USER, parts=parts) if parts else None


def _answers(part: Part, ids: Collection[str]) -> bool:
    return part.function_response is not None and part.function_response.id in ids


def keep_temporary(invocation: InvocationContext, event: Event) -> None:
    """Keep the event's `temp:` keys in the invocation: no store ever holds them."""
    for key, value in event.actions.state_delta.items():
        if key.startswith(TEMP):
            invocation.pending[key] = value


async def _with_files_saved(message: Content, invocation: InvocationContext) -> Content:
    """The message with its files saved as artifacts and named in their place, if that is wanted and possible; else the message itself."""
    config, artifacts = invocation.run_config, invocation.artifacts
    wanted = isinstance(config, RunConfig) and config.save_input_blobs_as_artifacts
    if not wanted or artifacts is None or not any(part.inline_data is not None for part in message.parts or ()):
        return message
    parts = [await _saved(part, index, artifacts, invocation.invocation_id) for index, part in enumerate(message.parts or ())]
    return Content(role=message.role, parts=parts)


async def _saved(part: Part, index: int, artifacts: ArtifactAccess, invocation_id: str) -> Part:
    if part.inline_data is None:
        return part
    name = f"artifact_{invocation_id}_{index}"
    await artifacts.save(name, part)
    return Part(text=f"[The user sent a file. It is kept as the artifact {name}.]")
