"""The two ways of keeping the sound of a live session: each turn by itself (`kept_audio`), and the whole call (`call_recorder`)."""

from __future__ import annotations

import asyncio

from live_gateway.events import Event
from live_gateway.live.call_recorder import CallRecorder
from live_gateway.live.items import LiveItem, PlaybackMark
from live_gateway.live.kept_audio import KeptAudio


class Keepers:
    """Both are told what happens; one that is off keeps nothing."""

    def __init__(self, turns: KeptAudio, call: CallRecorder) -> None:
        self._turns = turns
        self._call = call

    def heard(self, pcm: bytes) -> None:
        """Audio of the user: int16 mono at 16 kHz."""
        self._turns.heard(pcm)
        self._call.heard(pcm)

    def shown(self, item: LiveItem) -> None:
        """Something for the listener."""
        self._turns.shown(item)
        self._call.shown(item)

    def played(self, mark: PlaybackMark) -> None:
        """The listener reports what it played."""
        self._call.played(mark)

    def recorded(self, event: Event) -> None:
        """This event was recorded."""
        self._turns.recorded(event)

    def taken_over(self, agent: str) -> None:
        """Another agent speaks from here on."""
        self._turns.taken_over(agent)

    def finish(self) -> None:
        """The session ends: save what is there, and take no more."""
        self._turns.finish()
        self._call.finish()

    async def run(self) -> None:
        """Save, until `finish` was called and all is saved."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._turns.run(), name="live turns")
            group.create_task(self._call.run(), name="live recording")
