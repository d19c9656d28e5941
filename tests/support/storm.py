"""A live session in a storm: whatever may happen to it, in any order, and what must hold however it went (contract, section 6).

A storm is a list of gusts. Each is something that the model says, the program does, the store or a plugin suffers, or time that passes.
`weather` plays them against a real runner and session on virtual time and gives back everything that can be seen; `check` looks at it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from live_gateway.agents.llm import LlmAgent
from live_gateway.content import TRANSFER_TO_AGENT, Content, FunctionCall, FunctionResponse, Part, user_content
from live_gateway.errors import DeliveredNotPersisted, DeliveryUnknown, GatewayError, LiveSessionClosed, NotDelivered, StorageError
from live_gateway.events import Event
from live_gateway.live.items import (
    AudioChunk,
    Failure,
    LiveItem,
    PlaybackMark,
    ResponseEnded,
    ResponseStarted,
    Stored,
    ToolFinished,
    ToolStarted,
)
from live_gateway.live.session import LiveSession
from live_gateway.models.live import Activity, LiveMessage, ToolCalls, ToolCallsCancelled, Transcript
from live_gateway.plugins.base import Plugin
from live_gateway.sessions.memory import InMemorySessionService
from live_gateway.testing import FaultySessionService
from live_gateway.tools.function import tool
from tests.support.live import go_live, live_runner, stored
from tests.support.puppet_model import PuppetModel

Gust = tuple[str, Any]
CLOSING_S = 20.0
"""Tools 1 s, plugins and store 6 s each, and room."""


async def quick() -> str:
    """Answer at once."""
    return "quick"


async def slow() -> str:
    """Answer after two seconds."""
    await asyncio.sleep(2)
    return "slow"


async def broken() -> str:
    """Fail."""
    raise ValueError("broken")


async def quitter() -> str:
    """Let a cancellation out that nobody asked for."""
    raise asyncio.CancelledError


async def stubborn() -> str:
    """Take three seconds to stop, and answer then."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(5)
    await asyncio.sleep(3)
    return "stubborn"


@tool(long_running=True)
async def deferred() -> None:
    """Let the answer come from outside."""


@tool(long_running=True)
async def promised() -> str:
    """Say after a second that the answer comes from outside."""
    await asyncio.sleep(1)
    return "later"


@tool
async def ticker() -> AsyncIterator[int]:
    """Say something every half a second, three times."""
    for number in range(3):
        await asyncio.sleep(0.5)
        yield number


@tool
async def drone() -> AsyncIterator[str]:
    """Say something every second, without end, and take three seconds to stop."""
    try:
        while True:
            yield "hm"
            await asyncio.sleep(1)
    finally:
        await asyncio.sleep(3)


TOOLS: list[Any] = [quick, slow, broken, quitter, stubborn, deferred, promised, ticker, drone]
TOOL_NAMES = ["quick", "slow", "broken", "quitter", "stubborn", "deferred", "promised", "ticker", "drone", "unknown"]
STREAMS = {"ticker", "drone"}
AT_MOST = {"promised": 2}
"""How many answers a call may get: a first one and the one from outside."""
FROM_OUTSIDE = {"deferred", "promised"}


class Moody(Plugin):
    """Fails, or takes its time, when it is told to. refused: ids of the complete events that it did not let pass."""

    def __init__(self) -> None:
        super().__init__("moody")
        self.fail_next = 0
        self.delay_s = 0.0
        self.refused: list[str] = []
        self.after_runs = 0

    async def on_event(self, invocation: Any, event: Event) -> Event | None:
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        if self.fail_next:
            self.fail_next -= 1
            if not event.partial:
                self.refused.append(event.id)
            raise ValueError("moody")
        return None

    async def after_run(self, invocation: Any) -> None:
        self.after_runs += 1


@dataclass
class Sent:
    """A message of the program and what became of it. given_up: the program stopped waiting."""

    text: str
    state: str = ""
    seq: int = 0
    given_up: bool = False


@dataclass
class Seen:
    """Everything that could be seen."""

    model: PuppetModel
    plugin: Moody | None
    sessions: FaultySessionService
    items: list[LiveItem] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    kept: list[Event] = field(default_factory=list)
    closed_in_s: float = 0.0
    tasks_left: int = 0
    loop_errors: list[str] = field(default_factory=list)
    ended: bool = False
    troubled: bool = False
    """Something happened that may cost events: the store failed or blocked, a plugin failed or was slow."""


