"""Many clients at once, one of them slow, and a store that hangs: each gets what is its own, when it is due."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection

from live_gateway.live.items import LiveItem
from live_gateway.live.mailbox import AUDIO_LIMIT_SAMPLES, Mailbox
from live_gateway.models.live import OUTPUT_HZ, AudioOut
from live_gateway.server.gateway import Ending, ServerConfig
from live_gateway.server.live_socket import LiveSocket
from live_gateway.server.wire import SERVER_KINDS, Frame, unpack_frame
from live_gateway.sessions.memory import InMemorySessionService
from live_gateway.testing import FaultySessionService, VirtualTimeLoop
from tests.support.asgi_client import AsgiClient
from tests.support.fault_proxy import FaultProxy, Faults
from tests.support.loop_lag import LoopLag
from tests.support.puppet_model import PuppetConnection
from tests.support.running_server import RunningServer
from tests.support.spoken_turn import (
    ANSWER_MS,
    CHUNK,
    FRAMES,
    Footprint,
    House,
    TurnModel,
    audio_frame,
    client_of,
    until,
)

SESSIONS = 50
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts file descriptors in /proc")


class Caller:
    """A client that takes turns. audio: the frames of each answer. delays_s: from its last word to the first audio."""

    def __init__(self, port: int, session: str) -> None:
        self.audio: dict[int, list[Frame]] = {}
        self.seqs: list[int] = []
        self.delays_s: list[float] = []
        self._port = port
        self._session = session
        self._spoke_at: float | None = None
        self._ended = asyncio.Event()

    async def run(self, turns: int, pace_s: float = 0.02) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(60), client_of(self._port) as client, asyncio.TaskGroup() as group:
            await client.send(json.dumps({"type": "hello", "v": 1, "session": self._session, "caps": []}))
            listening = group.create_task(self._listen(client))
            for turn in range(turns):
                for number in range(FRAMES):
                    await client.send(audio_frame(turn * FRAMES + number))
                    await asyncio.sleep(pace_s)
                self._spoke_at = loop.time()
                await self._ended.wait()
                self._ended.clear()
            listening.cancel()

    async def _listen(self, client: Any) -> None:
        async for data in client:
            if isinstance(data, bytes):
                frame = unpack_frame(data, SERVER_KINDS)
                if frame.stream not in self.audio and self._spoke_at is not None:
                    self.delays_s.append(asyncio.get_running_loop().time() - self._spoke_at)
                self.audio.setdefault(frame.stream, []).append(frame)
                continue
            message = json.loads(data)
            if "seq" in message:
                self.seqs.append(message["seq"])
            if message["type"] == "response.audio.end":
                self._ended.set()

    def check(self, turns: int) -> None:
        """Everything came, once and in order."""
        assert sorted(self.audio) == list(range(1, turns + 1))
        for frames in self.audio.values():
            assert all(after.pos == before.pos + len(before.payload) // 2 for before, after in pairwise(frames))
            assert sum(len(frame.payload) for frame in frames) == 48 * ANSWER_MS
        assert self.seqs == sorted(self.seqs)
        assert self.seqs[0] == 1


async def test_fifty_sessions_at_once_get_what_is_theirs() -> None:
    lag = LoopLag()
    house = House(TurnModel(), around=lag.watch)
    async with RunningServer(house.app) as server:
        await warm_up(server.port, house)
        before = Footprint.now()
        lag.forget()
        callers = [Caller(server.port, f"s-{number}") for number in range(SESSIONS)]
        async with asyncio.TaskGroup() as group:
            for caller in callers:
                group.create_task(caller.run(2))
        assert await until(lambda: house.quiet, 2)
        assert await until(lambda: Footprint.now() == before, 2), (before, Footprint.now())
    for caller in callers:
        caller.check(2)
    assert await house.check_sessions() > SESSIONS
    assert len(house.model.connections) == SESSIONS + 1


async def warm_up(port: int, house: House) -> None:
    await Caller(port, "warm-up").run(1, 0)
    assert await until(lambda: house.quiet, 2)


async def test_a_client_that_takes_nothing_is_dropped_and_nobody_else_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its line is stalled with 300 s of voice under way to it: what waits is bounded, it is ended with 4002, the others are not slower."""
    endings, most = Endings(monkeypatch), Most(monkeypatch)
    house = House(TurnModel(), config=ServerConfig(send_s=1.0))
    async with RunningServer(house.app) as server:
        await warm_up(server.port, house)
        before = Footprint.now()
        callers = [Caller(server.port, f"s-{number}") for number in range(5)]
        async with (
            FaultProxy(server.port, Faults(cut_after=30_000, how="stall", buffer_bytes=131_072)) as proxy,
            welcomed(proxy.port, house) as (_, connection),
            asyncio.TaskGroup() as group,
        ):
            slow = group.create_task(given_up(connection))
            for caller in callers:
                group.create_task(caller.run(2))
        assert slow.result() < 4.0
        assert 4002 in endings.codes
        assert 20 * OUTPUT_HZ < most.waiting <= AUDIO_LIMIT_SAMPLES
        assert await until(lambda: house.quiet, 2)
        assert await until(lambda: Footprint.now() == before, 2), (before, Footprint.now())
    for caller in callers:
        caller.check(2)
        assert max(caller.delays_s) < 0.5


