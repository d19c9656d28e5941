"""Everything that can happen to a connection to Gemini Live, at every moment, and what is left after it."""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import psutil
import pytest

from live_gateway.content import FunctionResponse, function_calls, function_responses, text_of, user_content
from live_gateway.errors import UpstreamPolicy
from live_gateway.events import USER, Event
from live_gateway.models import gemini_dialer, gemini_reconnect, gemini_traffic
from live_gateway.models.gemini_address import Address
from live_gateway.models.gemini_inbound import GeminiInbound, Inbound
from live_gateway.models.gemini_socket import LinkLost
from live_gateway.models.live import LiveSetup, ToolCalls
from live_gateway.testing import gemini_steps as steps
from live_gateway.testing.fake_gemini import FakeGemini
from live_gateway.testing.gemini_steps import (
    Step,
    call,
    close,
    expect_content,
    expect_setup,
    expect_text,
    expect_tool_response,
    expect_utterance,
    go_away,
    handle,
    hear,
    ready,
    repeat,
    say,
    turn_complete,
    write,
)
from live_gateway.testing.virtual_time import run
from tests.support.fault_proxy import FaultProxy, Faults
from tests.support.gemini import brief, connected, gemini_model, kind, notice, take, told, written
from tests.support.live import go_live, live_runner, stored

# The matrix: four signals, four moments.

FRESH = expect_setup(lambda setup: setup["sessionResumption"] == {})
RESUMED = expect_setup(sessionResumption__handle="h1")
CHECK: list[Step] = [expect_text("still there?"), write("yes")]
ANSWERED = '`f` answered: {"result":7}'


@dataclass(frozen=True)
class Cell:
    """first, second: scripts of the connection that has the fault, and of the one after it. error: what opening raises instead."""

    first: Sequence[Step]
    second: Sequence[Step] = ()
    error: type[Exception] | None = None


SEEDED = [expect_content(turn_complete=False)]
IDLE: list[Step] = [*SEEDED, handle("h1")]
MID_TURN: list[Step] = [*IDLE, expect_text("go"), handle(None), write("half", complete=False)]
MID_TOOL: list[Step] = [*IDLE, expect_text("go"), handle(None), call("f")]
TOLD: list[Step] = [FRESH, ready(), *SEEDED, expect_content(lambda value: steps.text_of(value) == ANSWERED), write("seven"), *CHECK]

MATRIX: dict[tuple[str, str], Cell] = {
    ("goAway", "set-up"): Cell([expect_setup(), ready(), go_away(50), *SEEDED], [FRESH, ready(), *SEEDED, *CHECK]),
    ("1007", "set-up"): Cell([expect_setup(), close(1007)], error=UpstreamPolicy),
    ("1008", "set-up"): Cell([expect_setup(), close(1008)], error=UpstreamPolicy),
    ("1011", "set-up"): Cell([expect_setup(), close(1011)], [FRESH, ready(), *SEEDED, *CHECK]),
    ("goAway", "idle"): Cell([*IDLE, go_away(50)], [RESUMED, ready(), *CHECK]),
    ("1007", "idle"): Cell([*IDLE, close(1007)], [FRESH, ready(), *SEEDED, *CHECK]),
    ("1008", "idle"): Cell([*IDLE, close(1008)], [RESUMED, ready(), *CHECK]),
    ("1011", "idle"): Cell([*IDLE, close(1011)], [RESUMED, ready(), *CHECK]),
    ("goAway", "mid-turn"): Cell([*MID_TURN, go_away(50), turn_complete(), handle("h1")], [RESUMED, ready(), *CHECK]),
    ("1007", "mid-turn"): Cell([*MID_TURN, close(1007)], [FRESH, ready(), *SEEDED, *CHECK]),
    ("1008", "mid-turn"): Cell([*MID_TURN, close(1008)], [RESUMED, ready(), *CHECK]),
    ("1011", "mid-turn"): Cell([*MID_TURN, close(1011)], [RESUMED, ready(), *CHECK]),
    ("goAway", "mid-tool"): Cell(
        [*MID_TOOL, go_away(50), expect_tool_response("fc-1"), write("seven"), handle("h1")], [RESUMED, ready(), *CHECK]
    ),
    ("1007", "mid-tool"): Cell([*MID_TOOL, close(1007)], TOLD),
    ("1008", "mid-tool"): Cell([*MID_TOOL, close(1008)], TOLD),
    ("1011", "mid-tool"): Cell([*MID_TOOL, close(1011)], TOLD),
}


