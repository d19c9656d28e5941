"""What a function's signature and docstring say about the arguments it takes.

Types come from the annotations (anything that pydantic knows), texts from the docstring (Google style, `:param`, or numpydoc).
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_type_hints

import docstring_parser
from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from live_gateway.errors import ConfigurationError, ToolError
from live_gateway.tools.schema import object_schema, type_words, without_null

_CONTEXT_NAMES = frozenset(["ctx", "context", "tool_context"])
_CONTEXT_TYPES = frozenset(["ToolContext", "ToolCallContext"])
_PLAIN_TYPES = (str, int, float, bool, list, dict)
_PLAIN_NAMES = frozenset(kind.__name__ for kind in _PLAIN_TYPES)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a tool: how it is checked and how it is declared."""

    name: str
    adapter: TypeAdapter[Any]
    schema: Mapping[str, Any]
    required: bool

    def convert(self, value: Any) -> Any:
        """The value as the function wants it. Raises `ToolError` naming the argument and what it must be."""
        try:
            return self.adapter.validate_python(value)
        except ValidationError as error:
            details = "; ".join(_detail(self.name, problem["loc"], problem["msg"]) for problem in error.errors(include_url=False)[:3])
            raise ToolError(f"{self.name!r}: expected {type_words(self.schema)} ({details})") from None


@dataclass(frozen=True, slots=True)
class ToolSignature:
    """What a function takes. context: name of the parameter that receives the tool context. schema: JSON schema of all arguments."""

    description: str
    arguments: Mapping[str, Argument]
    context: str | None
    schema: Mapping[str, Any]

    def convert(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """The model's arguments checked and converted. Raises `ToolError` that lists everything that is wrong, for the model."""
        values: dict[str, Any] = {}
        problems = [f"{name!r} is not an argument" for name in args if name not in self.arguments]
        if problems:
            problems.append(f"the arguments are: {', '.join(self.arguments) or 'none'}")
        for name, argument in self.arguments.items():
            if name not in args:
                if argument.required:
                    problems.append(f"{name!r} is missing: expected {type_words(argument.schema)}")
                continue
            try:
                values[name] = argument.convert(args[name])
            except ToolError as error:
                if argument.required or args[name] is not None:  # models write null for what they mean to leave out
                    problems.append(str(error))
        if problems:
            raise ToolError("invalid arguments: " + "; ".join(problems))
        return values


def read_signature(function: Callable[..., Any]) -> ToolSignature:
    """Read a function. Raises `ConfigurationError` naming function and parameter where the signature cannot be declared to a model."""
    doc = _docstring(function)
    texts = {param.arg_name: " ".join(param.description.split()) for param in doc.params if param.description}
    adapters: dict[str, TypeAdapter[Any]] = {}
    parameters: dict[str, inspect.Parameter] = {}
    context: str | None = None
    for name, parameter in _parameters(function).items():
        if context is None and _is_context(parameter):
            context = name
        elif parameter.kind not in _NAMED:
            raise _refused(
                function, name, "a model passes arguments by name; *args, **kwargs and positional-only parameters cannot be declared"
            )
        else:
            adapters[name] = _adapter(function, parameter)
            parameters[name] = parameter
    schemas, defs = _json_schemas(function, adapters)
    for name, schema in schemas.items():
        schemas[name] = _described(schema, parameters[name], adapters[name], texts.get(name))
    required = [name for name, parameter in parameters.items() if parameter.default is inspect.Parameter.empty]
    whole = object_schema(schemas, required, defs)
    arguments = {name: Argument(name, adapters[name], whole["properties"][name], name in required) for name in parameters}
    description = "\n".join(text for text in (doc.short_description, doc.long_description) if text)
    return ToolSignature(description, arguments, context, whole)


def _docstring(function: Callable[..., Any]) -> docstring_parser.Docstring:
    text = inspect.getdoc(function) or ""
    try:
        return docstring_parser.parse(text)
    except docstring_parser.ParseError:
        doc = docstring_parser.Docstring()
        doc.short_description = text
        return doc


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        if sys.version_info >= (3, 14):
            from annotationlib import Format

            return inspect.signature(function, annotation_format=Format.FORWARDREF).parameters
        return inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"the signature of {function!r} cannot be read") from error


