"""How a live session is opened, and everybody who may answer before there is a connection."""

from __future__ import annotations

from live_gateway.agents.interrupted import record_interrupted
from live_gateway.clock import Clock
from live_gateway.confirmation import questions_of
from live_gateway.errors import ServiceMissing
from live_gateway.events import USER, Event, EventActions
from live_gateway.live.call_recorder import open_recorder
from live_gateway.live.engine import Engine
from live_gateway.live.hooks import LiveHooks
from live_gateway.live.items import Stored
from live_gateway.live.listener import Listener
from live_gateway.live.setup import live_setup
from live_gateway.live.start import LiveOptions, LiveStart


async def open_engine(start: LiveStart, options: LiveOptions, listener: Listener, clock: Clock) -> Engine | None:
    """Store the state delta, and what an earlier session left undone; ask the hooks, connect. Raises what connecting or a hook raised.

    None where a hook answered instead of the agent or of its model: the answer is stored and shown, and there is no connection.
    """
    if options.config.save_live_blob and start.invocation.artifacts is None:
        raise ServiceMissing("artifact service is not set; save_live_blob needs one to keep the audio in")

    async def keep(event: Event) -> None:
        wanted = hooks.output.apply(await start.chain.on_event(start.invocation, event))
        listener.put(Stored(await start.sessions.append_event(start.invocation.session, wanted)))
        start.invocation.settle(event)

    hooks = LiveHooks(start, keep)
    await _store_delta(start, options)
    await record_interrupted(start.sessions, start.invocation.session, questions_of(start.invocation.session.events))
    if await hooks.before_agent() is not None:
        return None
    setup = await live_setup(start, options.config, options.on_notice)
    if await hooks.before_connecting(setup) is not None:
        return None
    recorder = await open_recorder(options.config.record_to, start.invocation, clock, listener.put)
    engine = Engine(start, options, listener, clock, hooks, recorder)
    try:
        await engine.connect(setup)
    except BaseException as error:
        await recorder.discard()
        if not isinstance(error, Exception):
            raise
        if await hooks.not_connected(error) is None:
            raise
        return None
    recorder.begin()
    return engine


async def _store_delta(start: LiveStart, options: LiveOptions) -> None:
    if options.state_delta:
        actions = EventActions(state_delta=dict(options.state_delta))
        event = Event(author=USER, invocation_id=start.invocation.invocation_id, actions=actions)
        await start.sessions.append_event(start.invocation.session, event)
