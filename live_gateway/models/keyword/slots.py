"""Fills a tool's parameters from what was said. Nothing is made up: a value comes out of the user's own words or not at all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from live_gateway.models.keyword.tools import KnownTool, Parameter
from live_gateway.models.keyword.units import Quantity, quantities
from live_gateway.models.keyword.words import (
    CONTRARY_VERBS,
    DETERMINERS,
    FUNCTION_WORDS,
    LIGHT_VERBS,
    NEGATIONS,
    TIME_WORDS,
    split_name,
    stem,
    word_set,
)
from live_gateway.voice.numbers import Token, tokenize

MAX_BARE_WORDS = 12
"""A longer reply to a question is not taken as the value of a slot."""

_NAMED_PLACE = word_set("city location place country region town village airport station")
_PLACE = _NAMED_PLACE | word_set("state area where room address")
_TIME = frozenset(["date", "day", "time", "when", "weekday"])
_TEXT = word_set("text message content body note title reminder task item query question phrase sentence words what name label")
_PREPOSITIONS: tuple[tuple[frozenset[str], tuple[str, ...]], ...] = (
    (frozenset(["origin", "source", "from", "start", "departure"]), ("from",)),
    (frozenset(["destination", "target", "to", "recipient", "receiver"]), ("to", "for")),
    (_PLACE, ("in", "at", "for", "near", "around", "of", "to", "from")),
    (_TIME, ("on", "at", "for", "by")),
    (frozenset(["topic", "subject", "query", "about", "term", "keyword"]), ("about", "on", "for")),
    (frozenset(["name", "person", "contact", "user", "label", "title"]), ("named", "called", "titled", "for", "to")),
    (frozenset(["text", "message", "content", "body", "note", "reminder", "task", "phrase"]), ("saying", "that", "to", "about")),
)
_ANY = ("named", "called", "saying", "about", "for", "in", "at", "to", "on", "with")
_ENDS = word_set("in at for on from to with by about near around named called saying and then please when while if")
_TRUE = word_set("on yes true enable enabled open activate active start yeah yep sure")
_FALSE = frozenset(["off", "no", "false", "disable", "disabled", "close", "closed", "deactivate", "stop", "nope", "not"])
_FILLERS = word_set("in at for to on from it's its it is i mean make the a an um uh well okay ok please set let's say about that i'd like")


@dataclass(slots=True)
class Utterance:
    """What was said, cut into tokens. `used`: tokens that already fill a slot."""

    text: str
    tokens: list[Token] = field(default_factory=list)
    amounts: list[Quantity] = field(default_factory=list)
    used: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, text: str) -> Utterance:
        """Read a text."""
        tokens = tokenize(text)
        return cls(text, tokens, quantities(text, tokens))

    def forbids(self, tool: KnownTool) -> bool:
        """Whether a word that fills no slot asks for the opposite of what this tool does: "cancel the timer", "do not move"."""
        unused = [token.word for index, token in enumerate(self.tokens) if index not in self.used]
        contrary = any(stem(word) in CONTRARY_VERBS and stem(word) not in tool.vocabulary for word in unused)
        return contrary or any(word in NEGATIONS and stem(word) not in tool.vocabulary for word in unused)

    @property
    def stems(self) -> set[str]:
        """The stems of all words that mean something."""
        return {stem(token.word) for token in self.tokens if token.word not in FUNCTION_WORDS}

    def span(self, first: int, last: int) -> str:
        """The text of `tokens[first:last]` as it was said."""
        return self.text[self.tokens[first].start : self.tokens[last - 1].end]


@dataclass(frozen=True, slots=True)
class Filled:
    """Arguments that were said; `measured` of them are certain by themselves: choices, and numbers with the right unit."""

    args: dict[str, Any]
    measured: int


def fill(tool: KnownTool, utterance: Utterance) -> Filled:
    """The parameters that the user named. Choices and numbers first, texts from what is left; required ones before the others."""
    utterance.used = set()
    args: dict[str, Any] = {}
    measured = 0
    ordered = sorted(tool.parameters, key=lambda parameter: not parameter.required)
    for parameter in ordered:
        value = _choice(parameter, utterance) if parameter.choices else _boolean(parameter, utterance)
        if value is not None:
            args[parameter.name] = value
            measured += bool(parameter.choices)
    measured += _numbers([p for p in ordered if p.kind in ("integer", "number") and not p.choices], utterance, args)
    texts = [p for p in ordered if p.kind == "string" and not p.choices]
    for parameter in texts:
        value = _phrase(parameter, tool, utterance)
        if value is not None:
            args[parameter.name] = value
    open_texts = [p for p in texts if p.required and p.name not in args]
    if len(open_texts) == 1 and (value := _left_over(open_texts[0], tool, utterance)) is not None:
        args[open_texts[0].name] = value
    return Filled(args, measured)


def fill_one(parameter: Parameter, text: str) -> Any | None:
    """The value in a bare reply to a question about this parameter; None when there is none."""
    utterance = Utterance.of(text)
    if parameter.choices:
        return _choice(parameter, utterance)
    if parameter.kind == "boolean":
        return _truth(utterance)
    if parameter.kind in ("integer", "number"):
        args: dict[str, Any] = {}
        _numbers([parameter], utterance, args)
        return args.get(parameter.name)
    if parameter.kind != "string" or not 0 < len(utterance.tokens) <= MAX_BARE_WORDS:
        return None
    first, last = 0, len(utterance.tokens)
    while first < last - 1 and utterance.tokens[first].word in _FILLERS:
        first += 1
    while last > first + 1 and utterance.tokens[last - 1].word in ("please", "thanks"):
        last -= 1
    return _as_value(parameter, utterance.span(first, last))


def _choice(parameter: Parameter, utterance: Utterance) -> Any | None:
    """The choice whose words were said. A word of four letters or more may also be a choice's beginning ("back" for "backward")."""
    best: tuple[int, Any, set[int]] | None = None
    for choice in parameter.choices:
        where = _find(split_name(str(choice)), utterance)
        if where and (best is None or len(where) > best[0]):
            best = (len(where), choice, where)
    if best is None:
        return None
    utterance.used |= best[2]
    return best[1]


