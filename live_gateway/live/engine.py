"""What runs while a live session is open: the tasks in one group, and the one way in which they end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

from live_gateway.cancellation import ForeignCancellation, foreign_code
from live_gateway.clock import Clock
from live_gateway.confirmation import was_decided
from live_gateway.content import FunctionCall
from live_gateway.errors import (
    GatewayError,
    NotDelivered,
    SessionNotFound,
    SetupTimeout,
    StorageError,
    UpstreamLost,
    public_error,
)
from live_gateway.events import Event
from live_gateway.live.call_recorder import CallRecorder
from live_gateway.live.conversation import Conversation
from live_gateway.live.hooks import LiveHooks
from live_gateway.live.items import Failure, LiveItem, Notice, TranscriptUpdate
from live_gateway.live.keepers import Keepers
from live_gateway.live.kept_audio import KeptAudio
from live_gateway.live.listener import Listener
from live_gateway.live.microphone import Microphone
from live_gateway.live.pipeline import EventPipeline
from live_gateway.live.sender import Sender
from live_gateway.live.start import LiveOptions, LiveStart
from live_gateway.live.tool_updates import ToolUpdates
from live_gateway.live.tools import LiveTools, ToolsAnswered
from live_gateway.live.uplink import Action, Uplink, uplink_to
from live_gateway.models.live import AudioOut, History, LiveConnection, LiveSetup
from live_gateway.sessions.writer import SessionWriter
from live_gateway.telemetry import get_logger

log = get_logger(__name__)

OPEN_S = 60.0
"""How long opening may take in any case; models have a limit of their own, which is shorter."""
END_S = 0.8
"""How long closing waits for the model's side to close and for cancelled tools to clean up; beyond, they are cancelled."""
TIDY_S = 0.2
"""How long it then waits for them once more."""
BACKLOG = 512
"""Stored events that may wait before the model is kept waiting too; a store that stays behind ends the session."""
STORE_S = 6.0
"""How long closing waits for the store to take what is left; beyond, the number of events lost is logged."""