async def weather(gusts: list[Gust], ending: str, *, with_plugin: bool, listens: bool) -> Seen:
    """Play a storm."""
    loop = asyncio.get_running_loop()
    plugin = Moody() if with_plugin else None
    sessions = FaultySessionService(InMemorySessionService())
    seen = Seen(PuppetModel(), plugin, sessions)
    loop.set_exception_handler(lambda _, context: seen.loop_errors.append(str(context)))
    other = LlmAgent(name="other", live_model=seen.model, tools=TOOLS)
    runner = live_runner(seen.model, tools=TOOLS, plugins=[plugin] if plugin else [], sessions=sessions, sub_agents=[other])
    async with asyncio.timeout(600), asyncio.TaskGroup() as group:
        holder = group.create_task(_hold(runner, gusts, ending, seen, group, listens=listens))
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([holder])
    seen.tasks_left = len(asyncio.all_tasks()) - 1
    sessions.repair()
    seen.kept = await stored(runner)
    return seen


async def _hold(runner: Any, gusts: list[Gust], ending: str, seen: Seen, group: asyncio.TaskGroup, *, listens: bool) -> None:
    loop = asyncio.get_running_loop()
    live = go_live(runner, yield_user_message=True)
    began = 0.0
    try:
        async with live:
            if listens:
                group.create_task(_listen(live, seen))
            storm = _Storm(live, seen, group)
            for gust in gusts:
                await storm.blow(gust)
            began = loop.time()
            await storm.end(ending)
    except (_Left, asyncio.CancelledError):
        pass
    seen.closed_in_s = loop.time() - began
    if not listens:
        await _listen(live, seen)


async def _listen(live: LiveSession, seen: Seen) -> None:
    async for item in live.items():
        seen.items.append(item)
    seen.ended = True


class _Left(Exception):
    pass


