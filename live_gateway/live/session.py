"""The live session: the shell that moves bytes between the model, the store and the listener, in one task group.

It decides nothing. What follows from a message is in `conversation`, when an event may be recorded in `ordering`, who speaks in `turns`.

Opening is `async with`: the session is in the store, the model is connected and ready, or an error is raised and nothing is left. From
then on events are ordered and stored whether or not anybody iterates. Whatever ends it (the caller, the model, a failure) goes through one
shutdown: no more input, tools cancelled, the model disconnected, open texts closed, held events stored, the stream ended, `after_run`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Self

from live_gateway.agents.llm import LlmAgent
from live_gateway.channel import ChannelClosed
from live_gateway.clock import Clock, LoopClock
from live_gateway.content import Blob, Content, Part, is_reference, model_content
from live_gateway.errors import LiveSessionClosed, SlowConsumer, StorageError, public_error
from live_gateway.events import USER, Event
from live_gateway.live.engine import Engine
from live_gateway.live.items import AudioChunk, Failure, LiveItem, Partial, PlaybackMark, Relay, SendResult, Stored
from live_gateway.live.listener import Listener
from live_gateway.live.mailbox import ReadBack
from live_gateway.live.opening import open_engine
from live_gateway.live.start import LiveOptions, LiveStart
from live_gateway.models.live import OUTPUT_HZ, Activity
from live_gateway.sessions.base import Session
from live_gateway.telemetry import get_logger
from live_gateway.tools.base import Effect

log = get_logger(__name__)


class LiveSession:
    """One open conversation. Made by `Runner.run_live`; constructing it does nothing, entering it is the call.

    Iterate it for events (a program), or `items()` for everything in order (a server); one of the two, by one consumer. An error that cost
    one event is raised by the iteration, which can go on; one that ended the session is raised last.
    """

    def __init__(self, begin: Callable[[], Awaitable[LiveStart]], options: LiveOptions, clock: Clock | None = None) -> None:
        self._begin = begin
        self._options = options
        self._clock = clock or LoopClock()
        self._listener = Listener(self._clock.now)
        self._fetched: deque[Event] = deque()
        self._gap: ReadBack | None = None
        self._start: LiveStart | None = None
        self._engine: Engine | None = None
        self._after_run_done = False
        self._finishing = asyncio.Lock()

    @property
    def session(self) -> Session:
        """The stored session."""
        return self._started.invocation.session

    @property
    def agent(self) -> LlmAgent:
        """The agent that answers; another one after a transfer."""
        return self._leg_start.agent

    @property
    def invocation_id(self) -> str:
        """The id that all events of this live session carry."""
        return self._started.invocation.invocation_id

    @property
    def model_name(self) -> str:
        """What the provider calls the agent's model."""
        return self._leg_start.model.name

    @property
    def effects(self) -> Mapping[str, Effect]:
        """What each tool does that an agent of the tree may call, by name."""
        return self._started.effects

    async def __aenter__(self) -> Self:
        if self._start is not None:
            raise LiveSessionClosed("a live session is entered once; ask the runner for another one")
        self._start = start = await self._begin()
        try:
            if start.early_exit is not None:
                await self._exit_early(start, start.early_exit)
            else:
                self._engine = await open_engine(start, self._options, self._listener, self._clock)
                if self._engine is None:
                    self._listener.close()
        except BaseException:
            await self._after_run(quiet=True)
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            if self._engine is not None:
                await self._engine.aclose()
        finally:
            self._listener.close()
            await self._after_run(quiet=error is not None)

    async def close(self) -> None:
        """End the session: what is open is closed and stored, the stream ends, `after_run` has run. Closing again is fine."""
        if self._engine is not None:
            await self._engine.shut_down()
        self._listener.close()
        await self._after_run(quiet=False)

    def push_audio(self, pcm: bytes) -> None:
        """Hand over microphone audio: int16 little endian mono at 16 kHz. Never waits; beyond 2 s waiting the oldest is dropped."""
        if self._engine is not None:
            self._engine.push_audio(pcm)

    async def send(self, content: Content) -> SendResult:
        """Send a message of the user: to the model first, then to the store. Answers to pending calls (function responses) are recorded as
        the tool's response.

        Raises `NotDelivered` (safe to send again), `DeliveredNotPersisted` (never), `DeliveryUnknown` (ask the person),
        `LiveSessionClosed`, `ToolResponseNotExpected`.
        """
        return await self._running.sender.send(content)

    async def confirm(self, call_id: str, *, approve: bool, shown: str) -> SendResult:
        """Approve or reject a call that waits for a person; the same as sending the answer to the call that asks. shown: digest
        (`live_gateway.content.digest`) of the arguments that the person saw.

        Raises `ToolResponseNotExpected` for a call that does not wait, is decided about already, or has other arguments, `NotDelivered`
        where the decision could not be stored and counts for nothing, `LiveSessionClosed`.
        """
        return await self._running.sender.confirm(call_id, approve=approve, shown=shown)

    async def send_image(self, data: bytes, mime_type: str) -> None:
        """Hand over one image of what the user shows. Not stored.

        Raises `NotDelivered`, `DeliveryUnknown`, and what the model refuses with.
        """
        engine = self._running
        await engine.sender.hand_over(lambda: engine.legs.now.connection.send_image(data, mime_type))

    async def activity(self, activity: Activity) -> None:
        """Push to talk: the user begins or ends to speak. Raises what `send_image` raises."""
        engine = self._running
        engine.conversation.activity(started=activity is Activity.START)
        await engine.sender.hand_over(lambda: engine.legs.send_activity(activity))

    async def end_audio(self) -> None:
        """The microphone is off; whatever was said is complete. Raises what `send_image` raises."""
        engine = self._running
        if engine.microphone.told_off():
            await engine.sender.hand_over(lambda: engine.legs.now.connection.end_audio())

    async def last_words(self) -> None:
        """The user has finished: wait until what they said last is written down, at most 2.5 s. To be called before `close`."""
        if self._engine is not None:
            await self._engine.microphone.last_words()

    async def interrupt(self) -> None:
        """Stop the answer that is made or plays."""
        self._running.conversation.cancel()

    def playback(self, mark: PlaybackMark) -> None:
        """Report what the listener has played of a response."""
        if self._engine is not None:
            self._engine.keepers.played(mark)
            self._engine.conversation.playback(mark)

    def relay(self, frame: str) -> None:
        """Put something of the server's own at its place among the items."""
        self._listener.put(Relay(frame))

    async def items(self) -> AsyncIterator[LiveItem]:
        """Everything, in order, until the session has ended, or until something of it cannot be given any more: a fatal `Failure` is then
        the last item. A failure is an item here, not an exception."""
        while True:
            try:
                item = await self._listener.get()
                events = await self._read_back(item) if isinstance(item, ReadBack) else []
            except ChannelClosed:
                return
            except (SlowConsumer, StorageError) as error:
                yield Failure(public_error(error), error, fatal=True)
                return
            for event in events:
                yield Stored(event)
            if not isinstance(item, ReadBack):
                yield item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """The next event; audio comes as an event with inline data."""
        while True:
            if self._gap is not None:
                self._fetched.extend(await self._read_back(self._gap))
                self._gap = None
            if self._fetched:
                return self._fetched.popleft()
            match await anext(self._listener):
                case Stored(event) | Partial(event):
                    return event
                case AudioChunk(_, _, pcm, author):
                    return self._audio_event(pcm, author)
                case ReadBack() as gap:
                    self._gap = gap  # kept until it was read: a store that fails now may give it the next time
                case Failure(exception=exception):
                    raise exception
                case _:
                    continue

    @property
    def _started(self) -> LiveStart:
        if self._start is None:
            raise LiveSessionClosed("the live session was not entered: use `async with`")
        return self._start

    @property
    def _leg_start(self) -> LiveStart:
        return self._engine.legs.now.start if self._engine is not None else self._started

    @property
    def _running(self) -> Engine:
        if self._engine is None or self._engine.closing:
            raise LiveSessionClosed("the live session is closed")
        return self._engine

    async def _exit_early(self, start: LiveStart, content: Content) -> None:
        event = Event(author=start.agent.name, invocation_id=start.invocation.invocation_id, content=content)
        self._listener.put(Stored(await start.sessions.append_event(start.invocation.session, event)))
        self._listener.close()

    async def _after_run(self, *, quiet: bool) -> None:
        """Once. Whoever comes second waits for its end."""
        async with self._finishing:
            if self._after_run_done or self._start is None:
                return
            self._after_run_done = True
            errors = await self._start.chain.after_run(self._start.invocation)
        for error in errors:
            log.error("after_run_failed", error, plugin=error.plugin)
        if errors and not quiet:
            raise errors[0]

    async def _read_back(self, gap: ReadBack) -> list[Event]:
        """Raises `StorageError` when the store does not give them."""
        start = self._started
        session = start.invocation.session
        try:
            stored = await start.sessions.get(
                app_name=session.app_name, user_id=session.user_id, session_id=session.id, after_seq=gap.first_seq - 1
            )
        except Exception as error:  # the edge to a store that may be anybody's
            raise StorageError("the store did not give back events that had been kept there for a slow listener") from error
        return [event for event in stored.events if event.seq <= gap.last_seq and self._was_ours_to_give(event)]

    def _was_ours_to_give(self, event: Event) -> bool:
        """Others write to the session too, and what was sent comes only to those who asked for it."""
        sent = event.author == USER and event.content is not None and not is_reference(event.content)
        return event.invocation_id == self.invocation_id and (not sent or self._options.yield_user_message)

    def _audio_event(self, pcm: bytes, author: str) -> Event:
        blob = Blob(data=pcm, mime_type=f"audio/pcm;rate={OUTPUT_HZ}")
        return Event(
            author=author,
            invocation_id=self.invocation_id,
            timestamp=self._clock.wall(),
            content=model_content([Part(inline_data=blob)]),
        )
