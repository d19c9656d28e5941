"""What goes up to the model: audio that may be dropped, and everything else, which may not, in one order.

One task sends, so that a connection is written to by one task at a time and an activity mark never overtakes the audio before it. Audio
waits for at most two seconds; beyond, the oldest is dropped and counted. Where nothing is under way and the connection can take it at once,
audio goes there without the task.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from live_gateway.cancellation import foreign_code
from live_gateway.errors import LiveSessionClosed, NotDelivered
from live_gateway.models.live import INPUT_HZ, TakesAudioAtOnce

MAX_AUDIO_SAMPLES = 2 * INPUT_HZ
MAX_COMMANDS = 256
RESERVED = 256
"""Room beyond that for what the session itself has to tell the model: what clients send cannot keep a tool's answer out."""
COMMAND_DEADLINE_S = 5.0

Action: TypeAlias = Callable[[], Awaitable[None]]


class _TakesAudio(Protocol):
    """What is needed of a connection, beside what actions know of it."""

    async def send_audio(self, pcm: bytes) -> None: ...


class _Command:
    __slots__ = ("action", "done", "started")

    def __init__(self, action: Action, done: asyncio.Future[None] | None) -> None:
        self.action = action
        self.done = done
        self.started = False

    def settle(self, error: BaseException | None) -> None:
        if self.done is None or self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


class Uplink:
    """The queue to the model. `release` says where it goes; `run` is then the one task that sends, until it is closed or held."""

    def __init__(self) -> None:
        self._connection: _TakesAudio | None = None
        self._take_audio: Callable[[bytes], bool] = _cannot
        self._queue: deque[bytes | _Command] = deque()
        self._waiting_samples = 0
        self._commands = 0
        self._waiting: asyncio.Future[None] | None = None
        self._closed = False
        self._held = False
        self._dropped = 0

    @property
    def closed(self) -> bool:
        """Whether nothing more is taken."""
        return self._closed

    def take_dropped_ms(self) -> int:
        """How much audio was dropped since the last call, in ms."""
        dropped, self._dropped = self._dropped, 0
        return dropped * 1000 // INPUT_HZ

    def take_gap_ms(self) -> int:
        """The same, once it is over: 0 while so much audio waits that more of it costs what waits already."""
        if not self._dropped or self._waiting_samples >= MAX_AUDIO_SAMPLES - INPUT_HZ // 10:
            return 0
        return self.take_dropped_ms()

    def push_audio(self, pcm: bytes) -> None:
        """Queue microphone audio (int16 mono at 16 kHz); never waits. What was already waiting for two seconds' worth is dropped first."""
        if self._closed or not pcm:
            return
        if self._waiting is not None and not self._queue and self._take_audio(pcm):
            return
        self._queue.append(pcm)
        self._waiting_samples += len(pcm) // 2
        while self._waiting_samples > MAX_AUDIO_SAMPLES and self._drop_oldest_audio():
            pass
        self._wake()

    def post(self, action: Action) -> None:
        """Queue something that nobody waits for. Its failure shows as the failure of the connection itself. Raises `NotDelivered`."""
        self._enqueue(_Command(action, None))

    async def perform(self, action: Action) -> None:
        """Queue something and wait until it was done, for at most five seconds.

        Raises `NotDelivered` when it was not begun in time, `TimeoutError` when it was begun and did not end, and whatever it raised.
        """
        command = _Command(action, asyncio.get_running_loop().create_future())
        self._enqueue(command)
        assert command.done is not None
        try:
            async with asyncio.timeout(COMMAND_DEADLINE_S):
                await command.done
        except TimeoutError:
            if command.started:
                raise
            raise NotDelivered("the connection to the model took nothing for five seconds") from None
        finally:
            if not command.started:
                self._forget(command)

    async def run(self) -> None:
        """Send what is queued until closed or held. An exception of a command goes to whoever waits for it; audio's ends the task."""
        connection = self._connection
        assert connection is not None, "released before"
        with foreign_code("sending audio"):
            while not self._closed and not self._held:
                if not self._queue:
                    await self._wait()
                    continue
                entry = self._queue.popleft()
                if isinstance(entry, bytes):
                    self._waiting_samples -= len(entry) // 2
                    await connection.send_audio(entry)
                else:
                    self._commands -= 1
                    await self._run_command(entry)

    def hold(self) -> None:
        """Begin nothing more: what is queued waits, and `run` ends after what it is sending."""
        self._held = True
        self._wake()

    def release(self, connection: _TakesAudio) -> None:
        """Let what waits go to this connection, once `run` is called."""
        self._held = False
        self._connection = connection
        self._take_audio = connection.take_audio if isinstance(connection, TakesAudioAtOnce) else _cannot

    def close(self) -> None:
        """Take and send no more. Whoever waits gets `NotDelivered`."""
        self._closed = True
        self._wake()
        for entry in self._queue:
            if isinstance(entry, _Command):
                entry.settle(NotDelivered("the live session is closed"))
        self._queue.clear()

    async def _run_command(self, command: _Command) -> None:
        if command.done is not None and command.done.done():
            return
        command.started = True
        try:
            with foreign_code("sending"):
                await command.action()
        except Exception as error:
            if command.done is None:
                raise
            command.settle(error)
        except BaseException:
            command.settle(TimeoutError("the connection went away while it was sent"))
            raise
        else:
            command.settle(None)

    def _enqueue(self, command: _Command) -> None:
        if self._closed:
            raise LiveSessionClosed("the live session is closed")
        if self._commands >= MAX_COMMANDS + (RESERVED if command.done is None else 0):
            raise NotDelivered(f"{self._commands} messages already wait for the model")
        self._commands += 1
        self._queue.append(command)
        self._wake()

    async def _wait(self) -> None:
        """Until something is queued, or the end. A bare future: an event costs twice as much, fifty times a second."""
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _forget(self, command: _Command) -> None:
        if command in self._queue:
            self._queue.remove(command)
            self._commands -= 1

    def _drop_oldest_audio(self) -> bool:
        for index, entry in enumerate(self._queue):
            if isinstance(entry, bytes):
                del self._queue[index]
                self._waiting_samples -= len(entry) // 2
                self._dropped += len(entry) // 2
                return True
        return False


def _cannot(_pcm: bytes) -> bool:
    return False
