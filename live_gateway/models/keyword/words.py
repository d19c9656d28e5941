"""English words as rules see them: stems, words without meaning of their own, and verbs that mean much the same."""

from __future__ import annotations

import re


def word_set(words: str) -> frozenset[str]:
    """The words of a text that separates them by white space."""
    return frozenset(words.split())


FUNCTION_WORDS = word_set(
    "a about all also am an and any are as at be been but by can can't could did do does don't for from had has have he hello her "
    "here hey hi him his how how's i i'd i'll i'm i've if in into is isn't it it's its just let let's like ma'am may me might mine "
    "my need no not now of off oh ok okay on or our out over please shall she should sir so some than thank thanks that that's the "
    "their them then there there's these they this those to too uh um until up us want was we were what what's when when's where "
    "where's which who who's whose why will with would yes you you'd you're your"
)
"""Words that say nothing about which tool is meant."""
LIGHT_VERBS = word_set("get set show tell give make find fetch read check look see run use know do ask keep take")
"""Verbs that stand in many tool names and mean little."""
TIME_WORDS = word_set(
    "today tomorrow tonight yesterday now currently monday tuesday wednesday thursday friday saturday sunday morning afternoon "
    "evening noon midnight week weekend month year later soon right again exactly outside"
)
"""Words that say when, and so end the name of a place."""
NEGATIONS = frozenset(["don't", "not", "never", "didn't", "doesn't", "won't", "without"])
CONTRARY_VERBS = frozenset(["stop", "delete"])
"""What these ask for is the opposite of what any other tool does (stems)."""
DETERMINERS = frozenset(["a", "an", "the", "my", "your", "our", "this", "that", "some"])

_GROUPS = (
    "move go drive walk travel head step advance",
    "turn rotate spin",
    "start begin launch",
    "stop halt cancel abort end quit",
    "delete remove clear erase",
    "add create append insert",
    "search find look lookup",
    "buy order purchase",
    "say speak announce",
    "call phone ring dial",
    "send mail transmit",
    "raise increase",
    "lower decrease reduce",
    "forward forwards ahead straight onward",
    "backward backwards back",
    "meter metre",
)
_CANONICAL = {word: group.split()[0] for group in _GROUPS for word in group.split()}
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def stem(word: str) -> str:
    """The word without its usual endings, and one word for several that mean the same."""
    word = word.lower().replace("’", "'").removesuffix("'s")
    if word in _CANONICAL:
        return _CANONICAL[word]
    plain = _strip(word)
    if (same := _CANONICAL.get(plain) or _CANONICAL.get(plain + "e")) is not None:
        return same
    return plain.removesuffix("e") if len(plain) > 3 else plain


def split_name(name: str) -> list[str]:
    """The words of an identifier: `get_weather`, `getWeather` and `get-weather` have the same."""
    return [part.lower() for part in _PARTS.findall(name)]


def humanise(name: str) -> str:
    """An identifier as people would say it."""
    return " ".join(split_name(name))


def content_stems(words: list[str]) -> list[str]:
    """The stems of the words that mean something, in order."""
    return [stem(word) for word in words if word.lower() not in FUNCTION_WORDS]


def enumerate_words(words: list[str], last: str = "and") -> str:
    """ "a, b and c"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}" if words else ""


def _strip(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith(("ses", "xes", "zes", "ches", "shes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    if len(word) > 6 and word.endswith("er"):
        return word[:-2]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and re.search("[aeiouy]", word[: -len(ending)]):
            base = word[: -len(ending)]
            return base[:-1] if len(base) > 3 and base[-1] == base[-2] and base[-1] not in "sl" else base
    return word
