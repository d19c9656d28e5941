"""How much a client may send, and how fast (docs/reference/wire.md). Pure: time comes in as an argument.

`TokenBucket` is the usual one. `AudioMeter` counts microphone audio in samples against real time; `EarlyAudio` keeps what is said before
the model is there.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

INPUT_HZ = 16_000
CONTROL_PER_S = 20.0
CONTROL_BURST = 60.0
AUDIO_RATE = 1.25
AUDIO_BURST_S = 5.0
AUDIO_OVER_S = 30.0
MIN_FRAME_SAMPLES = INPUT_HZ // 100
"""A frame counts as at least 10 ms, so that empty frames are not free."""
EARLY_AUDIO_S = 10


class TokenBucket:
    """`rate` tokens per second, at most `burst` saved up."""

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._at = now

    def take(self, amount: float, now: float) -> bool:
        """Whether that many tokens were there; they are then gone."""
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._rate)
        self._at = now
        if amount > self._tokens:
            return False
        self._tokens -= amount
        return True


@dataclass(frozen=True, slots=True)
class AudioVerdict:
    """accepted: the frame may pass. announce: the client is to be told that audio is dropped. over: it has been too fast for too long."""

    accepted: bool
    announce: bool = False
    over: bool = False


_PASS = AudioVerdict(accepted=True)


class AudioMeter:
    """Microphone audio may come at 1.25 times real time with a burst of 5 s. What is faster is dropped; after 30 s of that it is `over`."""

    __slots__ = ("_announced_at", "_bucket", "_last_refused_at", "_over_since")

    def __init__(self, now: float) -> None:
        self._bucket = TokenBucket(AUDIO_RATE * INPUT_HZ, AUDIO_BURST_S * INPUT_HZ, now)
        self._over_since: float | None = None
        self._last_refused_at = now
        self._announced_at: float | None = None

    def take(self, samples: int, now: float) -> AudioVerdict:
        """What to do with a frame of so many samples."""
        if self._bucket.take(max(samples, MIN_FRAME_SAMPLES), now):
            if now - self._last_refused_at > 1.0:
                self._over_since = None
            return _PASS
        self._last_refused_at = now
        if self._over_since is None:
            self._over_since = now
        announce = self._announced_at is None or now - self._announced_at >= AUDIO_BURST_S
        if announce:
            self._announced_at = now
        return AudioVerdict(accepted=False, announce=announce, over=now - self._over_since >= AUDIO_OVER_S)


class EarlyAudio:
    """Microphone audio that came before the model was ready: the newest 10 s of it."""

    __slots__ = ("_dropped", "_frames", "_samples")

    def __init__(self) -> None:
        self._frames: deque[bytes] = deque()
        self._samples = 0
        self._dropped = 0

    def __len__(self) -> int:
        return len(self._frames)

    def push(self, pcm: bytes) -> None:
        """Keep a frame; the oldest goes when there is more than 10 s."""
        self._frames.append(pcm)
        self._samples += len(pcm) // 2
        while self._samples > EARLY_AUDIO_S * INPUT_HZ:
            dropped = len(self._frames.popleft()) // 2
            self._samples -= dropped
            self._dropped += dropped

    def pop(self) -> bytes:
        """The oldest frame."""
        pcm = self._frames.popleft()
        self._samples -= len(pcm) // 2
        return pcm

    def take_dropped_ms(self) -> int:
        """How much was dropped since the last call, in ms."""
        dropped, self._dropped = self._dropped, 0
        return dropped * 1000 // INPUT_HZ