class Engine:
    """An open connection and everything around it. Implements `conversation.Stage`."""

    def __init__(
        self, start: LiveStart, options: LiveOptions, listener: Listener, clock: Clock, hooks: LiveHooks, recorder: CallRecorder
    ) -> None:
        self._start = start
        self._hooks = hooks
        self._options = options
        self._listener = listener
        self._group = asyncio.TaskGroup()
        self._disconnect = asyncio.Event()
        self._closed = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.closing = False
        self._answered = False
        self.connection: LiveConnection
        self.uplink: Uplink
        self.sender: Sender
        self._writer = SessionWriter(start.sessions, start.invocation.session, on_stored=self._stored, on_failed=self._not_stored)
        self._pipeline = EventPipeline(
            start.invocation, start.chain, hooks, self._writer, listener.put, self._problem, self._begin_shutdown
        )
        self._tools = LiveTools(start.agent, start.invocation, start.chain, listener.put, self._tools_answered, ToolUpdates(self))
        self.conversation = Conversation(start.agent.name, start.invocation.invocation_id, options.config, self, clock)
        keep, turns = options.config.save_live_blob, self.conversation.turns
        kept = KeptAudio(start.invocation, self.record, self._problem, clock.wall, turn=lambda: turns.turn, on=keep)
        self.keepers = Keepers(kept, recorder)
        self.microphone = Microphone(lambda: self.post(self.connection.end_audio), options.config)

    async def connect(self, setup: LiveSetup) -> None:
        """Connect, wait until the model is ready, start the tasks. Raises what connecting raised; no task is left then."""
        await self._group.__aenter__()
        try:
            ready: asyncio.Future[LiveConnection] = asyncio.get_running_loop().create_future()
            told = replace(setup, history=partial(_history, self._start, self._pipeline, self._writer))
            self._spawn("connection", self._hold_connection(told, ready))
            async with asyncio.timeout(OPEN_S):
                self.connection = await ready
        except TimeoutError:
            await self._abandon()
            raise SetupTimeout(f"the model was not ready within {OPEN_S:g} s") from None
        except BaseException:
            await self._abandon()
            raise
        self.uplink = uplink_to(self.connection)
        self.sender = Sender(self._start, self._hooks, self.conversation, self._pipeline, self._tools, self.connection, self.uplink)
        self._spawn("uplink", self._guarded(self.uplink.run()))
        self._spawn("receive", self._guarded(self._receive()))
        self._spawn("plugins", self._guarded(self._pipeline.run()))
        self._spawn("store", self._guarded(self._writer.run()))
        self._spawn("audio", self._guarded(self.keepers.run()))

    async def _abandon(self) -> None:
        self.closing = True
        self._tasks["connection"].cancel()
        await self._group.__aexit__(None, None, None)

    async def aclose(self) -> None:
        """Shut down and wait until no task is left."""
        try:
            await self.shut_down()
        finally:
            await self._group.__aexit__(None, None, None)

    async def shut_down(self) -> None:
        """End the session once; everybody who calls waits for the end."""
        self._begin_shutdown(None)
        await self._closed.wait()

    def push_audio(self, pcm: bytes) -> None:
        """Microphone audio: never waits. A gap is announced once it is over."""
        self.uplink.push_audio(pcm)
        self.keepers.heard(pcm)
        self.microphone.took(pcm)
        if dropped_ms := self.uplink.take_gap_ms():
            self._listener.put(Notice("warning", "audio_gap", {"direction": "up", "dropped_ms": dropped_ms}))

    # What the conversation asks for.

    def show(self, item: LiveItem) -> None:
        self._listener.put(item)
        self.keepers.shown(item)

    def record(self, event: Event, update: TranscriptUpdate | None = None) -> None:
        self._pipeline.record(event, update)
        self.keepers.recorded(event)
        self.microphone.recorded(event)

    def stop_model(self) -> None:
        self.post(self.connection.interrupt)

    def playing_changed(self, playing: bool) -> None:
        if not self.closing:
            self.connection.set_playing(playing)

    def run_tools(self, calls: tuple[FunctionCall, ...]) -> None:
        fresh = () if self.closing else self._tools.fresh(calls)
        if fresh:
            self.conversation.calls_started(fresh, [call.id or "" for call in fresh if self._tools.long_running(call)])
            self._tools.start(self._group, fresh)

    def cancel_tools(self, ids: tuple[str, ...]) -> None:
        self._tools.cancel(ids)

    def interrupt_tools(self) -> None:
        self._tools.interrupt()

    def arm(self, deadline: float | None) -> None:
        if self._timer is not None:
            if self._timer.when() == deadline:
                return
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(deadline, self._tick) if deadline is not None and not self.closing else None

    def _tick(self) -> None:
        self._timer = None
        try:
            self.conversation.tick()
        except Exception as error:  # nobody else would be told
            self._begin_shutdown(error)

    def _tools_answered(self, answered: ToolsAnswered) -> None:
        self.conversation.tools_answered(answered)
        if answered.answers:
            self.post(partial(self.connection.send_tool_responses, answered.answers))

    def post(self, action: Action) -> None:
        """Queue something for the model that must not be lost: where there is no room for it, the session is ended."""
        if self.closing:
            return
        try:
            self.uplink.post(action)
        except NotDelivered as error:
            self._begin_shutdown(UpstreamLost(str(error)))

    # The tasks.

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks[name] = self._group.create_task(work, name=f"live {name}")

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """A pump's failure ends the session in order; it never tears down the group."""
        try:
            await work
        except Exception as error:
            if not self.closing:
                self._begin_shutdown(error)

    async def _hold_connection(self, setup: LiveSetup, ready: asyncio.Future[LiveConnection]) -> None:
        """Enters and leaves the connection in one task, as contexts that hold a task group need."""
        try:
            with foreign_code("connecting"):
                async with self._start.model.connect(setup) as connection:
                    if not ready.done():
                        ready.set_result(connection)
                        await self._disconnect.wait()
        except ForeignCancellation as error:
            self._connection_failed(UpstreamLost(f"the connection to the model was lost: {error}"), ready)
        except Exception as error:
            self._connection_failed(error, ready)

    def _connection_failed(self, error: Exception, ready: asyncio.Future[LiveConnection]) -> None:
        if not ready.done():
            ready.set_exception(error)
        elif not self.closing:
            self._begin_shutdown(error)
        else:
            log.warning("disconnect_failed", error_type=type(error).__name__)

    async def _receive(self) -> None:
        with foreign_code("receiving"):  # around the loop: once a message would cost more than the message
            while (message := await self.connection.receive()) is not None:
                self.conversation.message(message)
                if not isinstance(message, AudioOut):  # which leaves nothing to store
                    await self.keep_up()
        self._begin_shutdown(None)

    async def keep_up(self) -> None:
        """After a burst that came without a pause: let the store have its turn."""
        if len(self._writer) > BACKLOG:
            await self._writer.drain(STORE_S)

    def _stored(self, event: Event) -> None:
        self._tools.event_stored(event.id, self.conversation.call_resumed)
        if not self.sender.owns(event.id) or self._options.yield_user_message:
            self._pipeline.stored(event)

    def _not_stored(self, event: Event, error: Exception) -> None:
        if isinstance(error, SessionNotFound):  # somebody deleted it: nothing that follows could be kept either
            self._begin_shutdown(error)
        self._tools.approvals.not_stored(event.id, error)
        if not self.sender.tells(event.id) and not was_decided(event, error):
            self._pipeline.failed(event, error)

    def _problem(self, error: Exception) -> None:
        self._listener.put(Failure(public_error(error), error))

    # The end.

    def _begin_shutdown(self, error: Exception | None) -> None:
        if not self.closing:
            self.closing = True
            self._spawn("shutdown", self._shut_down(error))

    async def _shut_down(self, error: Exception | None) -> None:
        try:
            for step in (self._end_input, self._end_conversation, self._store_rest):
                try:
                    await step(error)
                except Exception as problem:  # one step that fails must not keep the next from being taken
                    error = error or problem
            if error is not None and not self._answered:
                self._report(error)
        finally:
            self.arm(None)
            for task in self._tasks.values():
                if task is not asyncio.current_task():
                    task.cancel()
            self._listener.close()
            self._closed.set()

    async def _end_input(self, _error: Exception | None) -> None:
        """Nothing more comes from the model or goes to it. Tools and connection are told at once, and end side by side."""
        self.uplink.close()
        self.microphone.close()
        self._tasks["receive"].cancel()
        self._tasks["uplink"].cancel()
        self._disconnect.set()
        await _end([self._tasks["connection"], *self._tools.cancel_all()], END_S)

    async def _end_conversation(self, error: Exception | None) -> None:
        self.conversation.end(failed=error is not None)
        try:
            last = await self._hooks.at_end(error)
        except Exception as problem:  # the edge to callbacks of the agent's author
            self._problem(problem)
        else:
            self._answered = last is not None
            if last is not None:
                self.record(last)

    async def _store_rest(self, _error: Exception | None) -> None:
        self.keepers.finish()
        await _end([self._tasks["audio"]], STORE_S)
        self._pipeline.finish()
        await _end([self._tasks["plugins"]], STORE_S)
        self._pipeline.flush()
        self._writer.close()
        if not await _end([self._tasks["store"]], STORE_S):
            log.error("events_lost", session=self._start.invocation.session.id, count=len(self._writer))

    def _report(self, error: Exception) -> None:
        shown = error if isinstance(error, GatewayError) else _lost(error, self._start.invocation.session.id)
        self._listener.put(Failure(public_error(shown), shown, fatal=True))


async def _history(start: LiveStart, pipeline: EventPipeline, writer: SessionWriter) -> History:
    """What was said before, all that is on its way to the store included, if the store takes it in time."""
    try:
        async with asyncio.timeout(STORE_S):
            await pipeline.drain()
            await writer.drain(STORE_S)
    except (TimeoutError, StorageError):
        log.warning("history_without_newest", session=start.invocation.session.id, count=len(writer))
    return await start.history()


async def _end(tasks: list[asyncio.Task[None]], deadline_s: float) -> bool:
    """Wait for tasks that are ending; cancel those that have not ended in time, and give them a moment to tidy up."""
    _, late = await asyncio.wait(tasks, timeout=deadline_s)
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late, timeout=TIDY_S)
    return not late


def _lost(error: Exception, session_id: str) -> UpstreamLost:
    """A stranger ended the session: what it says may hold anything, so it is logged by type and place."""
    log.error("live_failed", error, session=session_id)
    lost = UpstreamLost("the connection to the model failed")
    lost.__cause__ = error
    return lost
