"""JSON schemas of tool parameters: written so that every provider takes them, and readable from any declaration.

A schema made here has no titles, no references (but for types that contain themselves), no `const` and no `oneOf`: what Gemini, OpenAI and
a small local matcher all understand.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from live_gateway.content import FunctionDeclaration

_REF = "#/$defs/"


def parameters_schema(declaration: FunctionDeclaration) -> dict[str, Any]:
    """The parameters of a function as a JSON schema of type `object`, whichever way they were declared. The caller may change it."""
    if isinstance(declaration.parameters_json_schema, Mapping):
        schema = copy.deepcopy(dict(declaration.parameters_json_schema))
    elif declaration.parameters is not None:
        schema = _from_openapi(declaration.parameters.model_dump(mode="json", by_alias=True, exclude_none=True))
    else:
        schema = {}
    schema.setdefault("type", "object")
    schema.setdefault("properties", {})
    return schema


def object_schema(properties: Mapping[str, Mapping[str, Any]], required: Iterable[str], defs: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object with these properties; references into `defs` are put in place."""
    plain = _Plain(defs)
    schema: dict[str, Any] = {"type": "object", "properties": {name: plain.schema(inner) for name, inner in properties.items()}}
    if names := list(required):
        schema["required"] = names
    if plain.kept:
        schema["$defs"] = plain.kept
    return schema


def without_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of `X` for that of `X | None`: for a parameter that may be left out, null says nothing more."""
    choices = schema.get("anyOf")
    if choices is None:
        return dict(schema)
    rest = [choice for choice in choices if choice.get("type") != "null"]
    others = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**rest[0], **others} if len(rest) == 1 else {**others, "anyOf": rest}


def type_words(schema: Mapping[str, Any]) -> str:
    """The type in words for a model: `number`, `array of string`, `one of "left", "right"`."""
    if choices := schema.get("enum"):
        return "one of " + ", ".join(f'"{choice}"' if isinstance(choice, str) else str(choice) for choice in choices)
    if choices := schema.get("anyOf"):
        return " or ".join(type_words(choice) for choice in choices)
    kind = schema.get("type", "value")
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return f"array of {type_words(schema['items'])}"
    if kind == "object" and (fields := schema.get("properties")):
        return f"object with {', '.join(fields)}"
    return f"{kind} ({schema['format']})" if "format" in schema else str(kind)


class _Plain:
    """Rewrites schemas into the plain form; `kept` collects the definitions that must stay because they contain themselves."""

    def __init__(self, defs: Mapping[str, Any]) -> None:
        self._defs = defs
        self._inside: tuple[str, ...] = ()
        self.kept: dict[str, Any] = {}

    def schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        if isinstance(ref := schema.get("$ref"), str) and ref.startswith(_REF):
            siblings = {key: value for key, value in schema.items() if key != "$ref"}
            return {**self._resolved(ref.removeprefix(_REF)), **self.schema(siblings)}
        plain: dict[str, Any] = {}
        for key, value in schema.items():
            if key in ("title", "discriminator"):
                continue
            if key == "const":
                plain["enum"] = [value]
            elif key in ("anyOf", "oneOf", "allOf", "prefixItems"):
                plain["anyOf" if key == "oneOf" else key] = [self.schema(inner) for inner in value]
            elif key in ("properties", "patternProperties"):
                plain[key] = {name: self.schema(inner) for name, inner in value.items()}
            elif key in ("items", "additionalProperties", "propertyNames") and isinstance(value, Mapping):
                plain[key] = self.schema(value)
            else:
                plain[key] = copy.deepcopy(value)
        return plain

    def _resolved(self, name: str) -> dict[str, Any]:
        if name in self._inside:
            self.kept.setdefault(name, {})
            return {"$ref": f"{_REF}{name}"}
        self._inside = (*self._inside, name)
        resolved = self.schema(self._defs[name])
        self._inside = self._inside[:-1]
        if name in self.kept:
            self.kept[name] = resolved
        return resolved


def _from_openapi(schema: Mapping[str, Any]) -> dict[str, Any]:
    """JSON schema of a dumped `google.genai.types.Schema`: types in lower case, `nullable` as a type of its own."""
    plain: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "type":
            plain["type"] = value.lower()
        elif key == "anyOf":
            plain["anyOf"] = [_from_openapi(inner) for inner in value]
        elif key == "properties":
            plain["properties"] = {name: _from_openapi(inner) for name, inner in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, Mapping):
            plain[key] = _from_openapi(value)
        elif key not in ("nullable", "propertyOrdering", "example", "title"):
            plain[key] = value
    if schema.get("nullable") and "type" in plain:
        plain["type"] = [plain["type"], "null"]
    return plain
