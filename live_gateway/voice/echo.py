"""Was that the user, or our own answer coming back through the microphone? Pure.

A browser's echo cancellation removes most of an answer that plays, and needs a moment to learn the room. What leaks through is speech
to every detector, and a recogniser finds the answer's own words in it. So, while an answer plays, speech counts as the user's only after
enough voiced sound (`voiced_ms` within `window_ms`, clearly above the threshold) and after its words turned out not to be the answer's.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from live_gateway.voice.base import INPUT_HZ
from live_gateway.voice.numbers import normalise, spell_digits

ECHO_OVERLAP = 0.6
"""From this share of its words on, what was heard is the answer itself."""
REPLY_WORDS = 300
"""How much of the end of a long answer is compared."""

Verdict = Literal["user", "echo", "unsure"]

_HALLUCINATED = frozenset(["you", "so", "thank you", "mm", "mhm", "hm", "hmm", "uh", "um", "you know"])
_HALLUCINATION_MS = 400


def is_hallucination(text: str, voiced_ms: int) -> bool:
    """Whether a recogniser most likely made this up: no word at all, or one of its favourites out of hardly any speech."""
    words = normalise(text)
    return not words or (voiced_ms < _HALLUCINATION_MS and words in _HALLUCINATED)


def overlap(heard: str, reply: str) -> float:
    """Share, 0 to 1, of what was heard that stands in the reply in the same order: by words, or by letters, since echo is heard badly."""
    words, spoken = normalise(heard).split(), normalise(reply).split()[-REPLY_WORDS:]
    if not words or not spoken:
        return 0.0
    shares = [_common_words(words, spoken), _common_letters("".join(words), "".join(spoken))]
    shares.append(_common_letters(_letters(heard), _letters(reply)[-8 * REPLY_WORDS :]))
    return max(shares)


def is_echo(heard: str, reply: str, limit: float = ECHO_OVERLAP) -> bool:
    """Whether what was heard is the reply itself."""
    return overlap(heard, reply) >= limit


@dataclass(frozen=True, slots=True, kw_only=True)
class BargeInConfig:
    """When speech over an answer that plays counts. Milliseconds.

    warm_up_ms: for so long after the first answer of a connection began to play, the listener's echo cancellation is still learning;
    until then `warm_up_voiced_ms` of voice are wanted.
    """

    voiced_ms: int = 250
    window_ms: int = 350
    probability: float = 0.7
    warm_up_ms: int = 2_000
    warm_up_voiced_ms: int = 500


class BargeIn:
    """Whether the user speaks over an answer. Fed with every frame; time is counted in samples."""

    def __init__(self, config: BargeInConfig | None = None) -> None:
        self._config = config or BargeInConfig()
        self._recent: deque[tuple[int, bool]] = deque()
        self._loud_enough = False
        self._played = 0
        self._doubts = 0

    @property
    def warming_up(self) -> bool:
        """Whether the listener's echo cancellation may not have learned the room yet."""
        return self._played < self._config.warm_up_ms * INPUT_HZ // 1000

    @property
    def loud_enough(self) -> bool:
        """Whether enough clearly voiced sound was heard since the speech began."""
        return self._loud_enough

    def frame(self, samples: int, probability: float, *, playing: bool) -> bool:
        """One more frame. True when there has just been enough clearly voiced sound to look at the words."""
        if playing:
            self._played += samples
        config = self._config
        voiced_ms = config.warm_up_voiced_ms if self.warming_up else config.voiced_ms
        window = (voiced_ms + config.window_ms - config.voiced_ms) * INPUT_HZ // 1000
        self._recent.append((samples, probability > config.probability))
        while sum(length for length, _ in self._recent) > window:
            self._recent.popleft()
        voiced = sum(length for length, clear in self._recent if clear)
        if self._loud_enough or voiced < voiced_ms * INPUT_HZ // 1000:
            return False
        self._loud_enough = True
        return True

    def judge(self, heard: str, reply: str, *, last: bool = False) -> Verdict:
        """Whose words these are. A single strange word may be echo cut in two: it has to be heard twice, or to be all (`last`)."""
        if not normalise(heard) or not self._loud_enough:
            return "unsure"
        if is_echo(heard, reply):
            self._doubts = 0
            return "echo"
        if last or not reply or self._doubts or self._strange_words(heard, reply) >= 2:
            return "user"
        self._doubts += 1
        return "unsure"

    def began(self) -> None:
        """New speech, of which the last frames are already part."""
        self._loud_enough = False
        self._doubts = 0

    @staticmethod
    def _strange_words(heard: str, reply: str) -> int:
        known = set(normalise(reply).split())
        return sum(word not in known for word in normalise(heard).split())


def _letters(text: str) -> str:
    return "".join(spell_digits(text).replace("'", "").split())


def _common_words(heard: list[str], spoken: list[str]) -> float:
    return sum(block.size for block in SequenceMatcher(None, heard, spoken, autojunk=False).get_matching_blocks()) / len(heard)


def _common_letters(heard: str, spoken: str) -> float:
    """Share of the letters of `heard` that stand in `spoken` in order, close together, and in runs of at least three."""
    longest = SequenceMatcher(None, heard, spoken, autojunk=False).find_longest_match()
    if len(heard) < 6 or longest.size < 3:
        return 0.0
    start = max(0, longest.b - longest.a - 3)
    near = spoken[start : start + len(heard) + 6]
    blocks = SequenceMatcher(None, heard, near, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks if block.size >= 3) / len(heard)
