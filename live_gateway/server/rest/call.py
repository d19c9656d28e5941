"""One request to an endpoint, with what was checked of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import Request

from live_gateway.server.messages import ID_PATTERN
from live_gateway.server.rest.problems import Invalid

B = TypeVar("B")
_ID = re.compile(ID_PATTERN)
_NUMBER = re.compile(r"[0-9]{1,18}")
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class Call:
    """A request. body: an object of the operation's body model, None where it has none."""

    request: Request
    body: Any = None

    def body_as(self, model: type[B]) -> B:
        """The body."""
        if not isinstance(self.body, model):
            raise TypeError(f"this operation has no body {model.__name__}")
        return self.body

    def path(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.path_params[name])

    def identifier(self, name: str) -> str:
        """A part of the path that is somebody's id. Raises `Invalid`."""
        text = self.path(name)
        if _ID.fullmatch(text) is None:
            raise Invalid.at(["path", name], "an id has 1 to 64 letters, digits, _ and -", "string_pattern_mismatch")
        return text

    def number(self, name: str) -> int:
        """A part of the path that is a number from 0. Raises `Invalid`."""
        return _number(self.path(name), ["path", name])

    def query_number(self, name: str) -> int | None:
        """A query parameter that is a number from 0; None without it. Raises `Invalid`."""
        text = self.request.query_params.get(name)
        return None if text is None else _number(text, ["query", name])

    def flag(self, name: str) -> bool:
        """A query parameter that is true or false; false without it. Raises `Invalid`."""
        text = self.request.query_params.get(name, "false").lower()
        if text not in _FLAGS:
            raise Invalid.at(["query", name], "is true or false", "bool_parsing")
        return _FLAGS[text]


def _number(text: str, place: list[str | int]) -> int:
    if _NUMBER.fullmatch(text) is None:
        raise Invalid.at(place, "is a whole number from 0", "int_parsing")
    return int(text)
