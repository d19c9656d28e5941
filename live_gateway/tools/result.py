"""What a tool returned, as the JSON that a model and a store can take.

The payload is opaque: keys and texts stay as the tool wrote them. What JSON cannot hold is changed in the smallest way (NaN to null, bytes
to base64, dates to ISO 8601), what nobody can know how to write becomes its `repr` with `"_coerced": true` beside it, and what would hurt
(a cycle, a huge result) is refused with words for the model.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

import msgspec
from pydantic import BaseModel

from live_gateway.errors import ToolError

MAX_RESULT_BYTES = 256 * 1024
MAX_BYTES = 64 * 1024
MAX_REPR = 1024
MAX_DEPTH = 32
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")  # NUL breaks jsonb, a lone surrogate breaks UTF-8


def to_response(result: object) -> dict[str, Any]:
    """The result as the `response` of a function response: a mapping as it is, anything else under the key `result`.

    Raises `ToolError` for a cycle, for nesting deeper than 32, for bytes above 64 KiB, and for more than 256 KiB of JSON.
    """
    writer = _Writer()
    plain = writer.write(result, depth=0)
    response: dict[str, Any] = plain if isinstance(plain, dict) else {"result": plain}
    if writer.coerced:
        response.setdefault("_coerced", True)
    if len(json.dumps(response, ensure_ascii=False).encode()) > MAX_RESULT_BYTES:
        raise _too_large()
    return response


class _Writer:
    """Turns one result into plain JSON data. It knows what it is inside of, so that a cycle ends, and how much room is left."""

    def __init__(self) -> None:
        self.coerced = False
        self._open: set[int] = set()
        self._left = MAX_RESULT_BYTES

    def write(self, value: object, depth: int) -> Any:
        self._spend(1)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, Enum):
            return self.write(value.value, depth)
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int):
            return value if -(2**63) <= value < 2**64 else self._repr(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if isinstance(value, bytes | bytearray | memoryview):
            return self._bytes(bytes(value))
        if (text := _as_text(value)) is not None:
            return self._text(text)
        return self._write_container(value, depth)

    def _write_container(self, value: object, depth: int) -> Any:
        if depth >= MAX_DEPTH:
            raise ToolError(f"the tool's result is nested deeper than {MAX_DEPTH} levels")
        if id(value) in self._open:
            raise ToolError("the tool's result contains itself; it cannot be written as JSON")
        self._open.add(id(value))
        try:
            inner = _unpacked(value)
            if isinstance(inner, Mapping):
                return {self._key(key): self.write(item, depth + 1) for key, item in inner.items()}
            if isinstance(inner, Sequence) and not isinstance(inner, str | bytes):
                return [self.write(item, depth + 1) for item in inner]
            return self._repr(value) if inner is value else self.write(inner, depth + 1)
        finally:
            self._open.discard(id(value))

    def _key(self, key: object) -> str:
        if isinstance(key, Enum):
            return self._key(key.value)
        if isinstance(key, str):
            return self._text(key)
        if key is None or isinstance(key, bool | int | float):
            return self._text(json.dumps(key))
        return self._repr(key)

    def _text(self, text: str) -> str:
        self._spend(len(text))
        return _UNSTORABLE.sub("\ufffd", text)

    def _bytes(self, data: bytes) -> str:
        if len(data) > MAX_BYTES:
            raise ToolError(f"the tool's result holds {len(data)} bytes of binary data; at most {MAX_BYTES} can be passed on")
        return self._text(base64.b64encode(data).decode("ascii"))

    def _repr(self, value: object) -> str:
        self.coerced = True
        try:
            text = repr(value)
        except Exception:  # a foreign __repr__ may do anything; its type still says something
            text = f"<{type(value).__name__}>"
        return self._text(text[:MAX_REPR])

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise _too_large()


def _as_text(value: object) -> str | None:
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(msgspec.to_builtins(value))
    if isinstance(value, Decimal | UUID | PurePath):
        return str(value)
    return None


def _unpacked(value: object) -> object:
    """A mapping or a sequence of what the value holds, one level; the value itself where that is not known."""
    if isinstance(value, BaseModel):
        try:
            return value.model_dump(warnings=False)
        except ValueError as error:  # a model that holds itself
            raise ToolError("the tool's result cannot be written as JSON") from error
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return value._asdict()
    if isinstance(value, AbstractSet):
        return sorted(value, key=repr)
    if callable(to_list := getattr(value, "tolist", None)) and not isinstance(value, type):
        return to_list()  # numpy's arrays and scalars, without importing numpy
    return value


def _too_large() -> ToolError:
    return ToolError(f"the tool's result is larger than {MAX_RESULT_BYTES // 1024} KiB; ask for less")
