"""How long a live connection may last. On virtual time."""

from __future__ import annotations

import asyncio

import pytest

from live_gateway.server.gateway import Ending, ServerConfig
from live_gateway.server.live_socket import LiveSocket
from live_gateway.testing.scripted_live import ScriptedLiveModel
from tests.support.asgi_client import AsgiClient
from tests.support.live_app import app_of, welcomed

pytestmark = pytest.mark.virtual_time


# report: A19
async def test_a_connection_is_warned_a_minute_before_and_ended_as_planned() -> None:
    with ScriptedLiveModel([]) as scripted:
        async with AsgiClient(app_of(scripted, ServerConfig(duration_s=600))) as client:
            await welcomed(client)
            loop = asyncio.get_running_loop()
            began = loop.time()
            await asyncio.sleep(539)
            near = await client.until("notice")
            assert (near["level"], near["code"], near["params"]) == ("warning", "duration_limit_near", {"left_s": 60})
            assert loop.time() - began == pytest.approx(540, abs=1)
            await asyncio.sleep(59)
            frames, closed = await client.rest()
            assert loop.time() - began == pytest.approx(600, abs=1)
            last = frames[-1]
            assert isinstance(last, dict)
            assert (last["type"], last["code"], last["fatal"], last["retryable"]) == ("error", "duration_limit", True, False)
            assert (closed.code, closed.reason) == (4511, "duration_limit")
        assert asyncio.all_tasks() == {asyncio.current_task()}


# report: A19
async def test_a_conversation_that_ends_before_leaves_no_timer_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[str] = []
    end = LiveSocket.end

    def noted(self: LiveSocket, ending: Ending) -> None:
        ends.append(ending.word)
        end(self, ending)

    monkeypatch.setattr(LiveSocket, "end", noted)
    with ScriptedLiveModel([]) as scripted:
        async with AsgiClient(app_of(scripted, ServerConfig(duration_s=30))) as client:
            await welcomed(client)
            assert (await client.until("notice"))["params"] == {"left_s": 30}, "a limit below a minute is announced at once"
            client.say("bye")
            _, closed = await client.rest()
            assert closed.code == 1000
        await asyncio.sleep(60)
    assert "duration_limit" not in ends
