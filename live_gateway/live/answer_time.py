"""What the user waits for: how long an answer took to begin, and how much of that went to tools. Pure."""

from __future__ import annotations

from live_gateway.live.items import TurnMetrics


class AnswerTime:
    """Of one answer at a time, from the decision that the user had finished to the first of the answer; times in monotonic seconds."""

    def __init__(self) -> None:
        self._asked_at: float | None = None
        self._silence_ms = 0
        self._tools = 0
        self._tools_since = 0.0
        self._tools_s = 0.0

    def asked(self, now: float, silence_ms: int) -> None:
        """The user has finished. Of tools that still run, what is to come counts."""
        self._asked_at = now
        self._silence_ms = silence_ms
        self._tools_since = now
        self._tools_s = 0.0

    def forget(self) -> None:
        """No answer is to come."""
        self._asked_at = None

    def tools_started(self, count: int, now: float) -> None:
        """The model called so many tools, which run side by side."""
        if not self._tools:
            self._tools_since = now
        self._tools += count

    def tool_finished(self, now: float) -> None:
        """One of them has ended."""
        self._tools -= 1
        if not self._tools:
            self._tools_s += now - self._tools_since

    def answered(self, turn: int, now: float) -> TurnMetrics | None:
        """The answer begins; None when nothing was asked. `tool_ms` is left out where no tool was called."""
        if self._asked_at is None:
            return None
        waited = now - self._asked_at
        in_tools = self._tools_s + (now - self._tools_since if self._tools else 0.0)
        self._asked_at = None
        waited_ms, tool_ms = round(waited * 1000), round(in_tools * 1000)
        return TurnMetrics(
            turn,
            eou_to_first_audio_ms=waited_ms,
            silence_ms=self._silence_ms,
            model_ms=waited_ms - tool_ms,
            tool_ms=tool_ms if self._tools or self._tools_s else None,
        )
