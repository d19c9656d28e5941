"""Was that the user, or our own answer coming back through the microphone? Pure.

A browser's echo cancellation removes most of an answer that plays, and needs a moment to learn the room. What leaks through is speech
to every detector, and a recogniser finds the answer's own words in it. So, while an answer plays, speech counts as the user's only after
enough voiced sound (`voiced_ms` within `window_ms`, clearly above the threshold) and after its words turned out not to be the answer's.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from difflib import SequenceMatcher
from statistics import median
from typing import Literal

from live_gateway.voice.base import INPUT_HZ
from live_gateway.voice.level import loudness
from live_gateway.voice.numbers import normalise, spell_digits

MS = INPUT_HZ // 1000
ECHO_OVERLAP = 0.6
"""From this share of its words on, what was heard is the answer itself."""
REPLY_WORDS = 300
"""How much of the end of a long answer is compared."""

Verdict = Literal["user", "echo", "unsure"]

_COMMANDS = frozenset(
    ["stop", "wait", "no", "hold on", "cancel", "enough", "pause", "quiet", "be quiet", "stop it", "never mind", "shut up"]
)
"""Said over an answer, and not by it, these need no second look."""
_PAUSE_MS = 300
"""A shorter pause does not divide speech."""
_LOUDER = 3.0
"""Speech counts when it is so many times louder than what echo usually is: echo itself seldom gets there."""
_FORGETS_S = 4.0
"""After so long only half of the echo's loudness is believed any more."""
_REMEMBERED_FRAMES = 40
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
    """When speech over an answer that plays counts. Milliseconds, but for `probability`, `level` and the likenesses.

    voiced_ms of window_ms have to be speech (above `probability`) and not too faint (mean absolute sample above `level`) before the words
    are looked at. In audio of `user_ms` or more that is less like the answer than `unlike` it is the user; of `echo_ms` or more and as
    much alike as `alike`, or `the_same` at any length, the answer (`EchoReference`). quiet_ms: so long nothing was heard of an answer that
    played, so the listener's echo cancellation works, and the first look counts. warm_up_ms: for so long after the first answer began to
    play it may still be learning; until then `warm_up_voiced_ms` are wanted.
    """

    voiced_ms: int = 250
    window_ms: int = 350
    probability: float = 0.7
    level: float = 40.0
    user_ms: int = 1_000
    unlike: float = 0.66
    echo_ms: int = 1_200
    alike: float = 0.68
    the_same: float = 0.84
    quiet_ms: int = 800
    warm_up_ms: int = 2_000
    warm_up_voiced_ms: int = 500


class BargeIn:
    """Whether the user speaks over an answer. Fed with every frame; time is counted in samples.

    Once echo was found by its sound, its loudness is known, and what is hardly louder is not listened to until the answer has played.
    """

    def __init__(self, config: BargeInConfig | None = None) -> None:
        self._config = config or BargeInConfig()
        self._recent: deque[tuple[int, bool]] = deque()
        self._levels: deque[float] = deque(maxlen=_REMEMBERED_FRAMES)
        self._loud_enough = False
        self._played = 0
        self._quiet = 0
        self._quiet_before = 0
        self._echo_level = 0.0

    @property
    def warming_up(self) -> bool:
        """Whether the listener's echo cancellation may not have learned the room yet."""
        return self._played < self._config.warm_up_ms * MS

    @property
    def loud_enough(self) -> bool:
        """Whether enough clearly voiced sound was heard since the speech began."""
        return self._loud_enough

    @property
    def least_loudness(self) -> float:
        """What is less loud than this is taken for echo; 0 while its loudness is not known."""
        return _LOUDER * self._echo_level

    def listen(self, pcm: bytes, probability: float, *, playing: bool) -> float:
        """One more frame; `playing` until its echo has died away. The probability that it is speech of the user."""
        samples, level = len(pcm) // 2, loudness(pcm)
        if not playing:
            self._quiet = self._quiet_before = 0
            self._echo_level = 0.0
        else:
            self._played += samples
            self._watch(samples, probability)
            self._echo_level *= 0.5 ** (samples / (_FORGETS_S * INPUT_HZ))
            if level < self.least_loudness:
                probability = 0.0
        config = self._config
        self._recent.append((samples, probability > config.probability and level > config.level))
        if probability > config.probability:
            self._levels.append(level)
        while sum(length for length, _ in self._recent) > (self._voiced_ms + config.window_ms - config.voiced_ms) * MS:
            self._recent.popleft()
        if sum(length for length, clear in self._recent if clear) >= self._voiced_ms * MS:
            self._loud_enough = True
        return probability

    def began(self) -> None:
        """New speech, of which the last frames are already part."""
        self._loud_enough = False

    def judge(self, heard: str, reply: str, likeness: float, length_ms: int, *, last: bool = False) -> Verdict:
        """Whose words these are. likeness: to the sound of the reply. length_ms: of the audio they stand in. last: the speech is over.

        A piece of echo is easily heard as something else, and a short one may sound like anything: short speech is judged when it is over.
        """
        words, config = normalise(heard), self._config
        if not words or not self._loud_enough:
            return "unsure"
        if likeness >= config.alike and length_ms >= config.echo_ms:
            self._learn_echo()
            return "echo"
        if likeness >= config.the_same or is_echo(heard, reply):
            return "echo"
        unlike = likeness < config.unlike and length_ms >= config.user_ms
        if last or unlike or not reply or words in _COMMANDS or self._quiet_before >= config.quiet_ms * MS:
            return "user"
        return "unsure"

    @property
    def _voiced_ms(self) -> int:
        return self._config.warm_up_voiced_ms if self.warming_up else self._config.voiced_ms

    def _watch(self, samples: int, probability: float) -> None:
        """For how long nothing was heard of the answer before the speech now."""
        if probability < self._config.probability:
            self._quiet += samples
            return
        if self._quiet >= _PAUSE_MS * MS:
            self._quiet_before = self._quiet
        self._quiet = 0

    def _learn_echo(self) -> None:
        """How loud the echo is that was just heard: the median, since the user may already be speaking over its end."""
        if self._levels:
            self._echo_level = max(self._echo_level, median(self._levels))


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