# contract: LIVE-19
# report: A11
# report: A17
@pytest.mark.parametrize(("signal", "moment"), MATRIX)
async def test_each_signal_at_each_moment(signal: str, moment: str) -> None:
    cell = MATRIX[signal, moment]
    scripts = [cell.first] if cell.error else [cell.first, cell.second]
    async with FakeGemini(*scripts) as gemini:
        if cell.error is not None:
            with pytest.raises(cell.error):
                async with connected(gemini_model(gemini), told("q", "a")):
                    pass
            return
        async with connected(gemini_model(gemini), told("q", "a")) as connection:
            if moment in ("mid-turn", "mid-tool"):
                await connection.send_content(user_content("go"))
            if moment == "mid-tool":
                await take(connection, kind(ToolCalls))
                await connection.send_tool_responses([FunctionResponse(id="fc-1", name="f", response={"result": 7})])
            if (signal, moment) != ("1011", "set-up"):
                await take(connection, notice("upstream_resumed"))
            await connection.send_content(user_content("still there?"))
            await take(connection, written("yes"))


# The cut, at every place of a recorded turn.

OFFSETS = 100
AT_ONCE = 10
TURN: list[Step] = [
    expect_text("go"),
    handle(None),
    hear("go on"),
    say("I will look.", ms=400, complete=False),
    call("look"),
    expect_tool_response("fc-1"),
    say("It is seven.", ms=600),
    handle("h1"),
]
AFTER: list[Step] = [
    repeat(expect_utterance(), write("yes")),
]
ANYTHING: tuple[Any, ...] = ("audio", "video", "text", "content", "tool_response", "activity_start", "activity_end", "audio_end")


async def one_cut(cut_after: int | None, how: Literal["fin", "rst", "stall"]) -> tuple[int, list[Event], int, int]:
    """One session whose first connection is cut after so many bytes: bytes passed, events stored, dials, how often the tool ran."""
    runs = 0

    def look() -> int:
        """Look."""
        nonlocal runs
        runs += 1
        return 7

    async with FakeGemini([*TURN, *AFTER], AFTER, allow=ANYTHING, again=True, strict=False) as gemini:
        async with FaultProxy(gemini.port, Faults(cut_after=cut_after, how=how)) as proxy:
            model = gemini_model(port=proxy.port, stalled_after_s=0.4, setup_s=0.5)
            runner = live_runner(model, tools=[look])
            async with asyncio.timeout(10), go_live(runner) as live, asyncio.TaskGroup() as group:
                said: list[str] = []
                heard = asyncio.Event()
                listener = group.create_task(listen(live, said, heard))
                await live.send(user_content("go"))
                await until(heard, lambda: bool(said))
                began = asyncio.get_running_loop().time()
                said.clear()
                await live.send(user_content("again"))
                await until(heard, lambda: "yes" in said)
                assert asyncio.get_running_loop().time() - began < 5
                listener.cancel()
            events = await stored(runner)
        assert not gemini.problems
        assert not [problem for connection in gemini.connections for problem in connection.problems], (
            "nothing that the service would refuse"
        )
        return proxy.passed, events, gemini.dials, runs


async def listen(live: Any, said: list[str], heard: asyncio.Event) -> None:
    async for event in live:
        if event.turn_complete:
            said.append("done")
        elif text_of(event.content) and event.author != USER:
            said.append(text_of(event.content))
        heard.set()


async def until(heard: asyncio.Event, done: Callable[[], bool]) -> None:
    while not done():
        heard.clear()
        await heard.wait()


