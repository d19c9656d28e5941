"""What runs while a live session is open: the tasks in one group, and the one way in which they end."""

from __future__ import annotations

import asyncio
from functools import partial

from live_gateway.clock import Clock
from live_gateway.confirmation import was_decided
from live_gateway.content import FunctionCall
from live_gateway.errors import (
    GatewayError,
    NotDelivered,
    SessionNotFound,
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
from live_gateway.live.leg import END_S, Leg, end
from live_gateway.live.legs import Legs
from live_gateway.live.listener import Listener
from live_gateway.live.microphone import Microphone
from live_gateway.live.pipeline import EventPipeline
from live_gateway.live.sender import Sender
from live_gateway.live.start import LiveOptions, LiveStart
from live_gateway.live.uplink import Action, Uplink
from live_gateway.models.live import LiveSetup
from live_gateway.sessions.writer import SessionWriter
from live_gateway.telemetry import get_logger

log = get_logger(__name__)

BACKLOG = 512
"""Stored events that may wait before the model is kept waiting too; a store that stays behind ends the session."""
STORE_S = 6.0
"""How long closing waits for the store to take what is left; beyond, the number of events lost is logged."""


class Engine:
    """An open session and everything around its agents. Implements `conversation.Stage` and `legs.Session`."""

    def __init__(
        self, start: LiveStart, options: LiveOptions, listener: Listener, clock: Clock, hooks: LiveHooks, recorder: CallRecorder
    ) -> None:
        self._start = start
        self._options = options
        self._listener = listener
        self._group = asyncio.TaskGroup()
        self._closed = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.closing = False
        self._answered = False
        self._writer = SessionWriter(start.sessions, start.invocation.session, on_stored=self._stored, on_failed=self._not_stored)
        self._pipeline = EventPipeline(
            start.invocation, start.chain, hooks, self._writer, listener.put, self._lost, self.begin_shutdown, watched=start.watched
        )
        self.conversation = Conversation(start.agent.name, start.invocation.invocation_id, options.config, self, clock)
        keep, turns = options.config.save_live_blob, self.conversation.turns
        kept = KeptAudio(start.invocation, self.record, self.problem, clock.wall, turn=lambda: turns.turn, on=keep)
        self.keepers = Keepers(kept, recorder)
        self.microphone = Microphone(self._microphone_off, options.config)
        self.uplink = Uplink()
        self.legs = Legs(start, hooks, options.config, self._group, self, self._caught_up)
        self.sender = Sender(start, self.legs, self.conversation, self._pipeline, self.uplink)

    async def connect(self, setup: LiveSetup) -> None:
        """Connect, wait until the model is ready, start the tasks. Raises what connecting raised; no task is left then."""
        await self._group.__aenter__()
        try:
            await self.legs.connect(setup)
        except BaseException:
            self.closing = True
            await self._group.__aexit__(None, None, None)
            raise
        self.release_uplink()
        self.legs.now.begin()
        self.spawn("plugins", self._pipeline.run)
        self.spawn("store", self._writer.run)
        self.spawn("audio", self.keepers.run)

    async def aclose(self) -> None:
        """Shut down and wait until no task is left."""
        try:
            await self.shut_down()
        finally:
            await self._group.__aexit__(None, None, None)

    async def shut_down(self) -> None:
        """End the session once; everybody who calls waits for the end."""
        self.begin_shutdown(None)
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

    def record(self, event: Event, update: TranscriptUpdate | None = None, *, hooks: LiveHooks | None = None) -> None:
        self._pipeline.record(event, update, hooks=hooks)
        self.keepers.recorded(event)
        self.microphone.recorded(event)

    def stop_model(self) -> None:
        self.legs.now.post(self.legs.now.connection.interrupt)

    def _microphone_off(self) -> None:
        self.legs.now.post(self.legs.now.connection.end_audio)

    def playing_changed(self, playing: bool) -> None:
        if not self.closing and not self.legs.now.left:
            self.legs.now.connection.set_playing(playing)

    def run_tools(self, calls: tuple[FunctionCall, ...]) -> None:
        if not self.closing:
            self.legs.now.run_tools(calls)

    def cancel_tools(self, ids: tuple[str, ...]) -> None:
        self.legs.now.tools.cancel(ids)

    def interrupt_tools(self) -> None:
        self.legs.now.tools.interrupt()

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
            self.begin_shutdown(error)

    def post(self, action: Action) -> None:
        """Queue something for the model that must not be lost: where there is no room for it, the session is ended."""
        if self.closing:
            return
        try:
            self.uplink.post(action)
        except NotDelivered as error:
            self.begin_shutdown(UpstreamLost(str(error)))

    # What moving from one agent to the next asks for.

    def answers_now(self, leg: Leg) -> None:
        self._pipeline.hooks = leg.hooks
        self.conversation.taken_over(leg.start.agent.name)
        self.keepers.taken_over(leg.start.agent.name)

    async def hold_uplink(self, within_s: float) -> None:
        self.uplink.hold()
        await end([self._tasks["uplink"]], within_s)

    def release_uplink(self) -> None:
        self.uplink.release(self.legs.now.connection)
        self.spawn("uplink", self.uplink.run)

    def over(self, leg: Leg, error: Exception | None) -> None:
        if error is None:
            self.legs.ended(leg)
        elif not self.closing and not leg.left:
            self.begin_shutdown(error)

    def spawn(self, name: str, work: Action) -> None:
        self._tasks[name] = self._group.create_task(self._guarded(work), name=f"live {name}")

    async def _guarded(self, work: Action) -> None:
        """A pump's failure ends the session in order; it never tears down the group. Not a coroutine that is made before: a task that is
        cancelled before it began would leave it unawaited."""
        try:
            await work()
        except Exception as error:
            if not self.closing:
                self.begin_shutdown(error)

    async def keep_up(self) -> None:
        """After a burst that came without a pause: let the store have its turn."""
        if len(self._writer) > BACKLOG:
            await self._writer.drain(STORE_S)

    async def _caught_up(self) -> None:
        try:
            async with asyncio.timeout(STORE_S):
                await self._pipeline.drain()
                await self._writer.drain(STORE_S)
        except (TimeoutError, StorageError):
            log.warning("store_behind", session=self._start.invocation.session.id, count=len(self._writer))

    def _stored(self, event: Event) -> None:
        self.legs.now.tools.event_stored(event.id, self.conversation.call_resumed)
        if not self.sender.owns(event.id) or self._options.yield_user_message:
            self._pipeline.stored(event)
        self.legs.stored(event)

    def _not_stored(self, event: Event, error: Exception) -> None:
        if isinstance(error, SessionNotFound):  # somebody deleted it: nothing that follows could be kept either
            self.begin_shutdown(error)
        self.legs.now.tools.approvals.not_stored(event.id, error)
        if not self.sender.tells(event.id) and not was_decided(event, error):
            self._pipeline.failed(event, error)

    def _lost(self, event: Event, error: Exception) -> None:
        self.problem(error)
        self.legs.not_stored(event)

    def problem(self, error: Exception) -> None:
        self._listener.put(Failure(public_error(error), error))

    # The end.

    def begin_shutdown(self, error: Exception | None) -> None:
        if not self.closing:
            self.closing = True
            self.spawn("shutdown", partial(self._shut_down, error))

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
        self._tasks["uplink"].cancel()
        if (moving := self._tasks.get("hand over")) is not None:
            moving.cancel()
            await end([moving], END_S)
        await self.legs.finish()

    async def _end_conversation(self, error: Exception | None) -> None:
        self.conversation.end(failed=error is not None)
        try:
            last = await self.legs.now.hooks.at_end(error)
        except Exception as problem:  # the edge to callbacks of the agent's author
            self.problem(problem)
        else:
            self._answered = last is not None
            if last is not None:
                self.record(last)

    async def _store_rest(self, _error: Exception | None) -> None:
        self.keepers.finish()
        await end([self._tasks["audio"]], STORE_S)
        self._pipeline.finish()
        await end([self._tasks["plugins"]], STORE_S)
        self._pipeline.flush()
        self._writer.close()
        if not await end([self._tasks["store"]], STORE_S):
            log.error("events_lost", session=self._start.invocation.session.id, count=len(self._writer))

    def _report(self, error: Exception) -> None:
        shown = error if isinstance(error, GatewayError) else _lost(error, self._start.invocation.session.id)
        self._listener.put(Failure(public_error(shown), shown, fatal=True))


def _lost(error: Exception, session_id: str) -> UpstreamLost:
    """A stranger ended the session: what it says may hold anything, so it is logged by type and place."""
    log.error("live_failed", error, session=session_id)
    lost = UpstreamLost("the connection to the model failed")
    lost.__cause__ = error
    return lost
