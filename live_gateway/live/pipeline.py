"""The way of an event of a live session: plugins, then the chronological order, then the store, then the listener.

Only stored events wait for the store. A piece (partial) goes to the listener as soon as the plugins have seen it; audio never comes here.
Without a plugin that looks at events everything up to the store happens at once; with one, events queue for it, in order.

Handing an event in never raises, since it is done from callbacks and on the way out, where nobody could do anything about it. An event
that cannot go on is reported, each one; where that means that plugins or store have fallen too far behind, the session is ended as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import replace as replace_fields

from live_gateway.agents.context import InvocationContext
from live_gateway.channel import Channel, ChannelClosed, ChannelFull
from live_gateway.content import has_inline_data, without_inline_data
from live_gateway.errors import GatewayError, SlowConsumer, StorageError
from live_gateway.events import Event, EventActions, replace
from live_gateway.live.hooks import LiveHooks
from live_gateway.live.items import LiveItem, Partial, Stored, TranscriptUpdate
from live_gateway.live.ordering import ChronologicalRelease
from live_gateway.live.transcript import PassedText
from live_gateway.plugins.chain import PluginChain
from live_gateway.sessions.writer import SessionWriter, Slot

MAX_WAITING = 4_096
RESERVED_S = 6.0
"""A place is reserved for a little longer than forwarding may take."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An event on its way to the plugins. hooks: of the agent at that time. slot: its place in the stored order, where one was kept."""

    event: Event
    hooks: LiveHooks
    update: TranscriptUpdate | None = None
    slot: Slot | None = None