class _Storm:
    def __init__(self, live: LiveSession, seen: Seen, group: asyncio.TaskGroup) -> None:
        self._live = live
        self._seen = seen
        self._group = group
        self._calls = 0

    async def blow(self, gust: Gust) -> None:
        kind, value = gust
        await getattr(self, f"_{kind}")(value)

    async def end(self, ending: str) -> None:
        connection = self._seen.model.connection
        match ending:
            case "close":
                await self._live.close()
            case "leave":
                return
            case "raise":
                raise _Left
            case "cancelled":
                task = asyncio.current_task()
                assert task is not None
                asyncio.get_running_loop().call_later(0.01, task.cancel)
                await asyncio.sleep(60)
            case "model ends":
                connection.end()
                await asyncio.sleep(CLOSING_S)
            case "model fails":
                connection.fail(OSError("reset"))
                await asyncio.sleep(CLOSING_S)
            case "model quits":
                connection.fail(asyncio.CancelledError())
                await asyncio.sleep(CLOSING_S)

    # What may happen.

    async def _say(self, messages: list[LiveMessage]) -> None:
        self._seen.model.connection.say(*messages)

    async def _call(self, names: list[tuple[str, int]]) -> None:
        """Calls by name; the number says how far back the id was used before, 0 for a new one."""
        calls = []
        for name, back in names:
            self._calls += 0 if back else 1
            calls.append(FunctionCall(id=self._id(back), name=name, args={}))
        await self._say([ToolCalls(tuple(calls))])

    def _id(self, back: int) -> str:
        """Each connection has ids of its own."""
        return f"c-{len(self._seen.model.connections)}-{max(1, self._calls - back)}"

    async def _transfer(self, to: str) -> None:
        """To the other agent, or to itself, which is refused."""
        self._calls += 1
        await self._say([ToolCalls((FunctionCall(id=self._id(0), name=TRANSFER_TO_AGENT, args={"agent_name": to}),))])

    async def _opening(self, seconds: float) -> None:
        self._seen.model.opens_in_s = seconds

    async def _uncall(self, back: int) -> None:
        await self._say([ToolCallsCancelled((self._id(back),))])

    async def _send(self, patience_s: float) -> None:
        sent = Sent(f"message {len(self._seen.sent)}")
        self._seen.sent.append(sent)
        self._group.create_task(self._sending(sent, patience_s))

    async def _sending(self, sent: Sent, patience_s: float) -> None:
        try:
            async with asyncio.timeout(patience_s):
                result = await self._live.send(user_content(sent.text))
        except TimeoutError:
            sent.given_up = True
        except (NotDelivered, DeliveredNotPersisted, DeliveryUnknown, LiveSessionClosed, StorageError) as error:
            sent.state = type(error).__name__
        else:
            sent.state, sent.seq = result.state, result.seq

    async def _answer(self, back: int) -> None:
        response = FunctionResponse(id=self._id(back), response={"result": "from outside"})
        self._group.create_task(self._answering(Content(role="user", parts=[Part(function_response=response)])))

    async def _answering(self, content: Content) -> None:
        with contextlib.suppress(GatewayError, NotDelivered, DeliveryUnknown, DeliveredNotPersisted):
            await self._live.send(content)

    async def _audio(self, frames: int) -> None:
        for _ in range(frames):
            self._live.push_audio(bytes(1280))

    async def _activity(self, activity: Activity) -> None:
        self._group.create_task(self._marking(activity))

    async def _marking(self, activity: Activity) -> None:
        with contextlib.suppress(GatewayError, NotDelivered, DeliveryUnknown):
            await self._live.activity(activity)

    async def _interrupt(self, _: None) -> None:
        with contextlib.suppress(LiveSessionClosed):
            await self._live.interrupt()

    async def _mark(self, mark: PlaybackMark) -> None:
        self._live.playback(mark)

    async def _wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _store(self, how: str) -> None:
        self._seen.troubled |= how not in {"slow", "repair"}
        sessions = self._seen.sessions
        match how:
            case "fail":
                sessions.fail_append(1)
            case "fail late":
                sessions.fail_append(2, OSError("no answer"))
            case "quit":
                sessions.fail_append(1, asyncio.CancelledError())  # type: ignore[arg-type]
            case "slow":
                sessions.slow_appends(0.3)
            case "block":
                sessions.block_appends(asyncio.Event())
            case "repair":
                sessions.repair()

    async def _plugin(self, how: float) -> None:
        """Below 0: fail so often. Otherwise: take so long from now on."""
        if self._seen.plugin is None:
            return
        self._seen.troubled |= how > 0.1
        if how < 0:
            self._seen.plugin.fail_next = round(-how)
        else:
            self._seen.plugin.delay_s = how

    async def _uplink(self, how: str) -> None:
        sending = self._seen.model.connection.sending
        match how:
            case "slow":
                sending.delay_s = 0.7
            case "stuck":
                sending.gate = asyncio.Event()
            case "fine":
                sending.delay_s = 0.0
                if sending.gate is not None:
                    sending.gate.set()
                sending.gate = None


# What must hold.


def check(seen: Seen) -> None:
    """Everything that must hold, however it went."""
    assert seen.loop_errors == []
    assert seen.tasks_left == 0
    assert seen.ended
    assert seen.closed_in_s <= CLOSING_S + 0.01  # virtual time adds up with rounding errors
    assert seen.plugin is None or seen.plugin.after_runs == 1
    check_store(seen)
    check_items(seen)
    check_responses(seen)
    check_calls(seen)
    check_sends(seen)
    check_words(seen)
    check_answers(seen)


def check_answers(seen: Seen) -> None:
    """No model gets an answer to a call that it did not make; one connection is closed before the next is opened."""
    for connection in seen.model.connections:
        asked = {call.id for message in connection.taken if isinstance(message, ToolCalls) for call in message.calls}
        assert {answer.id for answer in connection.answers} <= asked


def check_store(seen: Seen) -> None:
    assert [event.seq for event in seen.kept] == list(range(1, len(seen.kept) + 1))
    assert len({event.id for event in seen.kept}) == len(seen.kept)
    assert [event.id for event in seen.kept] == [event.id for event in seen.sessions.stored]
    attempts = Counter(event.id for event in seen.sessions.appends)
    assert set(attempts.values()) <= {1}


def check_items(seen: Seen) -> None:
    shown = [item.event for item in seen.items if isinstance(item, Stored)]
    assert [event.seq for event in shown] == sorted({event.seq for event in shown})
    assert {event.id for event in shown} == {event.id for event in seen.kept}
    fatal = [index for index, item in enumerate(seen.items) if isinstance(item, Failure) and item.fatal]
    assert len(fatal) <= 1
    lost = len(seen.sessions.appends) - len(seen.kept)
    told = [item for item in seen.items if isinstance(item, Failure) and not item.fatal]
    by_sender = [sent for sent in seen.sent if sent.state == "DeliveredNotPersisted"]
    assert lost <= len(told) + len(by_sender)


