"""Where the sound of a call stands: the user's on one track, the agent's on another, both on the clock of the call.

Pure: time (seconds since the call began) is passed in. A track is a row of runs with silence between them. Within a run samples are
counted; where a run begins comes from the clock, so that nothing drifts:

* The user's sound stands where it arrived, its last sample at that moment. A frame more than `GAP_S` late begins a run. What a network held
  back and then gave at once is moved back to where it was spoken, as far as the second has not been taken yet.
* The agent's sound stands where it was played: from when it came, behind what still plays, until the listener reports (`mark`) where it is.
  Of an answer that was stopped only what was heard stays (`ended`), and what follows moves up.

So the newest second (`HOLD_S`) is not final, and `take` gives what is older. Both rates are multiples of 8 kHz, in which `take` counts, so
both tracks always have the same length.
"""

from __future__ import annotations

from collections.abc import Iterator

from live_gateway.models.live import INPUT_HZ, OUTPUT_HZ

HOLD_S = 1.0
"""Longer than a listener who was interrupted has for saying how much it played."""
GAP_S = 0.2
LEAD_S = 0.5
"""How far the user's sound may run ahead of the clock before quiet frames are left out until it does no more."""
QUIET = 200
"""Peak below which a frame is quiet, of 32,768."""
AHEAD_S = 300
"""How much of a track is kept that cannot be taken yet; beyond, sound is left out and its place stays silent."""
BLOCK_S = 10
_STEP_HZ = 8000


class _Run:
    """Sound without a gap. wanted: the sample of the track where it should begin. start: where it does. pos: index of its first sample in
    its response."""

    __slots__ = ("pcm", "pos", "response", "start", "wanted")

    def __init__(self, wanted: int, response: int = 0, pos: int = 0) -> None:
        self.wanted = self.start = wanted
        self.response = response
        self.pos = pos
        self.pcm = bytearray()

    def __len__(self) -> int:
        return len(self.pcm) // 2

    @property
    def end(self) -> int:
        return self.start + len(self)

    @property
    def end_pos(self) -> int:
        return self.pos + len(self)

    def drop(self, samples: int) -> None:
        """Forget so many of the first samples."""
        del self.pcm[: samples * 2]
        self.pos += samples


