"""Instruction templates: `{key}`, `{key?}`, `{artifact.name}`.

Only identifiers are keys; anything else in braces is text and stays as it is. A missing key is an error unless it is marked with `?`. A
key with a prefix (`{user:name}`) is filled where it is set; where it is not, it is empty if marked optional and else stays as it is. The
template is read by pure functions; only artifacts have to be fetched, so `fill` does that first.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from live_gateway.errors import ConfigurationError
from live_gateway.sessions.state import APP, TEMP, USER
from live_gateway.telemetry import get_logger

log = get_logger(__name__)

LoadText = Callable[[str], Awaitable[str | None]]
"""Gives an artifact's text by name; None where there is no such artifact."""

_BRACES = re.compile(r"{+[^{}]*}+")
_ARTIFACT = "artifact."
_logged: set[str] = set()


@dataclass(frozen=True, slots=True)
class Placeholder:
    """One pair of braces that names something. `start`, `end`: where it stands in the template."""

    start: int
    end: int
    name: str
    optional: bool

    @property
    def artifact(self) -> str | None:
        """Name of the artifact, if it names one."""
        return self.name.removeprefix(_ARTIFACT) if self.name.startswith(_ARTIFACT) else None

    @property
    def prefixed(self) -> bool:
        """Whether it names a key of the app, the user or the invocation."""
        return self.name.startswith((APP, USER, TEMP))


def scan(template: str) -> list[Placeholder]:
    """The placeholders of a template, in order; braces around anything else are text."""
    found: list[Placeholder] = []
    for match in _BRACES.finditer(template):
        name = match.group().strip("{}").strip()
        optional = name.endswith("?")
        name = name.removesuffix("?").strip()
        if name.startswith(_ARTIFACT) or _is_key(name):
            found.append(Placeholder(match.start(), match.end(), name, optional))
    return found


def render(template: str, state: Mapping[str, Any], artifacts: Mapping[str, str | None]) -> str:
    """The template with its placeholders filled. Raises `ConfigurationError` naming a missing required key or artifact."""
    pieces: list[str] = []
    position = 0
    for placeholder in scan(template):
        pieces.append(template[position : placeholder.start])
        position = placeholder.end
        pieces.append(_value(placeholder, template, state, artifacts))
    return "".join([*pieces, template[position:]])


async def fill(template: str, state: Mapping[str, Any], load: LoadText | None) -> str:
    """Fetch the artifacts that the template names, and render it. `load` is None where no artifact service is configured."""
    if "{" not in template:
        return template
    artifacts: dict[str, str | None] = {}
    for placeholder in scan(template):
        name = placeholder.artifact
        if name is None or name in artifacts:
            continue
        if not name:
            raise ConfigurationError("an instruction says {artifact.} without a name")
        if load is None:
            raise ConfigurationError(f"artifact service is not initialized; an instruction asks for artifact {name!r}")
        artifacts[name] = await load(name)
    return render(template, state, artifacts)


def _value(placeholder: Placeholder, template: str, state: Mapping[str, Any], artifacts: Mapping[str, str | None]) -> str:
    name = placeholder.artifact
    if name is not None:
        text = artifacts.get(name)
        if text is None and not placeholder.optional:
            raise ConfigurationError(f"failed to load artifact {name}: artifact not found; an instruction asks for it")
        return text or ""
    if placeholder.name in state:
        value = state[placeholder.name]
        return "" if value is None else str(value)
    if placeholder.optional:
        return ""
    if placeholder.prefixed:
        if placeholder.name not in _logged and len(_logged) < 1000:
            _logged.add(placeholder.name)
            log.warning("instruction_key_not_set", name=placeholder.name)
        return template[placeholder.start : placeholder.end]
    raise ConfigurationError(
        f"state key does not exist: {placeholder.name!r}; an instruction asks for it (write {{{placeholder.name}?}} if it may be missing)"
    )


def _is_key(name: str) -> bool:
    for prefix in (APP, USER, TEMP):
        if name.startswith(prefix):
            return name.removeprefix(prefix).isidentifier()
    return name.isidentifier()