class Endings:
    """The codes with which connections were ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.codes: list[int] = []
        end = LiveSocket.end

        def watched(socket: LiveSocket, ending: Ending) -> None:
            self.codes.append(ending.code)
            end(socket, ending)

        monkeypatch.setattr(LiveSocket, "end", watched)


class Most:
    """The most audio that ever waited in a mailbox, in samples."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waiting = 0
        put = Mailbox.put

        def watched(mailbox: Mailbox, item: LiveItem, now: float) -> None:
            put(mailbox, item, now)
            self.waiting = max(self.waiting, mailbox.waiting_samples)

        monkeypatch.setattr(Mailbox, "put", watched)


@asynccontextmanager
async def welcomed(port: int, house: House) -> AsyncIterator[tuple[ClientConnection, PuppetConnection]]:
    """A client that was welcomed, and its connection to the model."""
    async with client_of(port) as client:
        await client.send(json.dumps({"type": "hello", "v": 1}))
        while '"welcome"' not in str(await client.recv()):
            continue
        yield client, house.model.connection


async def given_up(connection: PuppetConnection) -> float:
    """Let the model talk a lot to a client that takes nothing; how long it took until the server gave it up."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for _ in range(30):  # 300 s of voice: 14 MB
        connection.say(*(AudioOut(bytes(1920)) for _ in range(250)))
        await asyncio.sleep(0)
    assert await until(lambda: connection.left_at is not None, 20)
    return loop.time() - began


@pytest.mark.slow
async def test_a_client_on_a_thin_line_is_dropped_and_nobody_else_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 kbit/s carry a sixth of the voice: it falls behind until one piece has waited for ten seconds."""
    endings, most = Endings(monkeypatch), Most(monkeypatch)
    house = House(TurnModel())
    async with RunningServer(house.app) as server, FaultProxy(server.port, Faults(bytes_per_s=8_000, buffer_bytes=131_072)) as proxy:
        await warm_up(server.port, house)
        callers = [Caller(server.port, f"s-{number}") for number in range(5)]
        async with welcomed(proxy.port, house) as (_, connection), asyncio.TaskGroup() as group:
            thin = group.create_task(given_up(connection))
            for caller in callers:
                group.create_task(caller.run(5))
        assert thin.result() < 30
        assert 4002 in endings.codes
        assert most.waiting <= AUDIO_LIMIT_SAMPLES
        proxy.break_all()
        assert await until(lambda: house.quiet, 2)
    for caller in callers:
        caller.check(5)
        assert max(caller.delays_s) < 0.5


# contract: LIVE-12
@pytest.mark.virtual_time
async def test_audio_comes_on_time_while_the_store_hangs_for_five_seconds() -> None:
    sessions = FaultySessionService(InMemorySessionService())
    model = TurnModel()
    house = House(model, sessions=sessions)
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    gate = asyncio.Event()
    async with AsgiClient(house.app) as client:
        client.say("hello", v=1, session="s-1")
        await client.until("welcome")
        sessions.block_appends(gate)
        loop.call_later(5.0, gate.set)
        blocked_at = loop.time()
        for number in range(FRAMES):
            client.audio(CHUNK, pos=number * 640)
        said_at = loop.time()
        heard = 0
        types: list[str] = []
        while heard < 48 * ANSWER_MS:
            frame = await client.receive()
            if isinstance(frame, bytes):
                heard += len(frame) - 24
                assert loop.time() - said_at <= 0.02
            else:
                types.append(frame["type"])
                assert "seq" not in frame
        assert {"tool.call", "tool.update", "transcript", "response.start"} <= set(types)
        stored = await client.until("transcript", final=True)
        assert loop.time() - blocked_at == pytest.approx(5.0, abs=0.1)
        assert stored["seq"] == 1
    assert await house.check_sessions() > 3


@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_everybody_breaks_off_at_once(how: Any) -> None:
    house = House(TurnModel())
    async with RunningServer(house.app) as server, FaultProxy(server.port) as proxy:
        await warm_up(server.port, house)
        before = Footprint.now()
        async with asyncio.TaskGroup() as group:
            for number in range(SESSIONS):
                group.create_task(until_broken(proxy.port, f"s-{number}"))
            assert await until(lambda: len(house.gateway.sockets) == SESSIONS, 10)
            await asyncio.sleep(0.3)
            proxy.break_all(how)
        assert await until(lambda: house.quiet, 1)
        assert await until(lambda: Footprint.now() == before, 2), (before, Footprint.now())
    assert await house.check_sessions() >= 0


async def until_broken(port: int, session: str) -> None:
    with contextlib.suppress(BaseExceptionGroup):
        await Caller(port, session).run(100)
