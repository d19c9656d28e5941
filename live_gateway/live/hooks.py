"""The hooks around the agent and around its model, as they are called in a live session.

A live session is one turn of its agent, or one for each agent that has the conversation: `before_agent` before its connection opens,
`after_agent` when it hands the conversation over or the session ends in order. Its
questions to the model are the connection itself and every typed message: `before_model` comes before each of them and may answer instead,
`on_model_error` when the connection cannot open or breaks for good. What is spoken cannot be held back, but every whole answer, and every
piece of one, passes `after_model` before it is recorded and shown. Plugins come before the agent's own, as everywhere.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

from live_gateway.agents.context import InvocationContext
from live_gateway.content import Content, Part, Transcription, is_reference, model_content, text_of
from live_gateway.errors import GatewayError, ModelError
from live_gateway.events import Event, EventActions, replace
from live_gateway.live.output import TurnOutput
from live_gateway.live.start import LiveStart
from live_gateway.models.base import ModelRequest, ModelResponse
from live_gateway.models.live import LiveSetup
from live_gateway.plugins.callbacks import ModelHooks, around_agent
from live_gateway.telemetry import get_logger

log = get_logger(__name__)

END_S = 5.0
"""Seconds that hooks may take when the session ends."""


class LiveHooks:
    """The hooks of one agent in a live session. keep: stores and shows what is said before there is a connection."""

    def __init__(self, start: LiveStart, keep: Callable[[Event], Awaitable[None]]) -> None:
        self._start = start
        self._keep = keep
        self._ended = False
        self._model = ModelHooks(start.chain, start.invocation, start.agent)
        self._connecting = ModelRequest(contents=())
        self._own: set[str] = set()
        self.output = TurnOutput(start.agent)
        self.watches_answers = self._model.has("after_model")

    @property
    def invocation(self) -> InvocationContext:
        """The invocation as this agent has it."""
        return self._start.invocation

    async def before_agent(self) -> Event | None:
        """The one event of an agent that is skipped. What the hook writes to the state is stored in any case."""
        start = self._start
        event = await around_agent(start.chain, start.invocation, start.agent, "before_agent")
        return None if event is None else await self._stored_early(event)

    async def before_connecting(self, setup: LiveSetup) -> Event | None:
        """The one event of an answer that stands for the model's; there is no connection then."""
        contents: tuple[Content, ...] = ()
        if self._model.has("before_model") or self._model.has("on_model_error"):
            contents = tuple((await self._start.history()).contents)
        self._connecting = ModelRequest(contents=contents, instruction=setup.instruction, tools=setup.tools, config=setup.config)
        event = self._event(await self._model.before(self._connecting))
        return None if event is None else await self._stored_early(event)

    async def not_connected(self, error: Exception) -> Event | None:
        """The one event of an answer that stands for a model that cannot be reached."""
        answer = await self._model.on_error(self._connecting, error)
        return None if answer is None else await self._stored_early(self._answer(answer))

    async def before_message(self, content: Content) -> Event | None:
        """What to record of what the hooks said to a typed message. If it has content or an error, it is the answer: nothing is sent."""
        if not self._model.has("before_model"):
            return None
        request = dataclasses.replace(self._connecting, contents=(content,))
        return self._event(await self._model.before(request))

    async def after_answer(self, event: Event) -> Event:
        """An answer of the model in words, or a piece of one, as the hooks want it."""
        by_model = self.watches_answers and event.author == self._start.agent.name and event.id not in self._own
        words = _words(event) if by_model else None
        if words is None:
            return event
        response = ModelResponse(content=words, partial=event.partial, usage=event.usage_metadata)
        answer = await self._model.after(response)
        return event if answer is response else _replaced(event, answer)

    async def at_end(self, error: Exception | None) -> Event | None:
        """The last event: what `after_agent` asks for, or the answer that stands for a connection that broke. Raises what a hook raised.

        A session that ended because of the store or a plugin gets neither. Once: an agent that was left has had its end.
        """
        if self._ended:
            return None
        self._ended = True
        start = self._start
        if error is None:
            async with asyncio.timeout(END_S):
                event = await around_agent(start.chain, start.invocation, start.agent, "after_agent")
            self._own |= {event.id} if event is not None else set()
            return event
        if isinstance(error, GatewayError) and not isinstance(error, ModelError):
            return None
        async with asyncio.timeout(END_S):
            answer = await self._model.on_error(self._connecting, error)
        return None if answer is None else self._answer(answer)

    async def _stored_early(self, event: Event) -> Event | None:
        """Store and show it; the event again if it stands for all that the agent would say."""
        await self._keep(event)
        return event if is_answer(event) else None

    def _event(self, answer: ModelResponse | None) -> Event | None:
        """The event of an answer, or of what the hooks wrote to the state without one."""
        if answer is not None:
            return self._answer(answer)
        delta = self._start.invocation.take_delta()
        return self._made(actions=EventActions(state_delta=delta)) if delta else None

    def _answer(self, answer: ModelResponse) -> Event:
        return self._made(
            content=answer.content,
            turn_complete=True,
            usage_metadata=answer.usage,
            error_code=answer.error_code,
            error_message=answer.error_message,
            actions=EventActions(state_delta=self._start.invocation.take_delta()),
        )

    def _made(self, **fields: Any) -> Event:
        event = Event(author=self._start.agent.name, invocation_id=self._start.invocation.invocation_id, **fields)
        self._own.add(event.id)
        return event


def is_answer(event: Event) -> bool:
    """Whether the event says something, and does not only carry state."""
    return event.content is not None or event.turn_complete


def _words(event: Event) -> Content | None:
    """What the model said in this event; None for calls, responses, marks and what the user said."""
    if event.output_transcription is not None:
        return model_content([Part(text=event.output_transcription.text or "")])
    if event.content is None or event.function_calls or event.function_responses or is_reference(event.content):
        return None
    return event.content


def _replaced(event: Event, answer: ModelResponse) -> Event:
    if event.output_transcription is None:
        return replace(event, content=answer.content, usage_metadata=answer.usage or event.usage_metadata)
    words: Transcription = event.output_transcription.model_copy(update={"text": text_of(answer.content)})
    return replace(event, output_transcription=words)
