"""Quantities with units: "two and a half minutes" are 150 seconds. Only units of one kind are ever turned into each other."""

from __future__ import annotations

from dataclasses import dataclass

from live_gateway.voice.numbers import Number, Token, find_numbers


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of a kind (`dimension`); `factor` of the kind's base unit. `name` in the plural."""

    name: str
    dimension: str
    factor: float


@dataclass(frozen=True, slots=True)
class Quantity:
    """`tokens[first:last]` say `value` of a unit; None when no unit was said."""

    value: float
    unit: Unit | None
    first: int
    last: int


_TABLE: dict[str, dict[str, float]] = {
    "time": {
        "milliseconds millisecond ms msec": 0.001,
        "seconds second secs sec s": 1,
        "minutes minute mins min": 60,
        "hours hour hrs hr h": 3_600,
        "days day d": 86_400,
        "weeks week": 604_800,
    },
    "length": {
        "millimeters millimeter millimetres millimetre mm": 0.001,
        "centimeters centimeter centimetres centimetre cm": 0.01,
        "meters meter metres metre m": 1,
        "kilometers kilometer kilometres kilometre km": 1_000,
        "inches inch": 0.0254,
        "feet foot ft": 0.3048,
        "yards yard yd": 0.9144,
        "miles mile mi": 1_609.344,
    },
    "mass": {"grams gram g": 0.001, "kilograms kilogram kilos kilo kg": 1, "pounds pound lb lbs": 0.45359237},
    "volume": {"milliliters milliliter millilitres millilitre ml": 0.001, "liters liter litres litre l": 1},
    "share": {"percent percentage pct": 1},
    "degree": {"degrees degree deg celsius": 1},
    "frequency": {"hertz hz": 1, "kilohertz khz": 1_000},
}
"""The words of each unit, its plural first, and how many of the dimension's base unit it is."""
_WORDS: dict[str, Unit] = {}
for _dimension, _rows in _TABLE.items():
    for _names, _factor in _rows.items():
        _unit = Unit(_names.split()[0], _dimension, _factor)
        _WORDS |= dict.fromkeys(_names.split(), _unit)

_DURATIONS = frozenset(["duration", "delay", "timeout", "countdown"])


def unit_of(word: str) -> Unit | None:
    """The unit that this word names."""
    return _WORDS.get(word.lower())


def unit_of_parameter(name: list[str], description: str) -> Unit | None:
    """The unit that a parameter wants: said by its name (`distance_m`, `seconds`), else by its description ("in metres")."""
    if len(name) > 1 or len(name[0]) > 2:
        for word in reversed(name):
            if (unit := unit_of(word)) is not None:
                return unit
    words = [word.strip(".,;:()[]").lower() for word in description.split()]
    for before, word in zip(["", *words], words, strict=False):
        if before in ("in", "of") and (unit := unit_of(word)) is not None:
            return unit
    for word in words:
        if len(word) > 3 and (unit := unit_of(word)) is not None and word == unit.name:
            return unit
    return _WORDS["seconds"] if _DURATIONS & set(name) else None


def quantities(text: str, tokens: list[Token]) -> list[Quantity]:
    """The quantities in a text, left to right; what is said of one kind in two units in a row is one quantity."""
    found: list[Quantity] = []
    for quantity in _single(text, tokens):
        before = found[-1] if found else None
        if before is not None and _continues(before, quantity, tokens):
            found[-1] = _sum(before, quantity)
        else:
            found.append(quantity)
    return found


def _single(text: str, tokens: list[Token]) -> list[Quantity]:
    numbers = {number.first: number for number in find_numbers(tokens)}
    found: list[Quantity] = []
    at = 0
    while at < len(tokens):
        quantity = _from_number(text, tokens, numbers[at]) if at in numbers else _one(tokens, at)
        if quantity is None:
            at += 1
            continue
        found.append(_and_a_half(tokens, quantity))
        at = found[-1].last
    return found


def _from_number(text: str, tokens: list[Token], number: Number) -> Quantity:
    end = tokens[number.last - 1].end
    if text[end : end + 2].strip().startswith("%"):
        return Quantity(number.value, unit_of("percent"), number.first, number.last)
    unit = unit_of(tokens[number.last].word) if number.last < len(tokens) else None
    return Quantity(number.value, unit, number.first, number.last + (unit is not None))


def _one(tokens: list[Token], at: int) -> Quantity | None:
    """ "a minute", "an hour"."""
    if tokens[at].word in ("a", "an") and at + 1 < len(tokens) and len(tokens[at + 1].word) > 2:
        unit = unit_of(tokens[at + 1].word)
        return Quantity(1, unit, at, at + 2) if unit is not None else None
    return None


def _and_a_half(tokens: list[Token], quantity: Quantity) -> Quantity:
    words = [token.word for token in tokens[quantity.last : quantity.last + 3]]
    if quantity.unit is not None and words == ["and", "a", "half"]:
        return Quantity(quantity.value + 0.5, quantity.unit, quantity.first, quantity.last + 3)
    return quantity


def _continues(before: Quantity, quantity: Quantity, tokens: list[Token]) -> bool:
    between = [token.word for token in tokens[before.last : quantity.first]]
    return (
        before.unit is not None
        and quantity.unit is not None
        and before.unit.dimension == quantity.unit.dimension
        and before.unit.factor > quantity.unit.factor
        and between in ([], ["and"])
    )


def _sum(before: Quantity, quantity: Quantity) -> Quantity:
    assert before.unit is not None
    assert quantity.unit is not None
    value = before.value * before.unit.factor / quantity.unit.factor + quantity.value
    return Quantity(value, quantity.unit, before.first, quantity.last)
