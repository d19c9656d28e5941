"""Cutting a text into sentences as it grows, so that the first can be spoken while the rest is still being written. Pure."""

from __future__ import annotations

import re

MAX_CHARS = 240
"""A longer sentence is cut at a comma or a space, so that nobody waits for its end to hear its beginning."""
_END = re.compile(r"[.!?…]+[\"'”’)\]]*\s+|[。！？]+[”’」』）]*\s*|\n+\s*")
_CLAUSE = re.compile(r"[,;:–—]\s+")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'“‘])(?:[A-Za-z]|(?:[A-Za-z]\.)+[A-Za-z]|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|etc|approx|No|Fig|Vol|dept|est|min|max|sec|hrs?|in|ft|oz|lbs?)$",
    re.IGNORECASE,
)
_MEANT_AS_WORD = frozenset({"in", "no", "i", "a"})


class SentenceSplitter:
    """Feed it pieces of a text, it gives whole sentences, each with the white space that follows it: joined, they are the text."""

    def __init__(self, max_chars: int = MAX_CHARS) -> None:
        self._max = max_chars
        self._rest = ""

    def feed(self, piece: str) -> list[str]:
        """The sentences that are certainly complete now."""
        self._rest += piece
        sentences: list[str] = []
        while cut := self._cut():
            sentences.append(self._rest[:cut])
            self._rest = self._rest[cut:]
        return sentences

    def flush(self) -> list[str]:
        """No more text: what is left, if anything."""
        rest, self._rest = self._rest, ""
        return [rest] if rest else []

    def _cut(self) -> int:
        """Where the first sentence ends; 0 when that is not known yet. An end is believed once the next sentence has begun."""
        for match in _END.finditer(self._rest):
            if match.end() >= len(self._rest):
                break
            if match.end() > self._max:
                break
            if self._rest[: match.start()].strip() and self._ends(match):
                return match.end()
        return self._forced_cut() if len(self._rest) > self._max else 0

    def _ends(self, match: re.Match[str]) -> bool:
        mark = match.group()
        if not mark.startswith(".") or "\n" in mark or mark.startswith(".."):
            return True
        if self._rest[match.end()].islower():
            return False
        before = _ABBREVIATION.search(self._rest[: match.start()])
        return before is None or before.group().strip(" (\"'“‘\n\t") in _MEANT_AS_WORD

    def _forced_cut(self) -> int:
        window = self._rest[: self._max]
        clauses = [match.end() for match in _CLAUSE.finditer(window) if match.end() > self._max // 3]
        if clauses:
            return clauses[-1]
        space = window.rfind(" ")
        return space + 1 if space > 0 else self._max


def split_sentences(text: str, max_chars: int = MAX_CHARS) -> list[str]:
    """The sentences of a whole text; joined, they are the text."""
    splitter = SentenceSplitter(max_chars)
    return splitter.feed(text) + splitter.flush()
