"""One agent's stay in a live session: its hooks, its tools and its connection to a model."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

from live_gateway.cancellation import ForeignCancellation, foreign_code
from live_gateway.content import FunctionCall, FunctionResponse
from live_gateway.errors import NotDelivered, SetupTimeout, UpstreamLost
from live_gateway.events import Event
from live_gateway.live.conversation import Conversation
from live_gateway.live.hooks import LiveHooks
from live_gateway.live.items import LiveItem
from live_gateway.live.start import LiveStart
from live_gateway.live.tool_updates import ToolUpdates
from live_gateway.live.tools import LiveTools, ToolsAnswered
from live_gateway.live.uplink import Uplink
from live_gateway.models.live import AudioOut, LiveConnection, LiveSetup
from live_gateway.telemetry import get_logger

log = get_logger(__name__)

OPEN_S = 60.0
"""How long opening may take in any case; models have a limit of their own, which is shorter."""
END_S = 0.8
"""How long closing waits for the model's side to close and for cancelled tools to clean up; beyond, they are cancelled."""
TIDY_S = 0.2
"""How long it then waits for them once more."""


class Host(Protocol):
    """What is the session's and not the agent's."""

    uplink: Uplink
    conversation: Conversation

    def show(self, item: LiveItem) -> None:
        """Hand an item to the listener."""
        ...

    def record(self, event: Event) -> None:
        """Take an event to the record."""
        ...

    def post(self, action: Callable[[], Awaitable[None]]) -> None:
        """Queue something for the model that must not be lost."""
        ...

    async def keep_up(self) -> None:
        """Wait for the store where it is far behind."""
        ...

    def over(self, leg: Leg, error: Exception | None) -> None:
        """The model's side has ended: cleanly, or with an error."""
        ...


class Leg:
    """What belongs to one agent of a live session, and ends with its stay.

    `connect`, then `begin`; `leave` and `close` end it. Whatever is still on its way to its model when it was left stays where it is: no
    other model gets an answer to a call that it did not make.
    """

    def __init__(self, start: LiveStart, hooks: LiveHooks, group: asyncio.TaskGroup, host: Host) -> None:
        self.start = start
        self.hooks = hooks
        self.left = False
        self._for_good = False
        self.connection: LiveConnection
        self.uplink = host.uplink
        self.conversation = host.conversation
        self.record = host.record
        self.keep_up = host.keep_up
        self.tools = LiveTools(start.agent, start.invocation, start.chain, host.show, self._tools_answered, ToolUpdates(self))
        self._host = host
        self._group = group
        self._disconnect = asyncio.Event()
        self._withheld: dict[str, tuple[FunctionResponse, ...]] = {}
        self._holding: asyncio.Task[None] | None = None
        self._receiving: asyncio.Task[None] | None = None

    async def connect(self, setup: LiveSetup) -> None:
        """Connect and wait until the model is ready. Raises what connecting raised, `SetupTimeout` after a minute."""
        ready: asyncio.Future[LiveConnection] = asyncio.get_running_loop().create_future()
        self._holding = self._group.create_task(self._hold_connection(setup, ready), name="live connection")
        try:
            async with asyncio.timeout(OPEN_S):
                self.connection = await ready
        except TimeoutError:
            self.give_up()
            raise SetupTimeout(f"the model was not ready within {OPEN_S:g} s") from None
        except BaseException:
            self.give_up()
            raise

    def begin(self) -> None:
        """Take what the model says."""
        self._receiving = self._group.create_task(self._receive(), name="live receive")

    def run_tools(self, calls: tuple[FunctionCall, ...]) -> None:
        """Start the calls that were not seen before."""
        fresh = self.tools.fresh(calls)
        if fresh:
            self.conversation.calls_started(fresh, [call.id or "" for call in fresh if self.tools.long_running(call)])
            self.tools.start(self._group, fresh)

    def post(self, action: Callable[[], Awaitable[None]]) -> None:
        """Queue something for this agent's model and for no other."""

        async def while_here() -> None:
            if not self.left:
                await action()

        if not self.left:
            self._host.post(while_here)

    def give_back(self, calls: Sequence[FunctionCall]) -> None:
        """The answers to these calls did not reach the model: they wait again, unless it was left meanwhile."""
        self.tools.give_back(calls)
        if self._for_good:
            self.tools.cancel_pending()

    async def answer(self, answers: Sequence[FunctionResponse]) -> None:
        """Give this agent's model answers from outside. Raises `NotDelivered` once it was left."""
        if self.left:
            raise NotDelivered("the agent that asked has handed the conversation over")
        await self.connection.send_tool_responses(answers)

    def leave(self, *, for_good: bool = False) -> list[asyncio.Task[None]]:
        """Nothing of the model is taken any more; tools are recorded as cancelled. The tasks that are still ending.

        for_good: also the calls whose answer comes from outside. Those of a session that ends go on waiting in the store.
        """
        self.left = True
        self._for_good |= for_good
        if self._receiving is not None:
            self._receiving.cancel()
        if for_good:
            self.tools.cancel_pending()
        ending = self.tools.cancel_all()
        if not for_good:  # else whoever moves on waits for the decisions that are on their way to the store
            self.tools.approvals.end()
        return ending

    async def close(self, ending: Sequence[asyncio.Task[None]]) -> None:
        """Disconnect, and wait for it and for these tasks as long as closing may take."""
        self._disconnect.set()
        await end([*([self._holding] if self._holding is not None else []), *ending], END_S)

    def give_up(self) -> None:
        """End it before it began."""
        self.left = True
        if self._holding is not None:
            self._holding.cancel()

    def stays(self, event: Event) -> None:
        """This event, which may have asked for another agent, brings none: the model gets the answers that waited for it."""
        if (answers := self._withheld.pop(event.id, None)) is not None:
            self.post(partial(self.connection.send_tool_responses, answers))

    def _tools_answered(self, answered: ToolsAnswered) -> None:
        """A model that hands over is not answered, so that it does not begin to speak; unless that does not come to pass."""
        event = self.conversation.tools_answered(answered)
        if event is not None and moves_on(event):
            self._withheld[event.id] = answered.answers
        elif answered.answers:
            self.post(partial(self.connection.send_tool_responses, answered.answers))

    async def _hold_connection(self, setup: LiveSetup, ready: asyncio.Future[LiveConnection]) -> None:
        """Enters and leaves the connection in one task, as contexts that hold a task group need."""
        try:
            with foreign_code("connecting"):
                async with self.start.model.connect(setup) as connection:
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
        elif not self.left:
            self._host.over(self, error)
        else:
            log.warning("disconnect_failed", error_type=type(error).__name__)

    async def _receive(self) -> None:
        try:
            with foreign_code("receiving"):  # around the loop: once a message would cost more than the message
                while (message := await self.connection.receive()) is not None:
                    self.conversation.message(message)
                    if not isinstance(message, AudioOut):  # which leaves nothing to store
                        await self.keep_up()
        except Exception as error:
            self._host.over(self, error)
        else:
            self._host.over(self, None)


def moves_on(event: Event) -> bool:
    """Whether another agent is to go on after this event."""
    return event.actions.transfer_to_agent is not None or event.actions.end_of_agent


async def end(tasks: Sequence[asyncio.Task[None]], deadline_s: float) -> bool:
    """Wait for tasks that are ending; cancel those that have not ended in time, and give them a moment to tidy up."""
    if not tasks:
        return True
    _, late = await asyncio.wait(tasks, timeout=deadline_s)
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late, timeout=TIDY_S)
    return not late
