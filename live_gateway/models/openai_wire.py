"""Contents as chat-completions messages, and answers back. Pure: dicts in, dicts out."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from live_gateway.content import (
    Blob,
    Content,
    FinishReason,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GenerateContentConfig,
    Part,
)
from live_gateway.errors import ModelError
from live_gateway.models.base import ModelRequest

_FINISH = {
    "stop": FinishReason.STOP,
    "length": FinishReason.MAX_TOKENS,
    "tool_calls": FinishReason.STOP,
    "content_filter": FinishReason.SAFETY,
}
_SETTINGS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_output_tokens": "max_tokens",
    "stop_sequences": "stop",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "seed": "seed",
}
_CHOICE = {"ANY": "required", "NONE": "none", "AUTO": "auto"}


def body_of(model: str, request: ModelRequest) -> dict[str, Any]:
    """The request body. Raises `ModelError` for a part that this wire cannot carry."""
    body: dict[str, Any] = {"model": model, "messages": _Messages(request.instruction).of(request.contents), "stream": request.stream}
    if request.stream:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [{"type": "function", "function": _declared(tool)} for tool in request.tools]
    if request.config is not None:
        body |= _settings(request.config, with_tools=bool(request.tools))
    return body


def finish_reason(word: str | None) -> FinishReason | None:
    """The finish reason in the words of the content model."""
    return None if word is None else _FINISH.get(word, FinishReason.OTHER)


class Assembled:
    """Calls that come in fragments, by their index."""

    def __init__(self) -> None:
        self._calls: dict[int, dict[str, str]] = {}

    def add(self, index: int, call_id: str | None, name: str | None, arguments: str | None) -> None:
        """Take in the next fragment of a call."""
        call = self._calls.setdefault(index, {"id": "", "name": "", "arguments": ""})
        call["id"] = call["id"] or call_id or ""
        call["name"] = call["name"] or name or ""
        call["arguments"] += arguments or ""

    def parts(self) -> list[Part]:
        """The calls, whole. Raises `ValueError` for arguments that are no JSON object."""
        return [Part(function_call=_whole(call)) for _, call in sorted(self._calls.items())]


def _whole(call: dict[str, str]) -> FunctionCall:
    try:
        args = json.loads(call["arguments"] or "{}")
        strict = json.dumps(args, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    except RecursionError:
        raise ValueError("the arguments are nested too deep") from None
    if not isinstance(args, dict):
        raise ValueError("the arguments are no object")
    args = json.loads(strict)  # what Python reads and no store takes (NaN, half of a surrogate pair) ends here
    return FunctionCall(id=call["id"] or None, name=call["name"], args=args)


class _Messages:
    """Writes messages in order, and gives ids to calls that have none: this wire pairs by ids alone."""

    def __init__(self, instruction: str) -> None:
        self._messages: list[dict[str, Any]] = [{"role": "system", "content": instruction}] if instruction else []
        self._made = 0
        self._open: list[tuple[str, str]] = []

    def of(self, contents: Sequence[Content]) -> list[dict[str, Any]]:
        for content in contents:
            if content.role == "model":
                self._assistant(content)
            else:
                self._user(content)
        return self._messages

    def _assistant(self, content: Content) -> None:
        text = "".join(part.text for part in content.parts or () if part.text and not part.thought)
        calls = [part.function_call for part in content.parts or () if part.function_call is not None]
        message: dict[str, Any] = {"role": "assistant", "content": text or None}
        if calls:
            message["tool_calls"] = [self._call(call) for call in calls]
        if text or calls:
            self._messages.append(message)

    def _user(self, content: Content) -> None:
        said: list[dict[str, Any]] = []
        for part in content.parts or ():
            if part.function_response is not None:
                self._messages.append(self._response(part.function_response))
            elif part.text and not part.thought:
                said.append({"type": "text", "text": part.text})
            elif part.inline_data is not None:
                said.append(_data(part.inline_data))
            elif part.file_data is not None:
                said.append({"type": "image_url", "image_url": {"url": part.file_data.file_uri}})
        if said:
            only_text = len(said) == 1 and said[0]["type"] == "text"
            self._messages.append({"role": "user", "content": said[0]["text"] if only_text else said})

    def _call(self, call: FunctionCall) -> dict[str, Any]:
        call_id = call.id
        if not call_id:
            self._made += 1
            call_id = f"made_{self._made}"
            self._open.append((call.name or "", call_id))
        arguments = json.dumps(call.args or {}, ensure_ascii=False)
        return {"id": call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}

    def _response(self, response: FunctionResponse) -> dict[str, Any]:
        call_id = response.id or self._taken(response.name or "")
        return {"role": "tool", "tool_call_id": call_id, "content": json.dumps(response.response, ensure_ascii=False)}

    def _taken(self, name: str) -> str:
        """The id that was made for the oldest unanswered call of this name."""
        for entry in self._open:
            if entry[0] == name:
                self._open.remove(entry)
                return entry[1]
        raise ModelError(f"a response of {name!r} has no call before it")


def _data(blob: Blob) -> dict[str, Any]:
    kind = (blob.mime_type or "").partition(";")[0].lower()
    data = base64.b64encode(blob.data or b"").decode("ascii")
    if kind.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}
    if kind in ("audio/wav", "audio/x-wav", "audio/mpeg", "audio/mp3"):
        return {"type": "input_audio", "input_audio": {"data": data, "format": "wav" if "wav" in kind else "mp3"}}
    raise ModelError(f"this model cannot be sent data of type {kind or 'unknown'!r}")


def _declared(tool: FunctionDeclaration) -> dict[str, Any]:
    declared: dict[str, Any] = {"name": tool.name}
    if tool.description:
        declared["description"] = tool.description
    schema = tool.parameters_json_schema
    if schema is None and tool.parameters is not None:
        schema = tool.parameters.json_schema.model_dump(mode="json", by_alias=True, exclude_none=True)
    declared["parameters"] = schema or {"type": "object", "properties": {}}
    return declared


def _settings(config: GenerateContentConfig, *, with_tools: bool) -> dict[str, Any]:
    settings = {theirs: value for ours, theirs in _SETTINGS.items() if (value := getattr(config, ours)) is not None}
    schema = config.response_json_schema if config.response_json_schema is not None else config.response_schema
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        settings["response_format"] = _format(schema.__name__, schema.model_json_schema())
    elif isinstance(schema, dict):
        settings["response_format"] = _format("answer", schema)
    elif config.response_mime_type == "application/json":
        settings["response_format"] = {"type": "json_object"}
    calling = config.tool_config.function_calling_config if config.tool_config is not None else None
    if with_tools and calling is not None and calling.mode is not None and calling.mode.value in _CHOICE:
        settings["tool_choice"] = _CHOICE[calling.mode.value]
    return settings


def _format(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema}}
