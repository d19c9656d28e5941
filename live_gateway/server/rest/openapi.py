"""The OpenAPI 3.1 document, made of the table of operations and of the models. Nothing in it is written by hand for one endpoint."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from live_gateway import __version__
from live_gateway.events import Event
from live_gateway.server.messages import ID_PATTERN
from live_gateway.server.rest.operations import Operation
from live_gateway.server.rest.problems import ErrorFrame, InvalidRequest, Problem

_REF = "#/components/schemas/{name}"
_ALWAYS = (500, 503)
_ID = {"type": "string", "pattern": ID_PATTERN}
_PATH: dict[str, dict[str, Any]] = {
    "user_id": _ID,
    "session_id": _ID,
    "artifact_name": {"type": "string", "minLength": 1, "maxLength": 200},
    "version_id": {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 10**18 - 1}, {"const": "latest"}]},
}


def document(operations: Sequence[Operation], apps: Sequence[str]) -> dict[str, Any]:
    """The document that describes these operations of a server with these apps."""
    schemas, refs = _schemas(operations)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _describe(operation, refs, apps)
    return {
        "openapi": "3.1.0",
        "info": {"title": "live_gateway", "version": __version__, "summary": "Run agents, and keep their sessions and artifacts."},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _describe(operation: Operation, refs: dict[Any, dict[str, Any]], apps: Sequence[str]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "parameters": [*_path_parameters(operation.path, apps), *_other_parameters(operation)],
        "responses": _responses(operation, refs),
    }
    if operation.body is not None:
        content = {"application/json": {"schema": refs[operation.body]}}
        described["requestBody"] = {"required": operation.body_required, "content": content}
    if operation.deprecated:
        described["deprecated"] = True
    return described


def _path_parameters(path: str, apps: Sequence[str]) -> list[dict[str, Any]]:
    schemas = {**_PATH, "app_name": {"enum": list(apps)}}
    return [{"name": name, "in": "path", "required": True, "schema": schemas[name]} for name in re.findall(r"{(\w+)}", path)]


def _other_parameters(operation: Operation) -> list[dict[str, Any]]:
    return [
        {"name": each.name, "in": each.place, "required": False, "schema": each.schema, "description": each.description}
        for each in operation.parameters
    ]


def _responses(operation: Operation, refs: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    schema = refs[operation.answers] if operation.answers is not None else {"type": "null"}
    if operation.media_type != "application/json":
        schema = _frame(schema)
    responses: dict[str, Any] = {"200": {"description": "OK", "content": {operation.media_type: {"schema": schema}}}}
    body = (400, 408, 413, 415) if operation.body is not None else ()
    invalid = operation.body is not None or operation.parameters or "_id}" in operation.path
    for status in sorted({*_ALWAYS, *body, *operation.errors, *((422,) if invalid else ())}):
        content = {"application/json": {"schema": refs[InvalidRequest if status == 422 else Problem]}}
        responses[str(status)] = {"description": HTTPStatus(status).phrase, "content": content}
    return responses


def _frame(schema: dict[str, Any]) -> dict[str, Any]:
    """One frame of a stream of events, whose data is JSON of this schema, or of an `ErrorFrame`."""
    data = {"anyOf": [schema, {"$ref": _REF.format(name=ErrorFrame.__name__)}]}
    content = {"type": "string", "contentMediaType": "application/json", "contentSchema": data}
    return {"type": "object", "properties": {"id": {"type": "string"}, "data": content}}


def _schemas(operations: Sequence[Operation]) -> tuple[dict[str, Any], dict[Any, dict[str, Any]]]:
    """The schemas of all models by name, and a reference for each type that an operation takes or gives."""
    answers = [Problem, InvalidRequest, ErrorFrame, Event]
    answers += [operation.answers for operation in operations if operation.answers is not None]
    contents: dict[type[BaseModel], None] = {}

    def hook(kind: type) -> dict[str, Any]:
        if not issubclass(kind, BaseModel):
            raise NotImplementedError(kind)
        contents[kind] = None
        return {"$ref": _REF.format(name=kind.__name__)}

    given, structs = msgspec.json.schema_components(answers, schema_hook=hook, ref_template=_REF)
    bodies = _unique(operation.body for operation in operations if operation.body is not None)
    taken, inputs = _models(bodies, "validation")
    _, outputs = _models(list(contents), "serialization")
    refs = dict(zip(_keys(answers), given, strict=True)) | taken
    return {**structs, **inputs, **outputs}, refs


def _models(models: Sequence[type[BaseModel]], mode: Any) -> tuple[dict[Any, dict[str, Any]], dict[str, Any]]:
    template = _REF.format(name="{model}")
    made, definitions = models_json_schema([(model, mode) for model in models], ref_template=template)
    return {model: made[model, mode] for model in models}, definitions.get("$defs", {})


def _keys(types: Iterable[Any]) -> list[Any]:
    return list(types)


def _unique(models: Iterable[type[BaseModel]]) -> list[type[BaseModel]]:
    return list(dict.fromkeys(models))