# contract: LIVE-17, LIVE-19
# report: A34
@pytest.mark.slow
@pytest.mark.parametrize("how", ["fin", "rst", "stall"])
async def test_a_cut_at_each_place_of_a_turn_loses_and_doubles_nothing(how: Literal["fin", "rst", "stall"]) -> None:
    total, _, _, _ = await one_cut(None, how)
    places = [1 + total * index // OFFSETS for index in range(OFFSETS)]
    cut_short = 0
    for batch in [places[begin : begin + AT_ONCE] for begin in range(0, OFFSETS, AT_ONCE)]:
        async with asyncio.TaskGroup() as group:
            cuts = [group.create_task(one_cut(place, how)) for place in batch]
        for place, cut in zip(batch, cuts, strict=True):
            check(cut.result(), f"{how} after {place} bytes of {total}")
            cut_short += cut.result()[2] > 1
    assert cut_short >= OFFSETS - 5, "the faults did happen"


def check(result: tuple[int, list[Event], int, int], where: str) -> None:
    _, events, dials, runs = result
    assert dials <= 9, where
    assert [event.seq for event in events] == list(range(1, len(events) + 1)), where
    typed = [event.text for event in events if event.author == USER and event.content is not None and not function_responses(event.content)]
    assert typed == ["go", "again"], where
    calls = [called.id for event in events for called in function_calls(event.content)]
    answers = [answer.id for event in events for answer in function_responses(event.content)]
    assert calls == answers, where
    assert len(calls) == len(set(calls)) == runs, where


# Two hundred reconnects, and an hour.


# contract: LIVE-19
@pytest.mark.slow
async def test_two_hundred_reconnects_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemini_reconnect, "REFILLED_AFTER_S", 0.0)
    monkeypatch.setattr(gemini_reconnect, "FIRST_WAIT_S", 0.0)
    monkeypatch.setattr(gemini_traffic, "LATE_WORDS_S", 0.0)
    process = psutil.Process()
    scripts: list[list[Step]] = []
    for number in range(200):
        end: Step = (steps.drop("fin"), steps.drop("rst"), close(1011), go_away(50))[number % 4]
        scripts.append([expect_text(str(number)), write("a"), handle(f"h{number}"), end])
    async with FakeGemini(*scripts, [write("last")]) as gemini, asyncio.timeout(60):
        sizes = []
        async with connected(gemini_model(gemini)) as connection:
            for number in range(200):
                await connection.send_content(user_content(str(number)))
                await take(connection, notice("upstream_resumed"))
                if number in (20, 199):
                    gc.collect()
                    sizes.append((len(asyncio.all_tasks()), process.num_fds(), _traced()))
            await take(connection, written("last"))
        tasks_after = len(asyncio.all_tasks())
    assert gemini.dials == 201
    (tasks_then, files_then, memory_then), (tasks_now, files_now, memory_now) = sizes
    assert tasks_now <= tasks_then
    assert tasks_after <= tasks_then
    assert files_now <= files_then + 1
    per_reconnect = (memory_now - memory_then) / 179
    assert per_reconnect < 4096, "what the server of the test keeps of each connection, and no more"


def _traced() -> int:
    if not tracemalloc.is_tracing():
        tracemalloc.start()
    traced: int = sum(
        stat.size
        for stat in tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*models/gemini*")]).statistics("filename")
    )
    return traced


class MemoryLink:
    """A connection without a socket, for virtual time: a turn every ten seconds, a new handle after each."""

    count = 0
    closed = 0
    last = ""

    def __init__(self) -> None:
        self.early: list[Inbound] = []
        MemoryLink.count += 1
        self._number = MemoryLink.count
        self._turn = 0
        self._frames: list[bytes] = []
        self._open = True

    @classmethod
    async def open(cls, address: Address, setup: bytes, inbound: GeminiInbound, **options: Any) -> MemoryLink:
        assert cls.count == cls.closed, "the old one is closed before the new one is dialled"
        wanted = json.loads(setup)["setup"]["sessionResumption"]
        assert wanted.get("handle") == (None if cls.count == 0 else cls.last)
        return cls()

    async def receive(self) -> bytes:
        if not self._open:
            raise LinkLost(gemini_reconnect.Loss("closed", 1000))
        if not self._frames:
            await asyncio.sleep(10)
            self._turn += 1
            MemoryLink.last = f"h-{self._number}-{self._turn}"
            audio = steps.audio_frame(b"\x01\x00" * 960)
            update = {"sessionResumptionUpdate": {"newHandle": MemoryLink.last, "resumable": True}}
            turn = [
                {"serverContent": {"outputTranscription": {"text": "words "}}},
                *[audio] * 50,
                {"serverContent": {"turnComplete": True}},
            ]
            self._frames = [json.dumps(frame).encode() for frame in reversed([*turn, update])]
        return self._frames.pop()

    async def send(self, message: bytes) -> None:
        assert self._open

    def abort(self) -> None:
        self._open = False

    async def close(self) -> None:
        if self._open:
            self._open = False
            MemoryLink.closed += 1


# contract: LIVE-19
def test_an_hour_of_a_call_is_a_few_rotations_and_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemini_dialer, "Link", MemoryLink)
    MemoryLink.count = MemoryLink.closed = 0
    MemoryLink.last = ""
    sizes: list[int] = []

    async def hour() -> set[str]:
        loop = asyncio.get_running_loop()
        odd: set[str] = set()
        async with connected(gemini_model(port=1), LiveSetup()) as connection:
            while loop.time() < 3600:
                message = await connection.receive()
                assert message is not None
                odd |= set(brief([message]))
                await connection.send_audio(b"\x01\x00" * 640)
                if not sizes and loop.time() > 600:
                    sizes.append(_traced())
            sizes.append(_traced())
        return odd

    assert run(hour()) == {"out words ", "AudioOut", "TurnComplete", "upstream_resumed"}
    assert MemoryLink.count == 7, "every nine minutes"
    assert MemoryLink.count == MemoryLink.closed
    assert sizes[1] - sizes[0] < 20_000
