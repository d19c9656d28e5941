"""From one agent to the next within a live session: after a transfer, and in a sequence.

The old agent is left first: what its model still says is not taken, its tools are recorded as cancelled, its connection is closed. Then
the next one is opened like the first: hooks, instruction, tools, and the history as it is stored by then. What is sent up meanwhile waits
in the uplink, within its bounds, and goes to the next one. What plays goes on playing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace
from functools import partial
from typing import Protocol

from live_gateway.agents.config import LiveRunConfig
from live_gateway.agents.llm import LlmAgent
from live_gateway.agents.sequential import in_order
from live_gateway.errors import AgentError, NotDelivered
from live_gateway.events import Event
from live_gateway.live.hooks import LiveHooks
from live_gateway.live.items import Notice
from live_gateway.live.leg import END_S, Host, Leg, moves_on
from live_gateway.live.setup import live_setup
from live_gateway.live.start import LiveStart
from live_gateway.live.uplink import Action
from live_gateway.models.live import Activity, History, LiveSetup

SETTLE_S = 5.0
"""How long a message waits for the next agent."""


class Session(Host, Protocol):
    """What moving needs of the session."""

    closing: bool

    def record(self, event: Event, *, hooks: LiveHooks | None = None) -> None:
        """Take an event to the record. hooks: of the agent whose event it is, if it is not the one that answers now."""
        ...

    def answers_now(self, leg: Leg) -> None:
        """From here on this agent's hooks see the events, and its name stands on what is said."""
        ...

    async def hold_uplink(self, within_s: float) -> None:
        """Let nothing go up, once what is being sent was sent."""
        ...

    def release_uplink(self) -> None:
        """Let it go up."""
        ...

    def spawn(self, name: str, work: Action) -> None:
        """Run it in the session's group; its failure ends the session in order."""
        ...

    def problem(self, error: Exception) -> None:
        """Tell the listener of something that cost no more than itself."""
        ...

    def begin_shutdown(self, error: Exception | None) -> None:
        """End the session."""
        ...


class Legs:
    """The agents of one live session. `now` is the one that answers, or that was left last while the next is opened.

    caught_up: waits until what is on its way to the store is there, if that does not take too long.
    """

    def __init__(
        self,
        first: LiveStart,
        hooks: LiveHooks,
        config: LiveRunConfig,
        group: asyncio.TaskGroup,
        session: Session,
        caught_up: Action,
    ) -> None:
        self.now = Leg(first, hooks, group, session)
        self._config = config
        self._group = group
        self._session = session
        self._caught_up = caught_up
        self._rest: deque[LlmAgent] = deque(first.rest)
        self._settled = asyncio.Event()
        self._settled.set()
        self._talking = False

    async def connect(self, setup: LiveSetup) -> None:
        """Connect the first agent."""
        await self._connect(self.now, setup)

    async def settled(self) -> None:
        """Wait until an agent is there to be spoken to. Raises `NotDelivered` after five seconds."""
        try:
            async with asyncio.timeout(SETTLE_S):
                await self._settled.wait()
        except TimeoutError:
            raise NotDelivered("the agent that is to go on is not there yet") from None

    async def send_activity(self, activity: Activity) -> None:
        """Push to talk, which is told anew to an agent that takes over while the user speaks."""
        await self.now.connection.send_activity(activity)
        self._talking = activity is Activity.START

    def stored(self, event: Event) -> None:
        """This event is on record: where it says so, another agent is to go on."""
        leg = self.now
        if leg.left or self._session.closing:
            return
        if event.author != leg.start.agent.name or not moves_on(event):
            leg.stays(event)
            return
        try:
            self._queue(leg, event.actions.transfer_to_agent)
        except AgentError as error:
            self._session.problem(error)
            leg.stays(event)
        else:
            self._move_on()

    def not_stored(self, event: Event) -> None:
        """This event is on no record, so nothing follows from it."""
        self.now.stays(event)

    def ended(self, leg: Leg) -> None:
        """The model ended its stream: the next of the sequence goes on, or the session is over."""
        if leg is not self.now or leg.left or self._session.closing:
            return
        if self._rest:
            self._move_on()
        else:
            self._session.begin_shutdown(None)

    async def finish(self) -> None:
        """The session ends: leave the agent, and wait for whatever waits for the next one."""
        ending = self.now.leave()
        self._settled.set()
        await self.now.close(ending)

    def _queue(self, leg: Leg, target: str | None) -> None:
        if target is not None:
            workers = in_order(leg.start.invocation.target(target))
            self._rest.extendleft(reversed([worker for worker in workers if isinstance(worker, LlmAgent)]))

    def _move_on(self) -> None:
        self._settled.clear()
        self._session.spawn("hand over", partial(self._hand_over, self.now.leave(for_good=True)))

    async def _hand_over(self, ending: list[asyncio.Task[None]]) -> None:
        old, session = self.now, self._session
        await session.hold_uplink(END_S)
        await old.close(ending)
        session.conversation.left(talking=self._talking)
        await self._caught_up()
        old.tools.approvals.end()
        await self._say_goodbye(old)
        while self._rest:
            if await self._enter(old.start.at(self._rest.popleft())):
                session.release_uplink()
                self._settled.set()
                return
        session.begin_shutdown(None)

    async def _say_goodbye(self, leg: Leg) -> None:
        try:
            last = await leg.hooks.at_end(None)
        except Exception as error:  # the edge to callbacks of the agent's author
            self._session.problem(error)
        else:
            if last is not None:
                self._session.record(last)

    async def _enter(self, start: LiveStart) -> bool:
        """Whether the agent is there now; a hook may have answered instead of it."""
        session, old = self._session, self.now

        async def keep(event: Event) -> None:
            session.record(event, hooks=hooks)

        hooks = LiveHooks(start, keep)
        if await hooks.before_agent() is not None:
            return False
        setup = await live_setup(start, self._config, session.show)
        if await hooks.before_connecting(setup) is not None:
            return False
        leg = Leg(start, hooks, self._group, session)
        try:
            await self._connect(leg, setup)
            if self._talking:
                await leg.connection.send_activity(Activity.START)
        except BaseException as error:
            leg.give_up()
            if not isinstance(error, Exception) or await hooks.not_connected(error) is None:
                raise
            return False
        self.now = leg
        session.answers_now(leg)
        session.show(Notice("info", "agent_changed", {"from": old.start.agent.name, "to": start.agent.name}))
        leg.begin()
        return True

    async def _connect(self, leg: Leg, setup: LiveSetup) -> None:
        async def history() -> History:
            await self._caught_up()
            return await leg.start.history()

        await leg.connect(replace(setup, history=history))
