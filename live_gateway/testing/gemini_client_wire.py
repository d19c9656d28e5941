"""Takes apart what a client of Gemini Live sends, strictly: by the types of the vendor's SDK, which refuse an unknown field.

Both spellings of a key are taken, as the service does; what the script is shown is camelCase.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from google.genai import types

from live_gateway.testing.gemini_steps import SentKind

_KINDS: Final = ("setup", "clientContent", "realtimeInput", "toolResponse")
_OPAQUE: Final = frozenset({"response", "args", "properties", "parametersJsonSchema", "responseJsonSchema", "labels"})
_REALTIME: Final[Mapping[str, SentKind]] = {
    "audio": "audio",
    "video": "video",
    "text": "text",
    "activityStart": "activity_start",
    "activityEnd": "activity_end",
    "audioStreamEnd": "audio_end",
}


class Unacceptable(Exception):
    """The service would refuse this message."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What the client sent. value: of audio and video the bytes, of text the text, of everything else the message in camelCase."""

    kind: SentKind
    value: Any

    def __str__(self) -> str:
        if isinstance(self.value, bytes):
            return f"{self.kind} of {len(self.value)} bytes"
        return f"{self.kind} {json.dumps(self.value, ensure_ascii=False, default=str)[:200]}"


def parse(frame: str | bytes) -> Sent:
    """What a frame says. Raises `Unacceptable`."""
    try:
        raw = json.loads(frame)
    except ValueError as error:
        raise Unacceptable(f"no JSON: {error}") from error
    if not isinstance(raw, dict) or len(raw) != 1:
        raise Unacceptable(f"a message has exactly one of {', '.join(_KINDS)}")
    message = _camel(raw)
    (kind, value) = next(iter(message.items()))
    if kind not in _KINDS:
        raise Unacceptable(f"a message has exactly one of {', '.join(_KINDS)}, not {kind!r}")
    _validate(kind, message)
    if kind == "setup":
        return Sent("setup", value)
    if kind == "clientContent":
        return Sent("content", value)
    if kind == "toolResponse":
        return _tool_response(value)
    return _realtime(value)


def _validate(kind: str, message: dict[str, Any]) -> None:
    try:
        if kind == "setup":  # the SDK's type leaves one field to its config
            setup = dict(message["setup"])
            types.RealtimeInputConfig.model_validate(setup.pop("realtimeInputConfig", {}))
            message = {"setup": setup}
        types.LiveClientMessage.model_validate(message)
    except ValueError as error:
        raise Unacceptable(f"{kind} is not as the service wants it: {error}") from error


def _tool_response(value: dict[str, Any]) -> Sent:
    responses = value.get("functionResponses") or []
    if not responses or not all(response.get("id") and response.get("name") for response in responses):
        raise Unacceptable("a tool response has at least one answer, and each has id and name")
    return Sent("tool_response", value)


def _realtime(value: dict[str, Any]) -> Sent:
    if len(value) != 1:
        raise Unacceptable("realtime input has exactly one field")
    name, given = next(iter(value.items()))
    if name not in _REALTIME:
        raise Unacceptable(f"realtime input of kind {name!r}")
    if name in ("audio", "video"):
        data = decode(given.get("data", ""))
        if name == "audio" and (len(data) % 2 or not data or given.get("mimeType") != "audio/pcm;rate=16000"):
            raise Unacceptable(f"audio of {len(data)} bytes as {given.get('mimeType')!r}; wanted is audio/pcm;rate=16000, whole samples")
        return Sent(_REALTIME[name], data)
    return Sent(_REALTIME[name], given)


def declared(setup: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The functions that a set-up declares."""
    return [function for tool in setup.get("tools") or () for function in tool.get("functionDeclarations") or ()]


def sample(schema: Mapping[str, Any]) -> Any:
    """A value that fits a schema, as a model might give it: what is required, and no more."""
    if schema.get("enum"):
        return schema["enum"][0]
    kind = str(schema.get("type") or "object").lower()
    if kind == "object":
        properties = schema.get("properties") or {}
        return {name: sample(properties[name]) for name in schema.get("required") or () if name in properties}
    plain: dict[str, Any] = {"string": "example", "integer": 1, "number": 1, "boolean": True, "array": []}
    return plain.get(kind)


def decode(data: str) -> bytes:
    """Base64 of either alphabet."""
    return base64.b64decode(data.replace("-", "+").replace("_", "/"))


def _camel(value: Any, *, inside: str = "") -> Any:
    if inside in _OPAQUE:
        return value
    if isinstance(value, list):
        return [_camel(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    camel: dict[str, Any] = {}
    for key, entry in value.items():
        name = _camel_key(key)
        camel[name] = _camel(entry, inside=name)
    return camel


def _camel_key(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(word.capitalize() for word in rest)
