"""State: prefixes, deltas, and views that cannot be written to.

`app:` belongs to all users of an app, `user:` to one user, no prefix to the session, `temp:` to one invocation and is never stored. One
level only: `app:temp:x` is an app key named `temp:x`. Stores keep bare keys in three maps; readers see one merged map with prefixes back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from live_gateway.errors import InvalidState

APP = "app:"
USER = "user:"
TEMP = "temp:"


@dataclass(slots=True)
class StateDelta:
    """A delta sorted by owner, keys bare, `temp:` left out."""

    app: dict[str, Any] = field(default_factory=dict)
    user: dict[str, Any] = field(default_factory=dict)
    session: dict[str, Any] = field(default_factory=dict)


def split_delta(delta: Mapping[str, Any]) -> StateDelta:
    """Sort a delta by owner. Values are copied deeply, so that nobody changes the store through what he appended."""
    split = StateDelta()
    for key, value in delta.items():
        if key.startswith(TEMP):
            continue
        if key.startswith(APP):
            split.app[key.removeprefix(APP)] = _copy(value)
        elif key.startswith(USER):
            split.user[key.removeprefix(USER)] = _copy(value)
        else:
            split.session[key] = _copy(value)
    return split


def merge_state(app: Mapping[str, Any], user: Mapping[str, Any], session: Mapping[str, Any]) -> Mapping[str, Any]:
    """One read-only map of the three, prefixes put back, nested values read-only too."""
    merged = {f"{APP}{key}": value for key, value in app.items()}
    merged.update({f"{USER}{key}": value for key, value in user.items()})
    merged.update(session)
    return read_only(merged)


def without_temp(delta: Mapping[str, Any]) -> dict[str, Any]:
    """The delta without the keys that are never stored."""
    return {key: value for key, value in delta.items() if not key.startswith(TEMP)}


def read_only(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """A view of the map whose nested maps are read-only and whose nested lists are tuples."""
    return MappingProxyType({key: _freeze(value) for key, value in values.items()})


def thaw(value: Any) -> Any:
    """The plain dicts and lists behind a read-only value; what JSON encoders and tools want."""
    if isinstance(value, Mapping):
        return {key: thaw(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [thaw(inner) for inner in value]
    return value


def check_delta(delta: Mapping[str, Any]) -> None:
    """Raise `InvalidState`, naming key and type, unless every key is a string and every value is JSON."""
    for key, value in delta.items():
        if not isinstance(key, str):
            raise InvalidState(f"state key {key!r} is of type {type(key).__name__}; keys are strings")
        _check_value(key, key, depth=0)
        _check_value(key, value, depth=0)


def is_unicode(text: str) -> bool:
    """Whether the text can be written as UTF-8; half of a surrogate pair cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_value(key: str, value: Any, depth: int) -> None:
    if depth > 32:
        raise InvalidState(f"state value of {key!r} is nested deeper than 32 levels")
    if value is None or isinstance(value, bool | int):
        return
    if isinstance(value, str):
        if not is_unicode(value):
            raise InvalidState(f"state value of {key!r} is text with half of a surrogate pair, which JSON cannot carry")
        return
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise InvalidState(f"state value of {key!r} is {value}, which JSON does not have")
        return
    if isinstance(value, Mapping):
        for inner_key, inner in value.items():
            if not isinstance(inner_key, str):
                raise InvalidState(f"state value of {key!r} has a key of type {type(inner_key).__name__}; keys are strings")
            _check_value(key, inner_key, depth + 1)
            _check_value(key, inner, depth + 1)
        return
    if isinstance(value, list | tuple):
        for inner in value:
            _check_value(key, inner, depth + 1)
        return
    raise InvalidState(f"state value of {key!r} is of type {type(value).__name__}; values are JSON")


def _copy(value: Any) -> Any:
    return thaw(value)


def _freeze(value: Any) -> Any:
    if isinstance(value, Mapping):
        return MappingProxyType({key: _freeze(inner) for key, inner in value.items()})
    if isinstance(value, list | tuple):
        return tuple(_freeze(inner) for inner in value)
    return value


class DirtyState(MutableMapping[str, Any]):
    """The state as code inside an invocation sees it: what it wrote itself, then what others of the invocation wrote and is not stored
    yet, then the session's stored state. A write goes into `delta` (which travels with an event) and into `pending` (which the invocation
    shares); it is checked at once.
    """

    def __init__(self, stored: Mapping[str, Any], pending: MutableMapping[str, Any], delta: dict[str, Any]) -> None:
        self._stored = stored
        self._pending = pending
        self._sealed = False
        self.delta = delta

    def seal(self) -> None:
        """Take no more writes; they raise `InvalidState` from now on."""
        self._sealed = True

    def __getitem__(self, key: str) -> Any:
        for layer in (self.delta, self._pending, self._stored):
            if key in layer:
                return thaw(layer[key])
        raise KeyError(key)

    def __setitem__(self, key: str, value: Any) -> None:
        if self._sealed:
            raise InvalidState(f"state key {key!r} was written after the call was over")
        check_delta({key: value})
        plain = thaw(value)
        self.delta[key] = plain
        self._pending[key] = plain

    def __delitem__(self, key: str) -> None:
        raise TypeError(f"state keys cannot be removed; set {key!r} to None instead")

    def __iter__(self) -> Iterator[str]:
        return iter({**self._stored, **self._pending, **self.delta})

    def __len__(self) -> int:
        return len({**self._stored, **self._pending, **self.delta})
