"""What rules can know of a tool: its words and its parameters, read from its declaration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from live_gateway.content import FunctionDeclaration
from live_gateway.models.keyword.units import Unit, unit_of, unit_of_parameter
from live_gateway.models.keyword.words import FUNCTION_WORDS, LIGHT_VERBS, content_stems, humanise, split_name, stem
from live_gateway.voice.numbers import tokenize

NAME, CHOICE, PARAMETER, DESCRIPTION, PARAMETER_DESCRIPTION, LIGHT = 3.0, 2.5, 1.5, 1.0, 0.5, 0.5
"""How much a word of the user tells, by where the tool has it."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. kind: `string`, `integer`, `number`, `boolean`, or anything else, which rules cannot fill."""

    name: str
    kind: str
    description: str
    required: bool
    choices: tuple[Any, ...]
    unit: Unit | None
    words: tuple[str, ...]

    @property
    def spoken_name(self) -> str:
        """The name as people would say it, without the unit at its end."""
        words = split_name(self.name)
        if len(words) > 1 and unit_of(words[-1]) is not None:
            words = words[:-1]
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class KnownTool:
    """A tool as rules see it. vocabulary: stems and what each tells. name_stems: those of its name."""

    name: str
    title: str
    parameters: tuple[Parameter, ...]
    vocabulary: Mapping[str, float]
    name_stems: frozenset[str]


def known_tool(declaration: FunctionDeclaration) -> KnownTool:
    """Read a declaration."""
    name = declaration.name or ""
    parameters = tuple(_parameters(declaration))
    vocabulary: dict[str, float] = {}

    def learn(words: list[str], weight: float) -> None:
        for word in words:
            told = min(weight, LIGHT) if word in LIGHT_VERBS else weight
            if word not in FUNCTION_WORDS:
                vocabulary[stem(word)] = max(told, vocabulary.get(stem(word), 0.0))

    for parameter in parameters:
        learn(_words(parameter.description), PARAMETER_DESCRIPTION)
    learn(_words(_first_paragraph(declaration.description or "")), DESCRIPTION)
    for parameter in parameters:
        learn(parameter.spoken_name.split(), PARAMETER)
        for choice in parameter.choices:
            learn(split_name(str(choice)), CHOICE)
    learn(split_name(name), NAME)
    return KnownTool(name, humanise(name), parameters, vocabulary, frozenset(content_stems(split_name(name))))


def _first_paragraph(text: str) -> str:
    return text.strip().split("\n\n")[0]


def _words(text: str) -> list[str]:
    return [token.word for token in tokenize(text)]


def _parameters(declaration: FunctionDeclaration) -> list[Parameter]:
    if declaration.parameters_json_schema is not None:
        schema = declaration.parameters_json_schema
    elif declaration.parameters is not None:
        schema = declaration.parameters.model_dump(mode="json", exclude_none=True)
    else:
        return []
    schema = schema if isinstance(schema, Mapping) else {}
    required = schema.get("required") or []
    return [_parameter(name, entry, name in required, schema) for name, entry in (schema.get("properties") or {}).items()]


def _parameter(name: str, entry: Mapping[str, Any], required: bool, root: Mapping[str, Any]) -> Parameter:
    plain = _resolve(entry, root)
    choices = plain.get("enum") or ([plain["const"]] if "const" in plain else [])
    kind = str(plain.get("type") or ("string" if choices else "object")).lower()
    description = str(entry.get("description") or plain.get("description") or "")
    words = split_name(name) or [name.lower()]
    unit = unit_of_parameter(words, description) if kind in ("integer", "number") else None
    return Parameter(name, kind, description, required, tuple(choices), unit, tuple(words))


def _resolve(entry: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The one schema that says what a value looks like: behind a reference, or beside null."""
    reference = entry.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        target: Any = root
        for step in reference[2:].split("/"):
            target = target.get(step, {}) if isinstance(target, Mapping) else {}
        return target if isinstance(target, Mapping) else {}
    for key in ("anyOf", "any_of", "oneOf"):
        options = [_resolve(option, root) for option in entry.get(key) or () if isinstance(option, Mapping)]
        options = [option for option in options if str(option.get("type")).lower() != "null"]
        if options:
            return options[0]
    kind = entry.get("type")
    if isinstance(kind, list):
        return {**entry, "type": next((option for option in kind if option != "null"), "object")}
    return entry
