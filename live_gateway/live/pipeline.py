"""The way of an event of a live session: plugins, then the chronological order, then the store, then the listener.

Only stored events wait for the store. A piece (partial) goes to the listener as soon as the plugins have seen it; audio never comes here.
Without a plugin that looks at events everything up to the store happens at once; with one, events queue for it, in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from live_gateway.agents.context import InvocationContext
from live_gateway.channel import Channel, ChannelFull
from live_gateway.content import has_inline_data, without_inline_data
from live_gateway.errors import PluginError, SlowConsumer
from live_gateway.events import Event, EventActions, replace
from live_gateway.live.items import LiveItem, Partial, Stored, TranscriptUpdate
from live_gateway.live.ordering import ChronologicalRelease
from live_gateway.live.transcript import PassedText
from live_gateway.plugins.chain import PluginChain
from live_gateway.sessions.writer import SessionWriter, Slot

MAX_WAITING = 4_096
RESERVED_S = 6.0
"""A place is reserved for a little longer than forwarding may take."""


class EventPipeline:
    """Takes the events of one live session in their order of arrival. `run` is the task that calls the plugins; `finish` ends it dry.

    show: takes what the listener gets. problem: takes an exception that cost one event; the session goes on.
    """

    def __init__(
        self,
        invocation: InvocationContext,
        chain: PluginChain,
        writer: SessionWriter,
        show: Callable[[LiveItem], None],
        problem: Callable[[Exception], None],
    ) -> None:
        self._invocation = invocation
        self._chain = chain
        self._writer = writer
        self._show = show
        self._problem = problem
        self._order = ChronologicalRelease()
        self._waiting: Channel[tuple[Event, TranscriptUpdate | None]] | None = None
        if chain.has("on_event"):
            self._waiting = Channel(MAX_WAITING)
        self._passed = PassedText()
        self._ended = False
        self._taken = self._shown = 0
        self._progress = asyncio.Event()
        self._as_made: dict[str, Event] = {}

    def record(self, event: Event, update: TranscriptUpdate | None = None) -> None:
        """Take an event; ignored once the session has ended. Raises `SlowConsumer` when a plugin has let 4,096 of them wait."""
        if self._ended:
            return
        if self._waiting is None:
            self._order_event(event, update)
            return
        try:
            self._waiting.put_nowait((event, update))
            self._taken += 1
        except ChannelFull:
            raise SlowConsumer(f"{MAX_WAITING} events wait for a plugin's on_event") from None

    def reserve(self) -> Slot:
        """The place of a user's message in the stored order."""
        return self._writer.reserve(RESERVED_S)

    def reserve_response(self) -> Slot | None:
        """The place of a response that comes from outside; None while events are held, among which its call may be."""
        return None if self._order.held else self.reserve()

    async def record_response(self, event: Event, slot: Slot | None) -> None:
        """Record a response that came from outside, at its reserved place if it has one."""
        if slot is None:
            self.record(event)
            return
        try:
            shown = await self._chain.on_event(self._invocation, event)
        except PluginError as error:
            slot.release()
            self._problem(error)
        else:
            slot.fill(shown)

    async def run(self) -> None:
        """Show the events to the plugins, one after the other, until `finish` was called and all are through."""
        if self._waiting is None:
            return
        async for event, update in self._waiting:
            try:
                shown = await self._chain.on_event(self._invocation, event)
            except PluginError as error:
                self._invocation.settle(event)
                self._problem(error)
                for released in self._order.refused(event):
                    self._deliver(released, None)
            else:
                self._order_event(shown, self._passed.apply(shown, update) if update is not None else None)
            self._shown += 1
            self._progress.set()

    async def drain(self) -> None:
        """Wait until the plugins have seen every event that was taken by now."""
        taken = self._taken
        while self._shown < taken:
            self._progress.clear()
            await self._progress.wait()

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
        self._problem(error)

    def _order_event(self, event: Event, update: TranscriptUpdate | None) -> None:
        event = _without_doubled_output(event)
        for released in self._order.feed(event):
            self._deliver(released, update if released is event else None)

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
        self._writer.put(kept)


def _without_doubled_output(event: Event) -> Event:
    """An event whose message is its output carries it once."""
    if not event.partial and event.content is not None and event.node_info is not None and event.node_info.message_as_output:
        return replace(event, output=None)
    return event
