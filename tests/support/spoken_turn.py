"""One spoken turn over real sockets: a model that answers when it has heard enough, and a client that says just that much."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage
from websockets.typing import Subprotocol

from live_gateway.agents.llm import LlmAgent
from live_gateway.content import FunctionCall
from live_gateway.models.live import (
    AudioOut,
    GenerationComplete,
    LiveSetup,
    SpeechEnded,
    SpeechStarted,
    ToolCalls,
    Transcript,
    TurnComplete,
)
from live_gateway.plugins.base import Plugin
from live_gateway.runner import Runner
from live_gateway.server.app import create_app
from live_gateway.server.gateway import Gateway, ServerConfig
from live_gateway.server.wire import SUBPROTOCOL, Codec, Flag, Frame, Kind, pack_frame
from live_gateway.sessions.base import SessionService
from live_gateway.sessions.memory import InMemorySessionService
from tests.support.puppet_model import PuppetConnection, PuppetModel

CHUNK = bytes(1280)
FRAMES = 25
"""A second of speech."""
ANSWER_MS = 1000
BROKEN = (ConnectionClosed, InvalidHandshake, InvalidMessage, OSError, EOFError, TimeoutError)
"""What a client may get when its connection is cut at any point."""


class TurnModel(PuppetModel):
    """Hears a second of speech, calls a tool, and answers with a second of voice; again for every second it hears.

    hearing: set when it has heard the first audio.
    """

    def connect(self, setup: LiveSetup) -> PuppetConnection:
        self.connections.append(TurnConnection(self, setup))
        return self.connection


class TurnConnection(PuppetConnection):
    def __init__(self, model: PuppetModel, setup: LiveSetup) -> None:
        super().__init__(model, setup)
        self._turn = 0
        self._due = 0

    async def send_audio(self, pcm: bytes) -> None:
        await super().send_audio(pcm)
        if self.audio_bytes - len(pcm) == self._due:
            self.say(SpeechStarted(), Transcript("user", "what is "))
        if self.audio_bytes - self._due >= FRAMES * len(CHUNK):
            self._due = self.audio_bytes
            self._turn += 1
            self.say(Transcript("user", "it?", finished=True), SpeechEnded(500))
            self.say(ToolCalls((FunctionCall(id=f"c-{self._turn}", name="look", args={}),)))

    async def send_tool_responses(self, responses: Any) -> None:
        await super().send_tool_responses(responses)
        pcm = b"\x10\x00" * (24 * 40)
        for word in range(ANSWER_MS // 200):
            self.say(Transcript("model", f"word{word} "), *(AudioOut(pcm) for _ in range(5)))
        self.say(GenerationComplete(), TurnComplete())


class Counting(Plugin):
    """How often runs began and ended."""

    def __init__(self) -> None:
        super().__init__("counting")
        self.begun = self.ended = 0

    async def before_run(self, invocation: Any) -> None:
        self.begun += 1

    async def after_run(self, invocation: Any) -> None:
        self.ended += 1


async def look() -> str:
    """Look at it."""
    return "seen"


@dataclass
class House:
    """A server's application and all that it is made of."""

    model: PuppetModel
    plugin: Counting = field(default_factory=Counting)
    sessions: SessionService = field(default_factory=InMemorySessionService)
    config: ServerConfig | None = None
    around: Any = contextlib.nullcontext

    def __post_init__(self) -> None:
        agent = LlmAgent(name="assistant", live_model=self.model, tools=[look])
        self.runner = Runner(app_name="demo", agent=agent, session_service=self.sessions, plugins=[self.plugin], auto_create_session=True)
        self.app: Starlette = create_app(self.runner, self.config, around=self.around)
        self.gateway: Gateway = self.app.state.gateway

    async def check_sessions(self) -> int:
        """That every session is stored without a hole; how many events there are in all."""
        count = 0
        for known in await self.sessions.list(app_name="demo"):
            session = await self.sessions.get(app_name="demo", user_id=known.user_id, session_id=known.id)
            assert [event.seq for event in session.events] == list(range(1, len(session.events) + 1))
            calls = [call.id for event in session.events for call in event.function_calls]
            responses = [response.id for event in session.events for response in event.function_responses]
            assert calls == responses
            count += len(session.events)
        return count

    @property
    def quiet(self) -> bool:
        """Whether no socket, no run and no connection to the model is left."""
        return (
            not self.gateway.sockets
            and self.plugin.begun == self.plugin.ended
            and all(connection.left_at is not None for connection in self.model.connections)
        )


@asynccontextmanager
async def client_of(port: int) -> AsyncIterator[ClientConnection]:
    async with connect(
        f"ws://127.0.0.1:{port}/live",
        subprotocols=[Subprotocol(SUBPROTOCOL)],
        compression=None,
        max_size=None,
        open_timeout=10,
        close_timeout=0.2,
        proxy=None,
    ) as client:
        yield client


def audio_frame(number: int, pcm: bytes = CHUNK) -> bytes:
    return pack_frame(Frame(Kind.AUDIO_UP, Flag.NONE, Codec.PCM16, 1, number, number * len(pcm) // 2, 0.0, pcm))


async def speak(client: ClientConnection, *, session: str | None = None, pace_s: float = 0.0, turns: int = 1) -> list[dict[str, Any]]:
    """Take turns, and read until the answers are complete: the messages. Raises whatever the connection raises."""
    hello: dict[str, Any] = {"type": "hello", "v": 1, "caps": ["playback", "events"]}
    await client.send(json.dumps(hello if session is None else hello | {"session": session}))
    messages: list[dict[str, Any]] = []
    number = 0
    for _ in range(turns):
        for _ in range(FRAMES):
            await client.send(audio_frame(number))
            number += 1
            if pace_s:
                await asyncio.sleep(pace_s)
        messages += await _answered(client)
    return messages


async def _answered(client: ClientConnection) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    samples = 0
    while True:
        frame = await client.recv()
        if isinstance(frame, bytes):
            samples += (len(frame) - 24) // 2
            continue
        message: dict[str, Any] = json.loads(frame)
        messages.append(message)
        if message["type"] == "response.audio.end":
            mark = {"type": "playback", "event": "drained", "response": message["response"], "played": samples, "heard": samples}
            await client.send(json.dumps(mark))
        if message["type"] == "response.end":
            return messages


@dataclass(frozen=True)
class Footprint:
    """What this process holds: tasks of the loop, threads, file descriptors (sockets among them)."""

    tasks: int
    threads: int
    descriptors: int

    @property
    def without_threads(self) -> tuple[int, int]:
        """For where threads are made when they are first needed."""
        return self.tasks, self.descriptors

    @classmethod
    def now(cls) -> Footprint:
        gc.collect()
        return cls(len(asyncio.all_tasks()), threading.active_count(), len(list(Path("/proc/self/fd").iterdir())))


async def until(condition: Any, within_s: float) -> bool:
    """Whether it comes true in time; looked at every 5 ms, since nobody announces it."""
    loop = asyncio.get_running_loop()
    end = loop.time() + within_s
    while not condition():
        if loop.time() > end:
            return False
        await asyncio.sleep(0.005)
    return True
