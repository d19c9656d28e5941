"""Numbers in English text, written as digits or as words: "10 meters" and "ten meters" say the same. Pure.

`normalise` is for comparing texts, `spell_digits` for measuring a recogniser, `find_numbers` for filling the slots of a command.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TEENS = ("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_UNITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", *_TEENS)
_TENS = dict(zip(("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"), range(20, 100, 10), strict=True))
_SMALL = {word: value for value, word in enumerate(_UNITS)} | {"oh": 0}
_SCALES = {"thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
MAX_WORDS = 40
"""No number is longer in words."""
_SCALE_NAMES = ((1_000_000_000, "billion"), (1_000_000, "million"), (1_000, "thousand"))
_TOKEN = re.compile(r"(?<![\w.,])[-−]?\d+(?:,\d{3})+(?:\.\d+)?(?!\w)|(?<![\w.])[-−]\d+(?:\.\d+)?|\d+(?:\.\d+)?|[^\W\d_]+(?:['’][^\W\d_]+)*")


@dataclass(frozen=True, slots=True)
class Token:
    """A word or a number of a text, at `text[start:end]`."""

    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """The token in lower case, apostrophes straight."""
        return self.text.lower().replace("’", "'")


@dataclass(frozen=True, slots=True)
class Number:
    """A number in a list of tokens: `tokens[first:last]` say `value`."""

    value: float
    first: int
    last: int


def tokenize(text: str) -> list[Token]:
    """Words and numbers in order; punctuation and hyphens only separate."""
    return [Token(match.group(), match.start(), match.end()) for match in _TOKEN.finditer(text)]


def find_numbers(tokens: list[Token]) -> list[Number]:
    """The numbers among the tokens, left to right: digits, words, "two point five", "two and a half", "half a", "a hundred"."""
    numbers: list[Number] = []
    at = 0
    while at < len(tokens):
        found = _number_at(tokens, at)
        if found is None:
            at += 1
        else:
            numbers.append(found)
            at = found.last
    return numbers


def normalise(text: str) -> str:
    """A canonical form: lower case, no punctuation, no hyphens, numbers as digits. Equal texts say the same words."""
    tokens = tokenize(text)
    words: list[str] = []
    at = 0
    for number in find_numbers(tokens):
        words += [token.word for token in tokens[at : number.first]]
        words.append(format_number(number.value))
        at = number.last
    words += [token.word for token in tokens[at:]]
    return " ".join(words)


def spell_digits(text: str) -> str:
    """Lower case, no punctuation, no hyphens, digits as words: "10 meters" becomes "ten meters"."""
    words: list[str] = []
    for token in tokenize(text):
        value = _digits(token.text)
        words.append(token.word if value is None else spell(value))
    return " ".join(words)


def format_number(value: float) -> str:
    """The number as digits, without a decimal point where none is needed."""
    return str(int(value)) if value == int(value) else repr(round(value, 6))


def spell(value: float) -> str:
    """The number in words: 12.5 is "twelve point five"."""
    if value < 0:
        return f"minus {spell(-value)}"
    whole, _, fraction = format_number(value).partition(".")
    words = _spell_whole(int(whole))
    return f"{words} point {' '.join(_UNITS[int(digit)] for digit in fraction)}" if fraction.isdigit() else words


def _spell_whole(value: int) -> str:
    for scale, name in _SCALE_NAMES:
        if value >= scale:
            rest = value % scale
            return f"{_spell_whole(value // scale)} {name}" + (f" {_spell_whole(rest)}" if rest else "")
    if value >= 100:
        return f"{_UNITS[value // 100]} hundred" + (f" {_spell_whole(value % 100)}" if value % 100 else "")
    if value >= 20:
        tens = next(word for word, ten in _TENS.items() if ten == value // 10 * 10)
        return tens + (f" {_UNITS[value % 10]}" if value % 10 else "")
    return _UNITS[value]


def _digits(text: str) -> float | None:
    plain = text.replace(",", "").replace("−", "-")
    return float(plain) if plain.lstrip("-")[:1].isdecimal() else None


def _number_at(tokens: list[Token], first: int) -> Number | None:
    words = [token.word for token in tokens[first : first + MAX_WORDS]]
    sign, skip = (-1.0, 1) if words[0] in ("minus", "negative") else (1.0, 0)
    value, used = _read(words[skip:])
    if not used:
        return None
    return Number(sign * value, first, first + skip + used)


def _read(words: list[str]) -> tuple[float, int]:
    """Value and number of words of the number at the beginning; (0, 0) for none."""
    if not words:
        return 0.0, 0
    value, used = _digits(words[0]), 1
    if value is None:
        value, used = _cardinal(words)
        if not used:
            return _half(words)
        fraction, more = _fraction(words[used:])
    else:
        scale = _SCALES.get(words[1], 100 if words[1] == "hundred" else 1) if len(words) > 1 else 1
        value, used = value * scale, used + (scale > 1)
        fraction, more = 0.0, 0
    if not more and words[used : used + 3] == ["and", "a", "half"]:
        fraction, more = 0.5, 3
    return value + fraction, used + more


def _half(words: list[str]) -> tuple[float, int]:
    if words[0] == "half" and words[1:2] and words[1] in ("a", "an"):
        return 0.5, 2
    if words[:2] == ["a", "half"] or words[:2] == ["one", "half"]:
        return 0.5, 2
    return 0.0, 0


def _fraction(words: list[str]) -> tuple[float, int]:
    if words[:1] != ["point"]:
        return 0.0, 0
    digits = ""
    for word in words[1:]:
        if word not in _SMALL or _SMALL[word] > 9:
            break
        digits += str(_SMALL[word])
    return (float(f"0.{digits}"), 1 + len(digits)) if digits else (0.0, 0)


def _cardinal(words: list[str]) -> tuple[float, int]:
    """Whole number in words: groups below a thousand, each followed by a smaller scale; "and" only after a hundred or a scale."""
    total, used, limit = 0, 0, 10**12
    while used < len(words):
        at = used + 1 if used and words[used] == "and" and words[used - 1] in (*_SCALES, "hundred") else used
        group, length = _below_thousand(words[at:])
        if not length:
            break
        end = at + length
        scale = _SCALES.get(words[end], 1) if end < len(words) else 1
        if scale >= limit:
            break
        total, used, limit = total + group * scale, end + (scale > 1), scale
        if scale == 1:
            break
    return float(total), used


def _below_thousand(words: list[str]) -> tuple[int, int]:
    if words[:1] == ["a"] and words[1:2] and words[1] in ("hundred", *_SCALES):
        value, used = 1, 1
    else:
        value, used = _below_hundred(words)
    if used and 1 <= value <= 99 and words[used : used + 1] == ["hundred"]:
        value, used = value * 100, used + 1
        skip = 1 if words[used : used + 1] == ["and"] else 0
        rest, more = _below_hundred(words[used + skip :])
        if more and rest:
            return value + rest, used + skip + more
    return value, used


def _below_hundred(words: list[str]) -> tuple[int, int]:
    if not words:
        return 0, 0
    if words[0] in _TENS:
        unit = _SMALL.get(words[1], 0) if len(words) > 1 else 0
        return (_TENS[words[0]] + unit, 2) if 1 <= unit <= 9 else (_TENS[words[0]], 1)
    return (_SMALL[words[0]], 1) if words[0] in _SMALL and words[0] != "oh" else (0, 0)
