"""Keeps what was said in a live session, each side of each turn as a WAV artifact, with an event that refers to it (`save_live_blob`).

| what happens | what is kept, in this order |
|---|---|
| turn complete | what the user's microphone sent since the last time, what the agent said |
| interrupted, handed over | what the agent said |
| close, failure | both |
| `MAX_BYTES` of one side | that side, so that no artifact grows without a bound |

The loop only gathers bytes, at most 1 MiB for each side. From there on they lie in an unnamed file, which a task reads and writes in
threads, so a slow disk or artifact store delays no audio. Where they fall 32 MiB behind, audio is left out, and that is told once for each
artifact.
The user's side is what was pushed, silence and what the model was not sent included; images are not kept.
"""

from __future__ import annotations

import asyncio
import tempfile
import wave
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from typing import IO, Literal
from urllib.parse import quote

from live_gateway.agents.context import InvocationContext
from live_gateway.agents.services import ArtifactAccess
from live_gateway.channel import Channel, ChannelClosed, ChannelFull
from live_gateway.content import Blob, Content, FileData, Part
from live_gateway.errors import StorageError
from live_gateway.events import USER, Event, EventActions
from live_gateway.live.items import AudioChunk, LiveItem
from live_gateway.models.live import INPUT_HZ, OUTPUT_HZ
from live_gateway.telemetry import get_logger

log = get_logger(__name__)

Side = Literal["user", "agent"]

SPOOL_BYTES = 2**20
MAX_BYTES = 16 * 2**20
"""About nine minutes of the user, six of the agent."""
MAX_JOBS = 32
RESERVED = 8
"""Room beyond that for saving what is whole."""
SAVE_S = 30.0
MIME_TYPE = "audio/wav"
_HZ: dict[Side, int] = {"user": INPUT_HZ, "agent": OUTPUT_HZ}


@dataclass(slots=True, eq=False)
class _Take:
    """What will be one artifact. began: seconds since the Unix epoch."""

    side: Side
    name: str
    author: str
    began: float
    turn: int = 0
    size: int = 0
    lost: int = 0
    waiting: bytearray = field(default_factory=bytearray)
    file: IO[bytes] | None = None
    abandoned: bool = False

    def write(self, pcm: bytes) -> None:
        """For a thread."""
        if self.file is None:
            self.file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when it was read
        self.file.write(pcm)

    def wav(self) -> bytes:
        """All of it as a WAV file; for a thread."""
        written = BytesIO()
        with wave.open(written, "wb") as to:
            to.setnchannels(1)
            to.setsampwidth(2)
            to.setframerate(_HZ[self.side])
            if self.file is not None:
                self.file.seek(0)
                to.writeframesraw(self.file.read())
            to.writeframesraw(bytes(self.waiting))
        return written.getvalue()

    def drop(self) -> None:
        """Give the file back."""
        if self.file is not None:
            self.file.close()


@dataclass(frozen=True, slots=True)
class _Job:
    """pcm: to be written; None: the take is whole and to be saved."""

    take: _Take
    pcm: bytes | None = None


