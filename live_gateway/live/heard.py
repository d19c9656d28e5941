"""What of an answer was heard: from samples played to characters of its transcription.

A provider gives no times for the words of its voice, so the share of samples played is taken as the share of the text, cut before the word
that it falls into. The record says characters, never more than were spoken. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Words:
    """A response's voice and its words. `item`: id of the event that holds the transcription. `samples`: how much was made, at 24 kHz."""

    samples: int = 0
    item: str = ""
    text: str = ""


class Spoken:
    """Which words belong to which response. A transcription that comes before the audio belongs to the response that then begins."""

    def __init__(self) -> None:
        self._responses: dict[int, Words] = {}
        self._early: Words | None = None
        self._of_item: dict[str, Words] = {}

    def response_started(self, response: int) -> None:
        """A response begins."""
        words, self._early = self._early or Words(), None
        self._responses[response] = words

    def samples(self, response: int, count: int) -> None:
        """The response grew by this many samples."""
        self._responses[response].samples += count

    def words(self, item: str, text: str, making: int) -> None:
        """The text of a transcription so far. `making`: the response that the model is making, 0 for none."""
        words = self._of_item.get(item)
        if words is None:
            words = self._place(making)
            words.item = item
            self._of_item = {item: words}
        words.text = text

    def take(self, response: int) -> Words | None:
        """The response is over: its words, if it has any."""
        words = self._responses.pop(response, None)
        return words if words is not None and words.item else None

    def _place(self, making: int) -> Words:
        if making in self._responses and not self._responses[making].item:
            return self._responses[making]
        newest = max(self._responses, default=0)
        if not making and newest and not self._responses[newest].item:
            return self._responses[newest]
        if making:
            return Words()  # a second transcription of one response: what was heard of it is not known
        self._early = Words()
        return self._early


def heard(words: Words, heard_samples: int) -> dict[str, Any] | None:
    """What to record of a response of which only `heard_samples` were played; None when there is nothing to say about it."""
    if not words.text or not words.samples:
        return None
    share = min(1.0, heard_samples / words.samples)
    return {"item": words.item, "chars": _whole_words(words.text, share)}


def _whole_words(text: str, share: float) -> int:
    cut = int(len(text) * share)
    if cut >= len(text) or text[cut].isspace():
        return cut
    return text.rfind(" ", 0, cut) + 1
