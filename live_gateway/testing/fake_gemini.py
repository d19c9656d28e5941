"""A Gemini Live server on this machine that plays a script, and is strict about it.

It speaks `BidiGenerateContent` over a real WebSocket, so whatever talks to the service talks to it: this package's `GeminiLiveModel`
(`base_url=gemini.base_url`), and the vendor's SDK (with `tls=True`, since it insists). Each connection gets the next script. A message
that the service would refuse, one that the script does not expect, and a step that is left when the connection has ended are problems:
the client is closed with 1007, and leaving the block raises `AssertionError` with the whole script, done and left.

    async with FakeGemini([expect_text("hello"), say("Hi!")]) as gemini:
        model = GeminiLiveModel("gemini-live", api_key="any", base_url=gemini.base_url)
        ...
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import json
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from live_gateway.channel import Channel, ChannelClosed
from live_gateway.testing.gemini_client_wire import Sent, Unacceptable, declared, parse, sample
from live_gateway.testing.gemini_steps import (
    CallDeclared,
    Echo,
    Expect,
    Fault,
    Framing,
    Pause,
    Repeat,
    SayUntilInterrupted,
    Send,
    SentKind,
    Stall,
    Step,
    Wait,
    audio_frame,
    expect_setup,
    ready,
)

MAX_INBOX: Final = 100_000
LOUD: Final = 500
"""Peak of int16 samples from which on audio counts as speech."""
SILENCE_S: Final = 0.5
CHUNK_S: Final = 0.04


class _Deviation(Exception):
    """The client did what the script does not say."""


class FakeGemini:
    """One script for each connection. `again`: the last script is played to every later connection too.

    strict: whether leaving the block verifies it; for faults at random places it cannot be.
    allow: kinds of messages that are taken at any time and need not be in the script (`"audio"` for a microphone that is just on).
    connections: what came, oldest first; a refused one too. most_open: how many were open at once. handshakes: how many were begun.
    """

    def __init__(
        self,
        *scripts: Sequence[Step],
        allow: Collection[SentKind] = (),
        again: bool = False,
        strict: bool = True,
        tls: bool = False,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self._scripts = [_with_setup(script) for script in scripts]
        self._allow = frozenset(allow)
        self._again = again
        self._strict = strict
        self._host, self._port = host, port
        self._server: Server | None = None
        self._contexts: tuple[ssl.SSLContext, ssl.SSLContext] | None = None
        if tls:
            from live_gateway.testing.certificates import loopback_tls

            self._contexts = loopback_tls()
        self.connections: list[FakeGeminiConnection] = []
        self.refused = 0
        self.most_open = 0
        self.problems: list[str] = []
        self._calls: set[str] = set()
        self._changed = asyncio.Event()

    @property
    def base_url(self) -> str:
        """Where it listens."""
        return f"{'https' if self._contexts else 'http'}://{self._host}:{self.port}"

    @property
    def port(self) -> int:
        """The port that it listens on."""
        assert self._server is not None, "the server is not running: use `async with`"
        port: int = next(iter(self._server.sockets)).getsockname()[1]
        return port

    @property
    def client_tls(self) -> ssl.SSLContext:
        """For a client: trusts this server. Only with `tls=True`."""
        assert self._contexts is not None
        return self._contexts[1]

    @property
    def setups(self) -> list[dict[str, Any]]:
        """The set-up of each connection that sent one."""
        return [connection.setup for connection in self.connections if connection.setup is not None]

    @property
    def dials(self) -> int:
        """How many connections were asked for."""
        return len(self.connections) + self.refused

    def verify(self) -> None:
        """Raise `AssertionError` unless every script was played to its end and nothing else was sent."""
        unplayed = len(self._scripts) - self.dials
        if self.problems or self.refused or unplayed > 0 or any(connection.broken for connection in self.connections):
            raise AssertionError(self._report(unplayed))

    async def __aenter__(self) -> Self:
        self._server = await serve(
            self._serve,
            self._host,
            self._port,
            ssl=self._contexts[0] if self._contexts else None,
            process_request=self._answer_upgrade,
            compression=None,
            ping_interval=None,
            max_size=None,
            close_timeout=0.5,
        )
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._server is not None
        for connection in self.connections:
            connection.stop()
        self._server.close()
        await self._server.wait_closed()
        if error is None and self._strict:
            self.verify()

    async def until(self, done: Callable[[], bool], seconds: float = 5.0) -> None:
        """Wait until this is true; asked again whenever something was sent, played or closed. Raises `AssertionError` after so long."""
        try:
            async with asyncio.timeout(seconds):
                while not done():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(self._report(0)) from None

    async def played(self, scripts: int | None = None, *, seconds: float = 5.0) -> None:
        """Wait until every script, or the first few, was played to its end."""
        count = len(self._scripts) if scripts is None else scripts
        await self.until(lambda: sum(all(connection.done) for connection in self.connections) >= count, seconds)

    def _next_script(self) -> Sequence[Step] | None:
        if len(self.connections) < len(self._scripts):
            return self._scripts[len(self.connections)]
        return self._scripts[-1] if self._again and self._scripts else None

    async def _answer_upgrade(self, connection: ServerConnection, request: Request) -> Response | None:
        script = self._next_script()
        if script is None:
            self.refused += 1
            return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, "no script is left\n")
        number = len(self.connections) + 1
        played = FakeGeminiConnection(script, self._allow, f"connection {number}", request, self._calls, self._changed.set)
        self.connections.append(played)
        connection.played = played  # type: ignore[attr-defined]
        first = script[0]
        if isinstance(first, Fault) and first.kind == "refuse":
            played.done[0] = True
            return connection.respond(HTTPStatus(first.code), f"{first.reason}\n")
        return None

    async def _serve(self, connection: ServerConnection) -> None:
        played: FakeGeminiConnection = connection.played  # type: ignore[attr-defined]
        self.most_open = max(self.most_open, sum(not other.closed for other in self.connections))
        await played.play(connection)
        if played.problems:
            await connection.close(1007, "not as the script says")

    def _report(self, unplayed: int) -> str:
        lines = [*self.problems, *(connection.report() for connection in self.connections)]
        if self.refused:
            lines.append(f"{self.refused} more connections were asked for than there are scripts ({len(self._scripts)})")
        if unplayed > 0:
            lines.append(f"{unplayed} scripts were never connected to")
        return "\n".join(lines)


class FakeGeminiConnection:
    """One connection that plays one script.

    path, headers: of the upgrade. setup: what the client set up. sent: everything that it sent, in order. closed: it is over, and
    closed_with is the close code.
    """

    def __init__(
        self,
        script: Sequence[Step],
        allow: Collection[SentKind],
        title: str,
        request: Request,
        calls: set[str],
        changed: Callable[[], None],
    ) -> None:
        self.path = request.path
        self.headers = dict(request.headers.raw_items())
        self.setup: dict[str, Any] | None = None
        self.sent: list[Sent] = []
        self.problems: list[str] = []
        self.done = [False] * len(script)
        self.closed_with: int | None = None
        self.closed = False
        self._script = script
        self._allow = allow
        self._title = title
        self._calls = calls
        self._changed = changed
        self._inbox: Channel[Sent] = Channel(MAX_INBOX)
        self._binary = True
        self._slow_s = 0.0
        self._heard = bytearray()
        self._gone = asyncio.Event()
        self._socket: ServerConnection

    @property
    def audio(self) -> bytes:
        """All audio that was sent."""
        return b"".join(sent.value for sent in self.sent if sent.kind == "audio")

    @property
    def broken(self) -> bool:
        """Whether something unexpected was sent, or a step was not played (yet)."""
        return bool(self.problems) or not all(self.done)

    def of_kind(self, kind: SentKind) -> list[Any]:
        """The values of everything of one kind that was sent."""
        return [sent.value for sent in self.sent if sent.kind == kind]

    async def ping(self) -> Awaitable[float]:
        """Send a WebSocket ping; awaiting what it gives waits for the answer."""
        return await self._socket.ping()

    def stop(self) -> None:
        """The server stops: whatever waits, goes."""
        self._gone.set()
        with contextlib.suppress(AttributeError):
            self._socket.transport.abort()

    async def play(self, connection: ServerConnection) -> None:
        """Play the script to this client, and then take what is allowed until it leaves."""
        self._socket = connection
        async with asyncio.TaskGroup() as group:
            reader = group.create_task(self._read(), name=f"{self._title} reads")
            try:
                for index, step in enumerate(self._script):
                    await self._step(step)
                    self.done[index] = True
                    self._changed()
                await self._rest()
            except _Deviation as deviation:
                self.problems.append(str(deviation))
            except (ConnectionClosed, ChannelClosed):
                if self._script and isinstance(self._script[-1], Repeat) and all(self.done[:-1]):
                    self.done[-1] = True
            finally:
                reader.cancel()
                self._changed()
        self.closed_with = connection.close_code
        self.closed = True
        self._changed()

    def report(self) -> str:
        """The script with what is done and what is left, what was sent, and what was wrong with it."""
        lines = [f"{self._title}:"]
        lines += [f"  {'done' if done else 'left'}  {step}" for done, step in zip(self.done, self._script, strict=True)]
        lines.append(f"  it was sent: {'; '.join(str(sent) for sent in self.sent if sent.kind != 'audio') or 'nothing'}")
        lines.append(f"  and {len(self.audio)} bytes of audio")
        return "\n".join([*lines, *(f"  PROBLEM: {problem}" for problem in self.problems)])

    async def _read(self) -> None:
        try:
            while True:
                self._take(await self._socket.recv())
        except ConnectionClosed:
            pass
        except _Deviation as deviation:
            self.problems.append(str(deviation))
        self._inbox.close()
        self._gone.set()

    def _take(self, frame: str | bytes) -> None:
        try:
            sent = parse(frame)
        except Unacceptable as error:
            raise _Deviation(str(error)) from error
        if (sent.kind == "setup") != (self.setup is None):
            raise _Deviation("the set-up comes first, and once")
        if sent.kind == "setup":
            self.setup = sent.value
        if sent.kind == "audio":
            self._heard += sent.value
            del self._heard[: -16_000 * 2 * 30]
        if sent.kind == "tool_response":
            self._check_answers(sent.value)
        self.sent.append(sent)
        self._inbox.put_nowait(sent)
        self._changed()

    def _check_answers(self, value: Mapping[str, Any]) -> None:
        for response in value["functionResponses"]:
            if response["id"] not in self._calls:
                raise _Deviation(f"an answer to the call {response['id']!r}, which was never made")

    async def _step(self, step: Step) -> None:  # noqa: C901 - one branch for each kind of step is the clearest form
        match step:
            case Expect():
                await self._expect(step)
            case Send():
                await self._send_all(step.frames)
            case Echo():
                await self._echo()
            case CallDeclared():
                await self._call_declared()
            case SayUntilInterrupted():
                await self._say_until_interrupted(step)
            case Fault():
                await _break(self._socket, step)
            case Stall():
                self._socket.transport.pause_reading()
                self.done = [*self.done[: self._script.index(step)], *([True] * (len(self._script) - self._script.index(step)))]
                await self._gone.wait()
            case Pause(seconds):
                await self._unless_gone(asyncio.sleep(seconds))
            case Wait(gate):
                await self._unless_gone(gate.wait())
            case Framing():
                self._binary = self._binary if step.binary is None else step.binary
                self._slow_s = step.slow_s or self._slow_s
            case Repeat(steps):
                while True:
                    for inner in steps:
                        await self._step(inner)

    async def _expect(self, step: Expect) -> None:
        if step.utterance:
            await self._utterance()
            return
        size = 0
        while True:
            sent = await self._inbox.get()
            if self._fits(step, sent):
                size += len(sent.value) if step.size else 0
                if size >= step.size:
                    return
            elif sent.kind not in self._allow:
                raise _Deviation(f"expected was {step.words}, sent was {sent}")

    def _fits(self, step: Expect, sent: Sent) -> bool:
        if sent.kind not in step.kinds:
            return False
        try:
            return step.check(sent.value)
        except AssertionError as error:
            raise _Deviation(f"{sent} is not as expected: {error}") from error

    async def _utterance(self) -> None:
        spoke, silent_s = False, 0.0
        while not (spoke and silent_s >= SILENCE_S):
            sent = await self._inbox.get()
            if sent.kind in ("text", "activity_end", "audio_end") or (sent.kind == "content" and sent.value.get("turnComplete")):
                return
            if sent.kind == "audio":
                loud = _speaks(sent)
                spoke = spoke or loud
                silent_s = 0.0 if loud else silent_s + len(sent.value) / 32_000

    async def _rest(self) -> None:
        """The script is over: the client may send what is allowed, and leave."""
        while True:
            sent = await self._inbox.get()
            if sent.kind not in self._allow:
                raise _Deviation(f"the script is over, sent was {sent}")

    async def _send_all(self, frames: Sequence[Mapping[str, Any] | bytes]) -> None:
        for frame in frames:
            if isinstance(frame, Mapping):
                self._calls.update(call["id"] for call in frame.get("toolCall", {}).get("functionCalls", ()) if call.get("id"))
            data = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
            await self._socket.send(data, text=not self._binary)
            if self._slow_s:
                await asyncio.sleep(self._slow_s)

    async def _echo(self) -> None:
        """16 kHz in, 24 kHz out: every second sample twice."""
        heard, self._heard = array.array("h", bytes(self._heard)), bytearray()
        out = array.array("h", (sample for index, sample in enumerate(heard) for _ in range(1 + index % 2)))
        step = 24_000 * 40 // 1000
        await self._send_all([audio_frame(out[begin : begin + step].tobytes()) for begin in range(0, len(out), step)])

    async def _unless_gone(self, work: Coroutine[Any, Any, Any]) -> None:
        """Wait for this, but not beyond the client's leaving."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work), group.create_task(self._gone.wait())]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            done = tasks[0].done()
            for task in tasks:
                task.cancel()
        if not done:
            raise ChannelClosed

    async def _call_declared(self) -> None:
        functions = declared(self.setup or {})
        if not functions:
            return
        call_id = f"fake-{len(self._calls) + 1}"
        function = functions[len(self._calls) % len(functions)]
        args = sample(function.get("parameters") or function.get("parametersJsonSchema") or {})
        await self._send_all([{"toolCall": {"functionCalls": [{"id": call_id, "name": function["name"], "args": args or {}}]}}])
        while (await self._inbox.get()).kind != "tool_response":
            pass

    async def _say_until_interrupted(self, step: SayUntilInterrupted) -> None:
        for frame in step.frames:
            await self._send_all([frame])
            if "modelTurn" in frame["serverContent"]:
                await asyncio.sleep(CHUNK_S)
            while len(self._inbox):
                if _speaks(await self._inbox.get()):
                    await self._send_all([{"serverContent": {"interrupted": True}}, {"serverContent": {"turnComplete": True}}])
                    return


async def _break(connection: ServerConnection, fault: Fault) -> None:
    transport = connection.transport
    if fault.kind == "close":
        await connection.close(fault.code, fault.reason)
    elif fault.kind == "fin":
        transport.close()
    else:
        raw = transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    await connection.wait_closed()


def _speaks(sent: Sent) -> bool:
    """Whether this is the user saying something."""
    if sent.kind == "audio":
        return max(map(abs, array.array("h", sent.value)), default=0) >= LOUD
    return sent.kind in ("text", "content", "activity_start")


def _with_setup(script: Sequence[Step]) -> list[Step]:
    """The script with the usual set-up in front of it, unless it begins with one of its own."""
    for step in script[:-1]:
        if isinstance(step, Stall | Repeat | Fault):
            raise ValueError(f"{step} is only possible as the last step")
    first = script[0] if script else None
    own = (
        isinstance(first, Stall)
        or (isinstance(first, Fault) and len(script) == 1)
        or (isinstance(first, Expect) and "setup" in first.kinds)
    )
    return list(script) if own else [expect_setup(), ready(), *script]
