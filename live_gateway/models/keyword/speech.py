"""What a rule-based model says: results read out, questions for what is missing, and what it can do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from live_gateway.content import TASK_COMPLETED, TRANSFER_TO_AGENT, FunctionResponse
from live_gateway.models.keyword.tools import KnownTool, Parameter
from live_gateway.models.keyword.units import unit_of
from live_gateway.models.keyword.words import enumerate_words, humanise, split_name
from live_gateway.voice.numbers import format_number

SPOKEN_KEYS = ("say", "summary", "message", "result", "output", "answer", "text")
"""A result that has one of these is said with it, the first that there is."""
MAX_ITEMS = 5
_FAILED = frozenset(["error", "failed", "failure"])
_WAITING = frozenset(["pending", "running", "in_progress", "accepted"])
_TEMPERATURE = {"c": "degrees Celsius", "f": "degrees Fahrenheit"}
_DONE = frozenset(["ok", "done", "success", "completed", "succeeded"])


def say_results(responses: Sequence[FunctionResponse]) -> str:
    """What the tools answered, one sentence or more for each."""
    return " ".join(_say_result(humanise(response.name or "tool"), response.response or {}) for response in responses)


def say_abilities(tools: Sequence[KnownTool]) -> str:
    """What the user may ask for."""
    own = [tool.title for tool in tools if tool.name not in (TRANSFER_TO_AGENT, TASK_COMPLETED)]
    handing = [parameter for tool in tools if tool.name == TRANSFER_TO_AGENT for parameter in tool.parameters]
    others = [str(name) for parameter in handing for name in parameter.choices]
    said = [f"I can help with: {enumerate_words(own)}."] if own else []
    if others:
        said.append(f"I can hand you over to {enumerate_words(others, 'or')}.")
    return " ".join(said) or "I have no tools, so there is nothing that I can do."


def not_understood(tools: Sequence[KnownTool]) -> str:
    """The user said something that no rule knows."""
    return f"Sorry, I did not understand that. {say_abilities(tools)}"


def ask_which(tools: Sequence[KnownTool]) -> str:
    """Several tools fit equally well."""
    return f"Do you mean {enumerate_words([tool.title for tool in tools], 'or')}?"


def ask_for(tool: KnownTool, parameter: Parameter) -> str:
    """A question for a parameter that is missing."""
    name = parameter.spoken_name
    if parameter.choices:
        return f"Which {name}: {enumerate_words([str(choice).replace('_', ' ') for choice in parameter.choices], 'or')}?"
    if parameter.kind == "boolean":
        return f"{name.capitalize()}: yes or no?"
    if parameter.unit is not None:
        return f"How many {parameter.unit.name}?"
    if parameter.kind in ("integer", "number"):
        return f"Which number for {name}?"
    if parameter.kind == "string":
        return f"Which {name}?"
    return f"I cannot {tool.title}, because I cannot fill in {name} from what is said."


def _say_result(tool: str, response: Mapping[str, Any]) -> str:
    error = response.get("error")
    status = str(response.get("status", "")).lower()
    if error or status in _FAILED or False in (response.get("ok"), response.get("success")):
        reason = error if isinstance(error, str) else _first_text(response) or (_say(error) if error else "")
        return _sentence(f"That did not work: {reason}" if reason else f"That did not work: {tool} failed")
    if text := _first_text(response):
        return _sentence(text)
    if isinstance(sentence := response.get("status"), str) and " " in sentence and len(response) == 1:
        return _sentence(sentence.replace("_", " "))
    for key in SPOKEN_KEYS:
        if isinstance(value := response.get(key), Mapping) and value:
            return _say_result(tool, value)
    fields = {key: value for key, value in response.items() if value is not None and not key.startswith("_")}
    if status in _WAITING | _DONE:
        fields.pop("status")
    fields = {key: value for key, value in fields.items() if key not in ("ok", "success")}
    if not fields:
        return f"{tool.capitalize()} is still under way." if status in _WAITING else f"{tool.capitalize()}: done."
    if set(fields) <= set(SPOKEN_KEYS):
        return _sentence(_say(next(iter(fields.values()))))
    return _sentence(_say(fields))


def _first_text(response: Mapping[str, Any]) -> str:
    return next((value.strip() for key in SPOKEN_KEYS if isinstance(value := response.get(key), str) and value.strip()), "")


def _say(value: Any) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "yes" if value else "no"
        case float() if not math.isfinite(value):
            return "unknown"
        case int() | float():
            return format_number(value)
        case str():
            return value.strip()
        case Mapping():
            return enumerate_words([_say_field(str(key), entry) for key, entry in value.items() if entry is not None and entry != ""])
        case list() | tuple():
            if not value:
                return "none"
            shown = [_say(entry) for entry in value[:MAX_ITEMS]]
            return enumerate_words([*shown, f"{len(value) - MAX_ITEMS} more"] if len(value) > MAX_ITEMS else shown)
    return str(value)


def _say_field(key: str, value: Any) -> str:
    words = split_name(key) or [key]
    if len(words) > 1 and isinstance(value, int | float) and not isinstance(value, bool):
        unit = unit_of(words[-1])
        spoken = _TEMPERATURE.get(words[-1]) if "temperature" in words else unit.name if unit is not None else None
        if spoken is not None:
            return f"the {' '.join(words[:-1])} is {_say(value)} {spoken}"
    verb = "are" if isinstance(value, list | tuple) else "is"
    return f"the {' '.join(words)} {verb} {_say(value)}"


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."