def _is_context(parameter: inspect.Parameter) -> bool:
    """By the name of its type, since a type behind `if TYPE_CHECKING` is a mere name; or by its own name, where it is no plain data."""
    annotation = parameter.annotation
    if any(_type_name(kind) in _CONTEXT_TYPES for kind in (annotation, *get_args(annotation))):
        return True
    return parameter.name in _CONTEXT_NAMES and _type_name(annotation) not in _PLAIN_NAMES


def _type_name(annotation: Any) -> str:
    """`ToolContext` of the class, of "context.ToolContext | None", of a forward reference; `list` of `list[str]`."""
    written = getattr(annotation, "__forward_arg__", annotation)
    name: str = written if isinstance(written, str) else getattr(annotation, "__name__", "")
    return name.removesuffix("| None").strip().partition("[")[0].rpartition(".")[2]


def _adapter(function: Callable[..., Any], parameter: inspect.Parameter) -> TypeAdapter[Any]:
    annotation = _resolved(function, parameter)
    try:
        try:
            return TypeAdapter(annotation, config=ConfigDict(allow_inf_nan=False))
        except PydanticUserError as error:
            if error.code != "type-adapter-config-unused":  # a model has its own configuration
                raise
            return TypeAdapter(annotation)
    except (PydanticUserError, NameError) as error:
        raise _refused(function, parameter.name, f"its type {annotation!r} cannot be declared") from error


def _resolved(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    if parameter.annotation is inspect.Parameter.empty:
        if isinstance(parameter.default, _PLAIN_TYPES):
            return type(parameter.default)
        raise _refused(function, parameter.name, "it needs a type annotation, so that the model knows what to pass")

    def holder() -> None:
        """Carries the one annotation through `get_type_hints`."""

    holder.__annotations__ = {parameter.name: parameter.annotation}
    names = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return get_type_hints(holder, globalns=names, include_extras=True)[parameter.name]
    except (NameError, TypeError, SyntaxError) as error:
        raise _refused(function, parameter.name, f"its annotation {parameter.annotation!r} cannot be resolved at module level") from error


def _json_schemas(function: Callable[..., Any], adapters: Mapping[str, TypeAdapter[Any]]) -> tuple[dict[str, Any], Mapping[str, Any]]:
    try:
        made, whole = TypeAdapter.json_schemas([(name, "validation", adapter) for name, adapter in adapters.items()])
    except PydanticUserError as error:
        raise ConfigurationError(f"tool {_name(function)!r}: a parameter's type has no JSON schema: {error.message}") from error
    return {name: dict(schema) for (name, _mode), schema in made.items()}, whole.get("$defs", {})


def _described(schema: Mapping[str, Any], parameter: inspect.Parameter, adapter: TypeAdapter[Any], text: str | None) -> dict[str, Any]:
    described = dict(schema)
    if parameter.default is not inspect.Parameter.empty:
        described = without_null(schema)
        try:
            default = adapter.dump_python(parameter.default, mode="json", warnings=False)
        except PydanticSerializationError:  # a default of the function's own kind, of no use to the model
            default = None
        if default is not None:
            described["default"] = default
    if text:
        described["description"] = text
    return described


def _detail(argument: str, place: tuple[int | str, ...], message: str) -> str:
    path = ".".join(str(step) for step in (argument, *place))
    text = message[:1].lower() + message[1:]
    return f"{path}: {text}" if place else text


def _refused(function: Callable[..., Any], parameter: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"tool {_name(function)!r}, parameter {parameter!r}: {why}")


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", repr(function))