def check_responses(seen: Seen) -> None:
    started = [item.response for item in seen.items if isinstance(item, ResponseStarted)]
    ended = [item.response for item in seen.items if isinstance(item, ResponseEnded)]
    assert started == list(range(1, len(started) + 1))
    assert sorted(ended) == started
    place = {item.response: index for index, item in enumerate(seen.items) if isinstance(item, ResponseStarted)}
    for index, item in enumerate(seen.items):
        if isinstance(item, ResponseEnded | AudioChunk):
            assert place[item.response] < index


def check_calls(seen: Seen) -> None:
    called = [call for message in seen.model.taken if isinstance(message, ToolCalls) for call in message.calls]
    started = [item.call for item in seen.items if isinstance(item, ToolStarted)]
    assert len(started) == len(set(started))
    assert set(started) <= {call.id for call in called}
    finished = Counter(item.call for item in seen.items if isinstance(item, ToolFinished) and item.status != "progress")
    names = {call.id: call.name for call in reversed(called)}
    cancelled = {item.call for item in seen.items if isinstance(item, ToolFinished) and item.status == "cancelled"}
    for call, count in finished.items():  # an answer from outside that counted as given may not have arrived: cancelled after all
        assert count <= 1 + (names[call] in FROM_OUTSIDE and call in cancelled)
    answers = Counter(answer.id for answer in seen.model.answers)
    assert all(count <= AT_MOST.get(names[call] or "", 1) for call, count in answers.items())
    recorded = Counter(call.id for event in seen.sessions.appends for call in event.function_calls)
    responded = Counter(response.id for event in seen.sessions.appends for response in event.function_responses)
    assert set(recorded.values()) <= {1}
    for call in started:
        if names[call] in STREAMS:
            check_stream(seen, call)
            continue
        assert responded[call] <= AT_MOST.get(names[call] or "", 1) + (call in cancelled), "too many responses"
        if names[call] not in FROM_OUTSIDE:
            assert finished[call] == 1, "a call without an end"
            assert not (call in cancelled and answers[call]), "a cancelled call was answered"
            assert responded[call] <= 1, "two responses"
        if not seen.troubled and not (seen.plugin and seen.plugin.refused):
            assert recorded[call] == 1, "a call without a record"
            assert names[call] in FROM_OUTSIDE or responded[call] == 1, "a call without a response in the record"


def check_stream(seen: Seen, call: str) -> None:
    """It ended once, and the record says so, last."""
    ends = [item for item in seen.items if isinstance(item, ToolFinished) and item.call == call and item.status != "progress"]
    assert len(ends) == 1
    responses = [response for event in seen.sessions.appends for response in event.function_responses if response.id == call]
    assert not any(response.will_continue is not True for response in responses[:-1])
    if not seen.troubled and not (seen.plugin and seen.plugin.refused):
        assert not responses[-1].will_continue


def check_sends(seen: Seen) -> None:
    by_text = {event.text: event for event in seen.kept if event.author == "user" and event.text and event.input_transcription is None}
    delivered = Counter(seen.model.contents)
    for sent in seen.sent:
        assert delivered[sent.text] <= 1
        kept = by_text.get(sent.text)
        match sent.state:
            case "persisted":
                assert kept is not None
                assert (kept.seq, delivered[sent.text]) == (sent.seq, 1)
            case "DeliveredNotPersisted":
                assert delivered[sent.text] == 1
            case "NotDelivered" | "LiveSessionClosed" | "StorageError":
                assert (kept, delivered[sent.text]) == (None, 0)
            case _:
                assert sent.given_up or sent.state == "DeliveryUnknown"
                assert kept is None or delivered[sent.text] == 1
                if delivered[sent.text] and not seen.troubled and sent.given_up:
                    assert kept is not None, "the model has it, the record does not"


def check_words(seen: Seen) -> None:
    """What the user said is in the record, word by word. (What the model said may have been dropped with an interrupted answer.)"""
    if seen.troubled or (seen.plugin and seen.plugin.refused):
        return
    said = [message.text for message in seen.model.taken if isinstance(message, Transcript) and message.role == "user"]
    whole = "".join(event.input_transcription.text or "" for event in seen.kept if event.input_transcription is not None)
    assert whole == "".join(said)