def _find(words: list[str], utterance: Utterance) -> set[int]:
    """Where all of these words stand, any order; empty when one is missing."""
    where: set[int] = set()
    for word in words:
        index = next((i for i, token in enumerate(utterance.tokens) if i not in utterance.used and _same(token.word, word)), None)
        if index is None:
            return set()
        where.add(index)
    return where


def _same(said: str, word: str) -> bool:
    return stem(said) == stem(word) or (len(said) >= 4 and word.startswith(said))


def _boolean(parameter: Parameter, utterance: Utterance) -> bool | None:
    return _truth(utterance) if parameter.kind == "boolean" and parameter.required else None


def _truth(utterance: Utterance) -> bool | None:
    for index, token in enumerate(utterance.tokens):
        if token.word in _TRUE or token.word in _FALSE:
            utterance.used.add(index)
            return token.word in _TRUE
    return None


def _numbers(parameters: list[Parameter], utterance: Utterance, args: dict[str, Any]) -> int:
    """Give each parameter a quantity of its kind; then those that are left a number without a unit. How many had the right unit."""
    free = list(utterance.amounts)
    measured = 0
    for exact in (True, False):
        for parameter in parameters:
            if parameter.name in args:
                continue
            for amount in free:
                value = _in_unit(amount, parameter, exact=exact)
                if value is not None:
                    args[parameter.name] = value
                    utterance.used |= set(range(amount.first, amount.last))
                    free.remove(amount)
                    measured += exact
                    break
    return measured


def _in_unit(amount: Quantity, parameter: Parameter, *, exact: bool) -> float | int | None:
    if exact:
        if parameter.unit is None or amount.unit is None or amount.unit.dimension != parameter.unit.dimension:
            return None
        value = amount.value * amount.unit.factor / parameter.unit.factor
    elif amount.unit is not None and parameter.unit is not None:
        return None
    else:
        value = amount.value
    value = round(value, 6)
    if value == int(value):
        return int(value)
    return None if parameter.kind == "integer" else value


