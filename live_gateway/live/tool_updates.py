"""How a model is told what a tool gives after its call was answered, and how that is recorded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from live_gateway.content import FunctionResponse
from live_gateway.events import Event, EventActions, replace
from live_gateway.live.conversation import Conversation
from live_gateway.live.uplink import Uplink
from live_gateway.models.live import LiveConnection
from live_gateway.models.tool_updates import TakesToolUpdates, update_in_words


class Parts(Protocol):
    """What of the engine is needed; connection and uplink are there once the model is."""

    connection: LiveConnection
    uplink: Uplink
    conversation: Conversation

    def record(self, event: Event) -> None:
        """Take an event to the record."""
        ...

    def post(self, action: Callable[[], Awaitable[None]]) -> None:
        """Queue something for the model that must not be lost."""
        ...

    async def keep_up(self) -> None:
        """Wait for the store where it is far behind."""
        ...


class ToolUpdates:
    """An `Outlet` of streams: see there."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def record(self, response: FunctionResponse, actions: EventActions) -> None:
        event = self._parts.conversation.outside_answers((response,))
        self._parts.record(replace(event, actions=actions))

    async def tell(self, response: FunctionResponse) -> None:
        await self._parts.uplink.perform(partial(send_update, self._parts.connection, response))
        await self._parts.keep_up()

    def tell_last(self, response: FunctionResponse) -> None:
        self._parts.post(partial(send_update, self._parts.connection, response))


async def send_update(connection: LiveConnection, response: FunctionResponse) -> None:
    """Send it as what it is where the connection takes such, else in words."""
    if isinstance(connection, TakesToolUpdates):
        await connection.send_tool_update(response)
    elif (words := update_in_words(response)) is not None:
        await connection.send_content(words)
