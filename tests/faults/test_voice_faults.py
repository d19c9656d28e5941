"""The server with the embedded voice: three callers at once, and callers that are cut off while they speak or listen."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import threading

import pytest

from live_gateway.cli.local_voice import with_live_models
from live_gateway.demo import agent
from live_gateway.runner import Runner
from live_gateway.server.app import create_app
from live_gateway.server.gateway import Gateway
from live_gateway.sessions.memory import InMemorySessionService
from live_gateway.voice.local import LocalVoice, available
from tests.support.running_server import RunningServer
from tests.support.speech_clips import clip, word_errors
from tests.support.spoken_turn import BROKEN, Counting, Footprint, client_of, until
from tests.support.voice_caller import Turn, calling, last_voiced

KILLS = 10
pytestmark = [
    pytest.mark.voice,
    pytest.mark.slow,
    pytest.mark.skipif(not available().ok, reason=str(available())),
    pytest.mark.skipif(sys.platform != "linux", reason="counts file descriptors in /proc"),
]


class House:
    """The demo agent with the embedded voice, and a count of its runs."""

    def __init__(self) -> None:
        LocalVoice.shared().load()
        self.plugin = Counting()
        self.sessions = InMemorySessionService()
        self.runner = Runner(
            app_name="demo",
            agent=with_live_models(agent, None),
            session_service=self.sessions,
            plugins=[self.plugin],
            auto_create_session=True,
        )
        self.app = create_app(self.runner)
        self.gateway: Gateway = self.app.state.gateway

    @property
    def quiet(self) -> bool:
        return not self.gateway.sockets and self.plugin.begun == self.plugin.ended

    async def check_sessions(self) -> None:
        for known in await self.sessions.list(app_name="demo"):
            session = await self.sessions.get(app_name="demo", user_id=known.user_id, session_id=known.id)
            assert [event.seq for event in session.events] == list(range(1, len(session.events) + 1))
            calls = [call.id for event in session.events for call in event.function_calls]
            responses = [response.id for event in session.events for response in event.function_responses]
            assert calls == responses


async def one_turn(port: int) -> Turn:
    command = clip("cmd_goforward").pcm
    async with client_of(port) as client, calling(client) as caller:
        return await caller.ask(command, last_voiced(command))


async def test_three_callers_at_once_are_understood_and_answered() -> None:
    house = House()
    async with RunningServer(house.app) as server, asyncio.TaskGroup() as group:
        turns = [group.create_task(one_turn(server.port)) for _ in range(3)]
    for turn in (task.result() for task in turns):
        assert word_errors("go forward ten meters", turn.heard) == 0
        assert turn.tools == ["move"]
        assert turn.status == "completed"
        assert turn.delay_s < 1.0
    await house.check_sessions()


async def test_callers_killed_while_they_speak_or_listen_leave_nothing_behind() -> None:
    house = House()
    dice = random.Random(7)
    async with RunningServer(house.app) as server:
        await one_turn(server.port)
        assert await until(lambda: house.quiet, 1)
        before = Footprint.now()
        for number in range(KILLS):
            await killed(server.port, dice.random() * 6)
            assert await until(lambda: house.quiet, 1), f"kill {number}"
        assert await until(lambda: Footprint.now().without_threads == before.without_threads, 2), (before, Footprint.now())
        assert threading.active_count() <= before.threads + 2, "workers are made when first needed, and there are three in all"
        assert word_errors("go forward ten meters", (await one_turn(server.port)).heard) == 0
    await house.check_sessions()


async def killed(port: int, after_s: float) -> None:
    command = clip("cmd_goforward").pcm
    async with client_of(port) as client:
        with contextlib.suppress(*BROKEN):
            async with calling(client) as caller, asyncio.TaskGroup() as group:
                asking = group.create_task(caller.ask(command, last_voiced(command)))
                asyncio.get_running_loop().call_later(after_s, client.transport.abort)
                await client.wait_closed()
                asking.cancel()