def _phrase(parameter: Parameter, tool: KnownTool, utterance: Utterance) -> str | None:
    """What follows a preposition that suits the parameter, up to the next one."""
    known = frozenset(parameter.words)
    prepositions = next((preps for names, preps in _PREPOSITIONS if names & known), _ANY)
    for preposition in prepositions:
        for index, token in enumerate(utterance.tokens):
            if token.word == preposition and (span := _after(index + 1, parameter, tool, utterance)):
                return _take(parameter, span, utterance)
    if _TIME & known:
        for index, token in enumerate(utterance.tokens):
            if (
                token.word in TIME_WORDS
                and index not in utterance.used
                and token.word not in ("now", "right", "again", "exactly", "outside")
            ):
                return _take(parameter, (index, index + 1), utterance)
    return None


def _after(first: int, parameter: Parameter, tool: KnownTool, utterance: Utterance) -> tuple[int, int] | None:
    tokens = utterance.tokens
    timely = bool(_TIME & frozenset(parameter.words))
    free_text = bool(_TEXT & frozenset(parameter.words)) and not _PLACE & frozenset(parameter.words)
    while first < len(tokens) and tokens[first].word in DETERMINERS and not free_text:
        first += 1
    last = first
    while last < len(tokens) and last not in utterance.used:
        word = tokens[last].word
        if not free_text and ((word in _ENDS and last > first) or (word in TIME_WORDS and not timely)):
            break
        last += 1
    while last > first and tokens[last - 1].word in ("please", "and", "then"):
        last -= 1
    if last == first or tokens[first].word in _ENDS:
        return None
    said = {stem(token.word) for token in tokens[first:last] if token.word not in FUNCTION_WORDS}
    measured = any(first <= amount.first < last and amount.unit for amount in utterance.amounts)
    if not said or said <= tool.name_stems or (measured and not free_text):
        return None
    return first, last


def _left_over(parameter: Parameter, tool: KnownTool, utterance: Utterance) -> str | None:
    """The only text that is wanted, without a preposition before it: a name with a capital letter, or what follows the tool's own words."""
    known = frozenset(parameter.words)
    if known & (_PLACE | _TIME):
        return _proper_noun(parameter, tool, utterance) if known & _PLACE else None
    spoken_for = [i for i, token in enumerate(utterance.tokens) if i in utterance.used or stem(token.word) in tool.name_stems]
    if not spoken_for:
        return None
    first, last = spoken_for[-1] + 1, len(utterance.tokens)
    while first < last and utterance.tokens[first].word in FUNCTION_WORDS | LIGHT_VERBS:
        first += 1
    while last > first and utterance.tokens[last - 1].word in ("please", "now"):
        last -= 1
    return _take(parameter, (first, last), utterance) if first < last else None


def _proper_noun(parameter: Parameter, tool: KnownTool, utterance: Utterance) -> str | None:
    for first, token in enumerate(utterance.tokens):
        if first and _is_name(token, tool) and first not in utterance.used:
            last = first + 1
            while last < len(utterance.tokens) and _is_name(utterance.tokens[last], tool):
                last += 1
            return _take(parameter, (first, last), utterance)
    return None


def _is_name(token: Token, tool: KnownTool) -> bool:
    return token.text[:1].isupper() and token.word not in FUNCTION_WORDS | TIME_WORDS and stem(token.word) not in tool.vocabulary


def _take(parameter: Parameter, span: tuple[int, int], utterance: Utterance) -> str:
    utterance.used |= set(range(*span))
    return _as_value(parameter, utterance.span(*span))


def _as_value(parameter: Parameter, text: str) -> str:
    """A place is a name, however it was written down."""
    return text.title() if text.islower() and _NAMED_PLACE & frozenset(parameter.words) else text
