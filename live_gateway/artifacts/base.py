"""What every store of artifacts can do, and which names are legal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from live_gateway.content import Part
from live_gateway.errors import InvalidInput

USER_PREFIX = "user:"
"""A name that begins so belongs to the user: all of his sessions in the app see it."""
MAX_NAME = 200
DEFAULT_MAX_BYTES = 64 * 2**20


class ArtifactService(Protocol):
    """A store of artifacts. Each has a name and versions, numbered 0, 1, 2, ... in the order in which they were saved.

    An artifact is a `Part` with text or with inline data (bytes and their MIME type); what is loaded equals what was saved. Every
    method raises `InvalidInput` for an illegal name and `StorageError` where the store fails.
    """

    async def save(self, *, app_name: str, user_id: str, session_id: str, name: str, part: Part) -> int:
        """Store the next version; its number is returned. The part is not changed. Raises `InvalidInput` for a part of another kind."""
        ...

    async def load(self, *, app_name: str, user_id: str, session_id: str, name: str, version: int | None = None) -> Part | None:
        """A version, the newest where none is named; None if there is no such one."""
        ...

    async def list(self, *, app_name: str, user_id: str, session_id: str) -> Sequence[str]:
        """Names of the session's and of the user's artifacts, sorted."""
        ...

    async def versions(self, *, app_name: str, user_id: str, session_id: str, name: str) -> Sequence[int]:
        """The stored version numbers, ascending; empty if there is no such artifact."""
        ...

    async def delete(self, *, app_name: str, user_id: str, session_id: str, name: str) -> None:
        """Remove all versions. One that is not there is no error."""
        ...


def check_name(name: str) -> None:
    """Raise `InvalidInput` unless the name is legal: 1 to 200 characters, no slash of either kind, nothing that does not print."""
    bare = name.removeprefix(USER_PREFIX)
    if not bare.strip() or bare in (".", ".."):
        raise InvalidInput(f"artifact name {name!r} is empty")
    if len(name) > MAX_NAME:
        raise InvalidInput(f"artifact name of {len(name)} characters is too long; at most {MAX_NAME}")
    if "/" in name or "\\" in name or not name.isprintable():
        raise InvalidInput(f"artifact name {name!r} holds a slash or a character that does not print")


def check_part(part: Part, max_bytes: int) -> None:
    """Raise `InvalidInput` unless the part holds text or bytes, and not too much of it."""
    if part.inline_data is not None and part.inline_data.data is not None:
        size = len(part.inline_data.data)
    elif part.text is not None:
        size = len(part.text.encode("utf-8", "surrogatepass"))
    else:
        raise InvalidInput("an artifact needs text or inline data")
    if size > max_bytes:
        raise InvalidInput(f"artifact of {size} bytes is too large; at most {max_bytes}")


def owner(session_id: str, name: str) -> str | None:
    """The session that the artifact belongs to; None where it belongs to the user."""
    return None if name.startswith(USER_PREFIX) else session_id