class KeptAudio:
    """The audio of one live session. on: whether any is kept; `run` is the task that saves it, and `finish` ends it dry.

    turn: gives the number of the turn. wall: gives seconds since the Unix epoch. record: takes the events. problem: takes an exception that
    cost one artifact, or a part of one.
    """

    def __init__(
        self,
        invocation: InvocationContext,
        record: Callable[[Event], None],
        problem: Callable[[Exception], None],
        wall: Callable[[], float],
        *,
        turn: Callable[[], int],
        on: bool,
    ) -> None:
        self._invocation = invocation
        self._record = record
        self._problem = problem
        self._wall = wall
        self._turn = turn
        self._on = on
        self._agent = invocation.agent.name
        self._takes: dict[Side, _Take] = {}
        self._jobs: Channel[_Job] = Channel(MAX_JOBS + RESERVED)
        self._count = 0
        self._files: set[_Take] = set()

    def heard(self, pcm: bytes) -> None:
        """Audio of the user: int16 mono at 16 kHz."""
        if self._on:
            self._add("user", pcm)

    def shown(self, item: LiveItem) -> None:
        """Something for the listener: audio of the agent, int16 mono at 24 kHz, is kept."""
        if self._on and isinstance(item, AudioChunk):
            self._add("agent", item.pcm)

    def recorded(self, event: Event) -> None:
        """This event was recorded: where it ends a turn or an answer, what was said in it is saved."""
        if event.turn_complete:
            self._save("user")
        if event.turn_complete or event.interrupted:
            self._save("agent")

    def taken_over(self, agent: str) -> None:
        """Another agent speaks from here on: what the one before it said is saved."""
        self._save("agent")
        self._agent = agent

    def finish(self) -> None:
        """The session ends: save what is there, and take no more."""
        self._save("user")
        self._save("agent")
        self._on = False
        self._jobs.close()

    async def run(self) -> None:
        """Write and save, one after the other, until `finish` was called and all is saved."""
        try:
            async for job in self._jobs:
                await self._do(job)
        finally:
            for take in self._files:
                take.drop()
            if left := self._jobs.take_rest():
                log.error("audio_lost", session=self._invocation.session.id, count=len(left))

    def _add(self, side: Side, pcm: bytes) -> None:
        if not pcm:
            return
        take = self._takes.get(side)
        if take is None:
            self._count += 1
            name = f"live_{side}_{self._invocation.invocation_id}_{self._count:04}.wav"
            take = self._takes[side] = _Take(side, name, USER if side == "user" else self._agent, self._wall())
        take.waiting += pcm
        take.size += len(pcm)
        if len(take.waiting) >= SPOOL_BYTES:
            self._spool(take)
        if take.size >= MAX_BYTES:
            self._save(side)

    def _spool(self, take: _Take) -> None:
        if len(self._jobs) < MAX_JOBS:
            self._jobs.put_nowait(_Job(take, bytes(take.waiting)))
        else:
            take.lost += len(take.waiting)
        take.waiting.clear()

    def _save(self, side: Side) -> None:
        take = self._takes.pop(side, None)
        if take is None:
            return
        take.turn = self._turn()
        try:
            self._jobs.put_nowait(_Job(take))
        except (ChannelFull, ChannelClosed):
            take.abandoned = True
            self._problem(StorageError("audio of a turn was not kept: the artifact store is too far behind"))

    async def _do(self, job: _Job) -> None:
        take = job.take
        try:
            if job.pcm is not None:
                if not take.abandoned:
                    self._files.add(take)
                    await asyncio.to_thread(take.write, job.pcm)
                return
            if take.lost:
                self._problem(StorageError(f"{take.lost} bytes of audio were not kept: the disk is too far behind"))
            if take.lost < take.size:
                async with asyncio.timeout(SAVE_S):
                    await self._store(take)
        except Exception as error:  # the edge of disks and of artifact services
            log.error("audio_not_kept", error, session=self._invocation.session.id, bytes=take.size)
            if job.pcm is not None:
                take.lost += len(job.pcm)
                return
            failure = StorageError("audio of a turn could not be kept")
            failure.__cause__ = error
            self._problem(failure)
        take.drop()
        self._files.discard(take)

    async def _store(self, take: _Take) -> None:
        invocation = self._invocation
        artifacts = invocation.artifacts
        assert artifacts is not None, "refused when the session was opened"
        version = await _saved(artifacts, take)
        uri = f"artifact://{'/'.join(quote(part, safe='') for part in (invocation.app_name, invocation.user_id, invocation.session.id))}"
        reference = FileData(file_uri=f"{uri}/{quote(take.name, safe='')}#{version}", mime_type=MIME_TYPE)
        by_user = take.side == "user"
        self._record(
            Event(
                author=take.author,
                invocation_id=invocation.invocation_id,
                timestamp=take.began,
                content=Content(role="user" if by_user else "model", parts=[Part(file_data=reference)]),
                actions=EventActions(artifact_delta={take.name: version}),
                custom_metadata={"live": {"turn": take.turn, "ms": (take.size - take.lost) * 500 // _HZ[take.side]}},
            )
        )


async def _saved(artifacts: ArtifactAccess, take: _Take) -> int:
    wav = await asyncio.to_thread(take.wav)
    return await artifacts.save(take.name, Part(inline_data=Blob(data=wav, mime_type=MIME_TYPE)))