class EventPipeline:
    """Takes the events of one live session in their order of arrival. `run` is the task that calls the plugins; `finish` ends it dry.

    hooks: of the agent that answers; set them anew when another one takes over. show: takes what the listener gets. lost: takes an
    event that is not stored, and why. broken: takes one that ends the session. watched: whether any agent wants to see its model's answers.
    """

    def __init__(
        self,
        invocation: InvocationContext,
        chain: PluginChain,
        hooks: LiveHooks,
        writer: SessionWriter,
        show: Callable[[LiveItem], None],
        lost: Callable[[Event, Exception], None],
        broken: Callable[[Exception], None],
        *,
        watched: bool,
    ) -> None:
        self._invocation = invocation
        self._chain = chain
        self.hooks = hooks
        self._writer = writer
        self._show = show
        self._lost = lost
        self._broken = broken
        self._order = ChronologicalRelease()
        self._waiting: Channel[_Waiting] | None = None
        if watched or chain.has("on_event"):
            self._waiting = Channel(MAX_WAITING)
        self._passed = PassedText()
        self._ended = False
        self._taken = self._shown = 0
        self._progress = asyncio.Event()
        self._seen: _Waiting | None = None
        self._as_made: dict[str, Event] = {}

    def record(
        self, event: Event, update: TranscriptUpdate | None = None, slot: Slot | None = None, *, hooks: LiveHooks | None = None
    ) -> None:
        """Take an event, for this place if it has one. hooks: of its agent, where that is not who answers now. Ignored once the session has
        ended."""
        waiting = _Waiting(event, hooks or self.hooks, update, slot)
        if self._ended:
            self._leave_place(waiting)
        elif self._waiting is None:
            self._pass(waiting)
        else:
            try:
                self._waiting.put_nowait(waiting)
                self._taken += 1
            except (ChannelFull, ChannelClosed):
                self._refuse(waiting, SlowConsumer(f"{MAX_WAITING} events wait for a plugin's on_event"))

    def reserve(self) -> Slot:
        """The place of a user's message in the stored order."""
        return self._writer.reserve(RESERVED_S)

    def reserve_response(self) -> Slot | None:
        """The place of a response that comes from outside; None while events are held, among which its call may be."""
        return None if self._order.held else self.reserve()

    async def run(self) -> None:
        """Show the events to the plugins, one after the other, until `finish` was called and all are through."""
        if self._waiting is None:
            return
        try:
            async for waiting in self._waiting:
                self._seen = waiting
                await self._show_plugins(waiting)
                self._seen = None
                self._shown += 1
                self._progress.set()
        finally:
            self._give_up()

    async def _show_plugins(self, waiting: _Waiting) -> None:
        try:
            answered = await waiting.hooks.after_answer(waiting.event)
            shown = await self._chain.on_event(waiting.hooks.invocation, answered)
        except Exception as error:  # a plugin's failure, or whatever the agent's own callback raised
            self._leave_place(waiting)
            self.failed(waiting.event, error)
            for released in self._order.refused(waiting.event):
                self._deliver(released, None)
        else:
            update = self._passed.apply(shown, waiting.update) if waiting.update is not None else None
            self._pass(replace_fields(waiting, event=shown, update=update))

    def _give_up(self) -> None:
        """The plugins will see no more: what they were to see is lost, and told."""
        assert self._waiting is not None
        self._waiting.close()
        left = [self._seen, *self._waiting.take_rest()]
        self._seen = None
        for waiting in left:
            if waiting is not None and not waiting.event.partial:
                self._leave_place(waiting)
                self.failed(waiting.event, SlowConsumer("a plugin's on_event did not get to this event before the session ended"))

    async def drain(self) -> None:
        """Wait until the plugins have seen every event that was taken by now."""
        taken = self._taken
        while self._shown < taken:
            self._progress.clear()
            await self._progress.wait()

    async def hasten(self) -> None:
        """Send everything that was taken by now on its way to the store, also what is held for its place among the words."""
        await self.drain()
        for held in self._order.release():
            self._deliver(held, None)

    def finish(self) -> None:
        """No more events will be taken."""
        self._ended = True
        if self._waiting is not None:
            self._waiting.close()

    def flush(self) -> None:
        """Release what is still held; for the end of the session, after `run` has returned."""
        for held in self._order.flush():
            self._deliver(held, None)

    def stored(self, event: Event) -> None:
        """The writer stored this event: the listener gets it, with the bytes that the store does not keep."""
        self._invocation.settle(event)
        made = self._as_made.pop(event.id, None)
        self._show(Stored(replace(event, content=made.content) if made is not None else event))

    def failed(self, event: Event, error: Exception) -> None:
        """The writer could not store this event."""
        self._invocation.settle(event)
        self._as_made.pop(event.id, None)
        self._lost(event, error)

    def _pass(self, waiting: _Waiting) -> None:
        """The plugins have seen this event."""
        event = waiting.hooks.output.apply(_without_doubled_output(waiting.event))
        if waiting.slot is not None and self._filled(waiting.slot, event):
            return
        for released in self._order.feed(event):
            self._deliver(released, waiting.update if released is event else None)

    def _filled(self, slot: Slot, event: Event) -> bool:
        try:
            slot.fill(event)
        except StorageError:
            return False  # it came too late for its place; better recorded late than not at all
        return True

    def _leave_place(self, waiting: _Waiting) -> None:
        if waiting.slot is not None:
            waiting.slot.release()

    def _refuse(self, waiting: _Waiting, error: GatewayError) -> None:
        self._leave_place(waiting)
        self.failed(waiting.event, error)
        self._broken(error)

    def _deliver(self, event: Event, update: TranscriptUpdate | None) -> None:
        if event.partial:
            self._show(Partial(event, update))
            return
        kept = event
        if event.content is not None and has_inline_data(event.content):
            content = without_inline_data(event.content)
            kept = replace(event, content=content)
            if content is None and kept.transcription is None and kept.actions == EventActions():
                self._show(Partial(event))  # nothing but bytes: yielded, never stored
                return
            self._as_made[event.id] = event
        try:
            self._writer.put(kept)
        except GatewayError as error:
            self._refuse(_Waiting(kept, self.hooks), error)


def _without_doubled_output(event: Event) -> Event:
    """An event whose message is its output carries it once."""
    if not event.partial and event.content is not None and event.node_info is not None and event.node_info.message_as_output:
        return replace(event, output=None)
    return event
