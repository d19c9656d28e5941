"""What the listener has not heard to its end: one `Response` for each answer, from its first sample until it was played.

Pure: time (monotonic seconds) passed in. A response ends exactly once, and then leaves a `ResponseEnded` behind: when the listener says
that it played it to the end (`drained`), or that it threw it away after an interruption (`flushed`). A listener that sends no marks is
believed after the sent duration and 500 ms, one whose marks stop after 5 s more; one that was interrupted has 500 ms to say how far it
got.
"""

from __future__ import annotations

from dataclasses import dataclass

from live_gateway.live.items import PlaybackMark, ResponseEnded, ResponseStatus
from live_gateway.models.live import OUTPUT_HZ

UNMARKED_TAIL_S = 0.5
"""How long after the sent duration a response counts as played when the listener sends no marks (docs/reference/wire.md)."""
FLUSH_WAIT_S = 0.5
"""How long an interrupted response waits for the listener to say how far it got."""
LOST_MARKS_S = 5.0
"""How long after the sent duration a listener that does send marks may stay silent before it is believed to have played all."""


@dataclass(slots=True)
class Response:
    """One answer.

    samples: handed over so far, at 24 kHz. play_until: when a listener without delay has played them. played, heard: what the listener
    reported, `marked_at` when. complete: the model has made all of it. stopped: why it is not played on. estimate: what was heard when it
    was stopped, should the listener not say.
    """

    number: int
    turn: int
    samples: int = 0
    play_until: float = 0.0
    played: int = 0
    heard: int = 0
    marked_at: float | None = None
    complete: bool = False
    stopped: ResponseStatus | None = None
    deadline: float | None = None
    estimate: int = 0


class Playback:
    """The responses that are not over. marks: the listener reports what it plays; the first mark shows that it does."""

    def __init__(self, *, marks: bool) -> None:
        self._marks = marks
        self._open: dict[int, Response] = {}
        self._ended: list[ResponseEnded] = []

    def __len__(self) -> int:
        return len(self._open)

    @property
    def running(self) -> list[Response]:
        """The responses that play, or will; oldest first. Interrupted ones that wait for a last mark are not among them."""
        return [response for response in self._open.values() if response.stopped is None]

    def take(self) -> list[ResponseEnded]:
        """The responses that ended since the last call, in order."""
        ended, self._ended = self._ended, []
        return ended

    def deadline(self) -> float | None:
        """When `tick` is due; None when nothing waits for time."""
        return min((r.deadline for r in self._open.values() if r.deadline is not None), default=None)

    def begin(self, number: int, turn: int, now: float) -> Response:
        """A response begins."""
        response = self._open[number] = Response(number, turn, play_until=now)
        return response

    def grow(self, response: Response, samples: int, now: float) -> int:
        """More of it was handed over; index of the first of these samples."""
        pos = response.samples
        response.samples += samples
        response.play_until = max(response.play_until, now) + samples / OUTPUT_HZ
        return pos

    def complete(self, response: Response) -> None:
        """The model has made all of it. One without a sample is over."""
        response.complete = True
        if response.samples:
            self._arm(response)
        else:
            self._end(response)

    def mark(self, mark: PlaybackMark, now: float) -> None:
        """The listener reports. Unknown responses are ignored; counts are clamped to what was sent."""
        response = self._open.get(mark.response)
        if response is None:
            return
        self._marks = True
        response.played = max(response.played, min(mark.played, response.samples))
        response.heard = max(response.heard, min(mark.heard, response.played))
        response.marked_at = now
        if response.stopped is not None:
            if mark.event in ("flushed", "drained"):
                self._end(response)
        elif mark.event == "drained" and response.complete:
            response.heard = response.samples
            self._end(response)
        else:
            self._arm(response)

    def stop(self, response: Response, status: ResponseStatus, now: float) -> None:
        """It is not played on; a listener with marks may still say how far it got."""
        response.stopped = status
        response.estimate = self._estimate(response, now)
        if self._marks and response.samples:
            response.deadline = now + FLUSH_WAIT_S
        else:
            response.heard = response.estimate
            self._end(response)

    def tick(self, now: float) -> None:
        """Time has passed."""
        for response in list(self._open.values()):
            if response.deadline is not None and now >= response.deadline:
                response.heard = response.samples if response.stopped is None else response.estimate
                self._end(response)

    def end_all(self, status: ResponseStatus, now: float) -> None:
        """Nothing more will be played or reported."""
        for response in list(self._open.values()):
            if response.stopped is None:
                response.stopped = status
                response.estimate = self._estimate(response, now)
            response.heard = max(response.heard, response.estimate)
            self._end(response)

    def _arm(self, response: Response) -> None:
        if not response.complete:
            return
        if self._marks:
            response.deadline = max(response.play_until, response.marked_at or 0.0) + LOST_MARKS_S
        else:
            response.deadline = response.play_until + UNMARKED_TAIL_S

    def _estimate(self, response: Response, now: float) -> int:
        """How much was heard by now: from the last mark and the time since, without marks from the time at which it was sent."""
        if response.marked_at is not None:
            return min(response.samples, response.heard + max(0, round((now - response.marked_at) * OUTPUT_HZ)))
        if self._marks:
            return 0  # the listener never said that it began
        return max(0, response.samples - max(0, round((response.play_until - now) * OUTPUT_HZ)))

    def _end(self, response: Response) -> None:
        del self._open[response.number]
        heard_ms = round(response.heard * 1000 / OUTPUT_HZ)
        self._ended.append(ResponseEnded(response.number, response.stopped or "completed", heard_ms))
