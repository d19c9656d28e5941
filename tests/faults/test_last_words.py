"""A connection that ends while there is more to say than the client takes: it is told why, and the code is that of the reason."""

from __future__ import annotations

import asyncio

import pytest

from live_gateway.content import user_content
from live_gateway.errors import UpstreamLost
from live_gateway.live import mailbox
from live_gateway.models.live import ContentOut, SpeechEnded, SpeechStarted, Transcript
from live_gateway.sessions.memory import InMemorySessionService
from live_gateway.testing import FaultySessionService
from tests.support.asgi_client import AsgiClient
from tests.support.puppet_model import PuppetModel
from tests.support.spoken_turn import House

pytestmark = pytest.mark.virtual_time


async def test_more_than_a_client_may_leave_waiting_is_4002(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "MAX_CONTROL", 50)
    house = House(PuppetModel())
    async with AsgiClient(house.app) as client:
        client.say("hello", v=1)
        await client.until("welcome")
        for _ in range(60):
            house.model.connection.say(SpeechStarted(), SpeechEnded())
        began = asyncio.get_running_loop().time()
        frames, closed = await client.rest()
        assert asyncio.get_running_loop().time() - began < 2
    assert isinstance(frames[-1], dict)
    assert (frames[-1]["type"], frames[-1]["code"], frames[-1]["fatal"]) == ("error", "slow_consumer", True)
    assert (closed.code, closed.reason) == (4002, "slow_consumer")
    assert house.quiet


async def test_a_session_that_fails_while_its_client_is_slow_ends_for_its_own_reason() -> None:
    house = House(PuppetModel())
    async with AsgiClient(house.app) as client:
        client.say("hello", v=1)
        await client.until("welcome")
        connection = house.model.connection
        connection.say(Transcript("user", "half a word"))
        connection.fail(UpstreamLost("gone"))
        client.stop_reading()
        asyncio.get_running_loop().call_later(5.0, client._reading.set)
        frames, closed = await client.rest()
    finals = [frame for frame in frames if isinstance(frame, dict) and frame.get("final")]
    assert [frame["text"] for frame in finals] == ["half a word"]
    assert isinstance(frames[-1], dict)
    assert (frames[-1]["code"], frames[-1]["fatal"]) == ("upstream_lost", True)
    assert (closed.code, closed.reason) == (4000, "upstream_lost")
    assert house.quiet


# contract: LIVE-25
async def test_a_store_that_does_not_give_back_what_waited_for_a_client_is_4004(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "MAX_STORED", 3)
    sessions = FaultySessionService(InMemorySessionService())
    house = House(PuppetModel(), sessions=sessions)
    async with AsgiClient(house.app) as client:
        client.say("hello", v=1)
        await client.until("welcome")
        client.stop_reading()
        for number in range(8):
            house.model.connection.say(ContentOut(user_content(f"picture {number}")))
        await asyncio.sleep(1)
        sessions.break_down()
        client._reading.set()
        frames, closed = await client.rest()
    assert isinstance(frames[-1], dict)
    assert (frames[-1]["code"], frames[-1]["fatal"]) == ("storage_unavailable", True)
    assert closed.code == 4004
    assert house.quiet
