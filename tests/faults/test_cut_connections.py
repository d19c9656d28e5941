"""A spoken turn over real sockets, cut at a hundred points and killed at random moments: nothing is left behind, nothing stored is torn.

`LIVE_GATEWAY_FAULTS=all` cuts at 100 points and kills 190 clients; without it, at 25 points and 40 clients.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import sys
from collections.abc import AsyncIterator

import pytest

from live_gateway.clock import SystemClock
from tests.support.fault_proxy import FaultProxy, Faults
from tests.support.running_server import RunningServer
from tests.support.spoken_turn import BROKEN, Footprint, House, TurnModel, client_of, speak, until

ALL = os.environ.get("LIVE_GATEWAY_FAULTS") == "all"
CUTS = 100 if ALL else 25
KILLS = 190 if ALL else 40

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts file descriptors in /proc")


@pytest.fixture
async def house(caplog: pytest.LogCaptureFixture) -> AsyncIterator[House]:
    """A house whose server never had anything to be ashamed of."""
    loop_errors: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: loop_errors.append(str(context)))
    yield House(TurnModel())
    assert loop_errors == []
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


async def length_of_a_turn(server: RunningServer, *, up: bool) -> int:
    """Bytes that one whole turn sends in this direction."""
    async with FaultProxy(server.port, Faults(up=up)) as proxy:
        async with client_of(proxy.port) as client:
            messages = await speak(client)
        assert messages[-1]["status"] == "completed"
        return proxy.passed


async def broken_off(port: int, *, session: str | None = None, after_s: float | None = None, patience_s: float = 10) -> None:
    """Talk until the connection breaks, which it must; after_s: break it from here."""
    try:
        async with asyncio.timeout(patience_s), client_of(port) as client:
            if after_s is not None:
                asyncio.get_running_loop().call_later(after_s, client.transport.abort)
            await speak(client, session=session, turns=1000)
    except BROKEN:
        return
    raise AssertionError("the connection did not break")


# case: K-GW-16
async def test_a_turn_cut_anywhere_leaves_nothing_behind(house: House) -> None:
    async with RunningServer(house.app) as server:
        lengths = {up: await length_of_a_turn(server, up=up) for up in (False, True)}
        assert await until(lambda: house.quiet, 1)
        before = Footprint.now()
        ways = [(how, up) for up in (False, True) for how in ("fin", "rst")]
        for number in range(CUTS):
            how, up = ways[number % len(ways)]
            place = 1 + lengths[up] * number // CUTS
            async with FaultProxy(server.port, Faults(cut_after=place, how=how, up=up)) as proxy:  # type: ignore[arg-type]
                await broken_off(proxy.port, session=f"s-{number}")
                assert await until(lambda: house.quiet, 1), f"cut {number}: {how} after {place} bytes {'up' if up else 'down'}"
        assert await until(lambda: Footprint.now() == before, 2), (before, Footprint.now())
        assert house.plugin.begun == house.plugin.ended > CUTS // 4
        assert await house.check_sessions() > CUTS
        async with client_of(server.port) as client:
            assert (await speak(client, session="s-0"))[-1]["status"] == "completed"


# case: K-GW-16
async def test_clients_killed_at_random_moments_leave_nothing_behind(house: House) -> None:
    dice = random.Random(3)
    clock = SystemClock()
    async with RunningServer(house.app) as server:
        began = clock.now()
        async with client_of(server.port) as client:
            await speak(client)
        length_s = clock.now() - began
        assert await until(lambda: house.quiet, 1)
        before = Footprint.now()
        for number in range(KILLS):
            await broken_off(server.port, session=f"s-{number % 7}", after_s=dice.random() * length_s)
            assert await until(lambda: house.quiet, 1), f"kill {number}"
        assert await until(lambda: Footprint.now() == before, 2), (before, Footprint.now())
        assert await house.check_sessions() > KILLS


@pytest.mark.parametrize(
    "faults",
    [Faults(slice_bytes=1), Faults(delay_s=0.01), Faults(bytes_per_s=400_000), Faults(slice_bytes=7, up=True)],
    ids=["one byte at a time", "late", "slow", "seven bytes at a time"],
)
async def test_a_bad_line_changes_nothing_of_what_arrives(house: House, faults: Faults) -> None:
    async with RunningServer(house.app) as server:
        async with client_of(server.port) as client:
            wanted = [message["type"] for message in await speak(client) if message.get("seq")]
        async with FaultProxy(server.port, faults) as proxy, asyncio.timeout(60), client_of(proxy.port) as client:
            messages = await speak(client)
        assert [message["type"] for message in messages if message.get("seq")] == wanted
        assert messages[-1]["status"] == "completed"
        assert await until(lambda: house.quiet, 1)


@pytest.mark.parametrize("up", [False, True], ids=["down", "up"])
async def test_a_line_that_goes_dead_is_given_up(house: House, up: bool) -> None:
    """Neither end is told: the server finds out because pings are not answered."""
    async with RunningServer(house.app) as server:
        server.server.config.ws_ping_interval = server.server.config.ws_ping_timeout = 0.3
        async with FaultProxy(server.port, Faults(cut_after=20_000, how="stall", up=up)) as proxy:
            await broken_off(proxy.port, patience_s=2)
            assert await until(lambda: house.quiet, 5)
