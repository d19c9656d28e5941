"""A live model that plays a script, and is strict about it.

What the model says stays in order, and waits for what the script expects before it. What it is sent is matched against the expectations in
their order; it may come before earlier words of the model were taken, since both directions of a connection are independent. A send that
does not match, or a step that is left when the connection closes, is an `AssertionError` with the whole script, done and left. It is raised
where it happens, when the connection is left, and again by `verify`, in case that something in between swallowed it.

    with ScriptedLiveModel([expect_content("hello"), say("Hi!")]) as model:
        ...  # use it; leaving the block verifies it
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import groupby
from types import TracebackType
from typing import Any, NoReturn, Self

from live_gateway.content import Content, FunctionResponse, text_of
from live_gateway.errors import UpstreamLost
from live_gateway.models.live import Activity, ConnectionNotice, LiveMessage, LiveSetup
from live_gateway.testing.steps import Emit, End, Expect, Fail, Hang, OnConnect, Pause, SentKind, Step, Wait


@dataclass(frozen=True, slots=True)
class Sent:
    """Something that the model was sent. value: the argument of the send; for an image, bytes and type."""

    kind: SentKind
    value: Any

    def __str__(self) -> str:
        if self.kind == "audio":
            return f"audio of {len(self.value)} bytes"
        if self.kind == "content":
            return f"content {text_of(self.value)!r}"
        if self.kind == "tool_responses":
            return f"tool responses {', '.join(str(response.id) for response in self.value)}"
        if self.kind == "activity":
            return f"activity {self.value.value}"
        return self.kind if self.kind != "image" else f"image {self.value[1]}"


class ScriptedLiveModel:
    """A `LiveModel` with one script for each connection it is asked for.

    allow: kinds of sends that are taken at any time and need not be in the script (`"audio"` for a microphone that is just on).
    connections, setups: what was opened, oldest first.
    """

    def __init__(self, *scripts: Sequence[Step], name: str = "scripted-live", allow: Collection[SentKind] = ()) -> None:
        for script in scripts:
            if any(isinstance(step, OnConnect) for step in script[1:]):
                raise ValueError("on_connect is only possible as the first step")
            if any(isinstance(step, End | Fail | Hang) for step in script[:-1]):
                raise ValueError("end, fail and hang are only possible as the last step")
        self.name = name
        self.connections: list[ScriptedConnection] = []
        self._scripts = [tuple(script) for script in scripts]
        self._allow = frozenset(allow)
        self._refused = 0

    @property
    def setups(self) -> list[LiveSetup]:
        """What each connection was opened with."""
        return [connection.setup for connection in self.connections]

    @property
    def connection(self) -> ScriptedConnection:
        """The latest connection."""
        return self.connections[-1]

    def connect(self, setup: LiveSetup) -> AbstractAsyncContextManager[ScriptedConnection]:
        """Open the next connection. One more than there are scripts is an `AssertionError`."""
        number = len(self.connections)
        if number >= len(self._scripts):
            self._refused += 1
            raise AssertionError(self._report())
        connection = ScriptedConnection(setup, self._scripts[number], self._allow, f"connection {number + 1}")
        self.connections.append(connection)
        return connection

    def verify(self) -> None:
        """Raise `AssertionError` unless every script was played to its end and nothing else was sent."""
        if self._refused or len(self.connections) < len(self._scripts) or any(connection.broken for connection in self.connections):
            raise AssertionError(self._report())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None or any(connection.problems for connection in self.connections):
            self.verify()

    def _report(self) -> str:
        lines = [connection.report() for connection in self.connections]
        if self._refused:
            lines.append(f"{self._refused} more connections were asked for than there are scripts ({len(self._scripts)})")
        elif len(self.connections) < len(self._scripts):
            lines.append(f"{len(self._scripts) - len(self.connections)} scripts were never connected to")
        return "\n".join(lines)


class ScriptedConnection(AbstractAsyncContextManager["ScriptedConnection"]):
    """One connection that plays one script. sent: everything that was sent. playing: every value of `set_playing`."""

    def __init__(self, setup: LiveSetup, script: Sequence[Step], allow: Collection[SentKind], title: str) -> None:
        self.setup = setup
        self.sent: list[Sent] = []
        self.playing: list[bool] = []
        self.problems: list[str] = []
        self._title = title
        self._script = script
        self._allow = allow
        self._done = [isinstance(step, Hang) for step in script]
        self._claimed: set[int] = set()
        self._pulled = 0
        self._heard = 0
        self._over = False
        self._failure: Exception | None = None
        self._changed = asyncio.Event()

    @property
    def audio(self) -> bytes:
        """All audio that was sent."""
        return b"".join(sent.value for sent in self.sent if sent.kind == "audio")

    @property
    def broken(self) -> bool:
        """Whether something unexpected was sent, or a step was not played (yet)."""
        return bool(self.problems) or not all(self._done)

    async def __aenter__(self) -> Self:
        if self._script and isinstance(first := self._script[0], OnConnect):
            self._done[0] = True
            for step in first.steps:
                await self._open(step)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over = True
        self._changed.set()
        if error is None and self.broken:
            raise AssertionError(self.report())

    async def receive(self) -> LiveMessage | None:
        """The next message of the script, when its turn has come; None after `end`."""
        while True:
            if self.problems:
                raise AssertionError(self.report())
            if self._failure is not None:
                raise self._failure
            if self._over:
                return None
            index = self._done.index(False) if False in self._done else len(self._script)
            step = self._script[index] if index < len(self._script) else None
            if isinstance(step, Emit):
                return self._next_message(index, step)
            await self._pass(index, step)

    async def send_audio(self, pcm: bytes) -> None:
        if len(pcm) % 2:
            self._break(f"audio of {len(pcm)} bytes, which is not whole samples")
        await self._take(Sent("audio", bytes(pcm)))

    async def send_image(self, data: bytes, mime_type: str) -> None:
        await self._take(Sent("image", (bytes(data), mime_type)))

    async def send_content(self, content: Content) -> None:
        await self._take(Sent("content", content.model_copy(deep=True)))

    async def send_activity(self, activity: Activity) -> None:
        await self._take(Sent("activity", activity))

    async def end_audio(self) -> None:
        await self._take(Sent("end_audio", None))

    async def send_tool_responses(self, responses: Sequence[FunctionResponse]) -> None:
        nameless = [response for response in responses if not (response.id and response.name)]
        if nameless or not responses:
            self._break("tool responses, one without id or name" if nameless else "tool responses, none in it")
        await self._take(Sent("tool_responses", [response.model_copy(deep=True) for response in responses]))

    async def interrupt(self) -> None:
        await self._take(Sent("interrupt", None))

    def set_playing(self, playing: bool) -> None:
        self.playing.append(playing)

    def report(self) -> str:
        """The script with what is done and what is left, what was sent, and what was wrong with it."""
        marks = ["done" if done else "left" for done in self._done]
        lines = [f"{self._title}:", *(f"  {mark}  {step}" for mark, step in zip(marks, self._script, strict=True))]
        lines.append(f"  it was sent: {'; '.join(_in_short(self.sent)) or 'nothing'}")
        return "\n".join([*lines, *(f"  PROBLEM: {problem}" for problem in self.problems)])

    async def _open(self, step: Emit | Pause | Wait | Fail) -> None:
        if isinstance(step, Emit):
            for message in step.messages:
                if isinstance(message, ConnectionNotice) and self.setup.notify is not None:
                    self.setup.notify(message)
        elif isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
        elif isinstance(step, Wait):
            await step.gate.wait()
        else:
            self._over = True
            raise step.error

    def _next_message(self, index: int, step: Emit) -> LiveMessage:
        message = step.messages[self._pulled]
        self._pulled += 1
        if self._pulled == len(step.messages):
            self._pulled = 0
            self._done[index] = True
        return message

    async def _pass(self, index: int, step: Step | None) -> None:
        """Go past a step that says nothing; where something must be sent first, wait for the next change."""
        if step is None or isinstance(step, Expect):
            self._changed.clear()
            await self._changed.wait()
            return
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
        elif isinstance(step, Wait):
            await step.gate.wait()
        elif isinstance(step, Fail):
            self._failure = step.error
        else:
            self._over = True
        self._done[index] = True

    async def _take(self, sent: Sent) -> None:
        if self._over or self._failure is not None:
            raise UpstreamLost("the scripted connection is over")
        self.sent.append(sent)
        index, step = self._expected()
        if step is None or not self._matches(step, sent):
            if sent.kind not in self._allow:
                self._break(f"unexpected {sent}")
            return
        if step.size:
            self._heard += len(sent.value)
            if self._heard < step.size:
                return
            self._heard = 0
        self._claimed.add(index)
        if step.gate is not None:
            await step.gate.wait()
        self._done[index] = True
        self._changed.set()
        if step.error is not None:
            raise step.error

    def _expected(self) -> tuple[int, Expect | None]:
        for index, step in enumerate(self._script):
            if isinstance(step, Expect) and index not in self._claimed:
                return index, step
        return -1, None

    def _matches(self, step: Expect, sent: Sent) -> bool:
        if step.kind != sent.kind:
            return False
        try:
            return step.check(sent.value)
        except AssertionError as error:
            self._break(f"{sent} is not as expected: {error}")

    def _break(self, problem: str) -> NoReturn:
        self.problems.append(problem)
        self._changed.set()
        raise AssertionError(self.report())


def _in_short(sent: Sequence[Sent]) -> list[str]:
    """One text for each send, but one for a row of audio."""
    texts: list[str] = []
    for kind, group in groupby(sent, key=lambda one: one.kind):
        rows = list(group)
        texts += [f"{len(rows)} x audio, {sum(len(row.value) for row in rows)} bytes"] if kind == "audio" else [str(row) for row in rows]
    return texts
