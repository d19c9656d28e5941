"""The user's message: what plugins make of it, its files, and the event that holds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from live_gateway.agents.config import RunConfig
from live_gateway.agents.context import InvocationContext
from live_gateway.agents.services import ArtifactAccess
from live_gateway.content import Content, Part
from live_gateway.events import USER, Event, EventActions
from live_gateway.plugins.chain import PluginChain
from live_gateway.sessions.base import SessionService
from live_gateway.sessions.state import TEMP


async def store_message(
    invocation: InvocationContext, chain: PluginChain, sessions: SessionService, delta: Mapping[str, Any] | None, scope: str | None
) -> Event | None:
    """Store what the user said (`invocation.user_content`, which a plugin may replace) with the state delta; None if there is neither.

    Raises `PluginError`, `InvalidState`, `StorageError`, or what the artifact service raised; nothing is stored then.
    """
    message = invocation.user_content
    if message is None and not delta:
        return None
    if message is not None:
        message = await chain.first("on_user_message", invocation, message) or message
        message = message if message.role else Content(role=USER, parts=message.parts)
        invocation.user_content = message = await _with_files_saved(message, invocation)
    event = Event(
        author=USER,
        invocation_id=invocation.invocation_id,
        branch=invocation.branch,
        isolation_scope=scope,
        content=message,
        actions=EventActions(state_delta=dict(delta or {})),
    )
    stored = await sessions.append_event(invocation.session, event)
    keep_temporary(invocation, event)
    return stored


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