class Track:
    """One side of the call. taken: samples that were taken. lost: samples that there was no room for."""

    def __init__(self, hz: int) -> None:
        self.hz = hz
        self.taken = 0
        self.lost = 0
        self._runs: list[_Run] = []

    @property
    def last(self) -> _Run | None:
        """The newest run of which something is left."""
        return self._runs[-1] if self._runs else None

    @property
    def end(self) -> int:
        """The sample behind the last one."""
        return self._runs[-1].end if self._runs else self.taken

    @property
    def kept(self) -> int:
        """Bytes that wait to be taken."""
        return sum(len(run.pcm) for run in self._runs)

    def sample(self, seconds: float) -> int:
        """The sample of this moment."""
        return max(0, round(seconds * self.hz))

    def late(self, run: _Run, at: int) -> bool:
        """Whether what should stand here is too late to go on with this run."""
        return at - run.end > GAP_S * self.hz

    def add(self, run: _Run, pcm: bytes) -> bool:
        """Put this behind the last run as a new one, or at the end of the last run; whether all of it had room."""
        if run is not self.last:
            self._runs.append(run)
            self.settle()
        room = max(0, self.taken + AHEAD_S * self.hz - run.end)
        samples = min(len(pcm) // 2, room)
        run.pcm += pcm[: samples * 2]
        self.lost += len(pcm) // 2 - samples
        if not run:
            self._runs.pop()
        return samples == len(pcm) // 2

    def settle(self) -> None:
        """Put every run where it wants to be, behind the one before it."""
        at = self.taken
        for run in self._runs:
            run.start = max(run.wanted, at)
            at = run.end

    def take(self, until: int) -> bytes:
        """The samples up to this one, silence included."""
        taken = bytearray((until - self.taken) * 2)
        for run in self._runs:
            if run.start >= until:
                break
            samples = min(run.end, until) - run.start
            place = (run.start - self.taken) * 2
            taken[place : place + samples * 2] = run.pcm[: samples * 2]
            run.drop(samples)
            run.wanted = run.start = until
        self.taken = until
        self._runs = [run for run in self._runs if run]
        return bytes(taken)

    def of(self, response: int) -> list[_Run]:
        """What is left of this response."""
        return [run for run in self._runs if run.response == response]

    def split(self, run: _Run, pos: int) -> _Run:
        """Make what is from this index of the response on a run of its own, and give it."""
        if pos <= run.pos:
            return run
        samples = pos - run.pos
        tail = _Run(run.start + samples, run.response, pos)
        tail.pcm = run.pcm[samples * 2 :]
        del run.pcm[samples * 2 :]
        self._runs.insert(self._runs.index(run) + 1, tail)
        return tail

    def cut(self, response: int, samples: int) -> None:
        """Keep only so many samples of this response."""
        for run in self.of(response):
            del run.pcm[max(0, samples - run.pos) * 2 :]
        self._runs = [run for run in self._runs if run]
        self.settle()


class CallTracks:
    """Both sides of one call."""

    def __init__(self) -> None:
        self.user = Track(INPUT_HZ)
        self.agent = Track(OUTPUT_HZ)
        self._anchored: set[int] = set()
        self._broken = False

    @property
    def lost_ms(self) -> int:
        """How much sound was left out, both sides together."""
        return sum(track.lost * 1000 // track.hz for track in (self.user, self.agent))

    def heard(self, pcm: bytes, now: float) -> None:
        """Sound of the user has arrived: int16 at 16 kHz."""
        track, samples = self.user, len(pcm) // 2
        at, run = track.sample(now), track.last
        if run is None or self._broken or track.late(run, at - samples):
            run = _Run(max(0, at - samples))
        elif run.end - at > LEAD_S * track.hz and _quiet(pcm):
            return
        self._broken = not track.add(run, pcm)
        if (wanted := at - len(run)) < run.wanted:
            run.wanted = wanted
            track.settle()

    def spoken(self, response: int, pos: int, pcm: bytes, now: float) -> None:
        """Sound of the agent was handed over: int16 at 24 kHz, its first sample `pos` of the response."""
        track = self.agent
        at, run = track.sample(now), track.last
        if run is None or run.response != response or track.late(run, at):
            run = _Run(at, response, pos)
        elif pos != run.end_pos:
            run = _Run(run.end + max(0, pos - run.end_pos), response, pos)
        track.add(run, pcm)

    def mark(self, response: int, heard: int, now: float) -> None:
        """The listener reports that at this moment so many samples of the response are out of the speaker."""
        run = next((run for run in self.agent.of(response) if run.end_pos > heard), None)
        if run is None:
            return
        late = self.agent.sample(now) - (run.start + heard - run.pos)
        if response in self._anchored and abs(late) <= GAP_S * OUTPUT_HZ:
            return
        if late > 0:
            run = self.agent.split(run, heard)
        run.wanted = run.start + late
        self._anchored.add(response)
        self.agent.settle()

    def ended(self, response: int, heard: int | None) -> None:
        """The response is over; heard: how many samples of it were played, None for all."""
        self._anchored.discard(response)
        if heard is not None:
            self.agent.cut(response, heard)

    def take(self, now: float) -> Iterator[tuple[bytes, bytes]]:
        """What is final by now, in pieces of at most `BLOCK_S`: of the user at 16 kHz, of the agent at 24 kHz."""
        return self._take(int((now - HOLD_S) * _STEP_HZ))

    def finish(self, now: float) -> Iterator[tuple[bytes, bytes]]:
        """The call is over: all that is left."""
        ends = [-(-track.end * _STEP_HZ // track.hz) for track in (self.user, self.agent)]
        return self._take(max(int(now * _STEP_HZ), *ends))

    def _take(self, until: int) -> Iterator[tuple[bytes, bytes]]:
        step = self.user.taken * _STEP_HZ // INPUT_HZ
        while step < until:
            step = min(until, step + BLOCK_S * _STEP_HZ)
            yield self.user.take(step * INPUT_HZ // _STEP_HZ), self.agent.take(step * OUTPUT_HZ // _STEP_HZ)


def _quiet(pcm: bytes) -> bool:
    samples = memoryview(pcm)[: len(pcm) // 2 * 2].cast("h")
    return min(samples, default=0) > -QUIET and max(samples, default=0) < QUIET
