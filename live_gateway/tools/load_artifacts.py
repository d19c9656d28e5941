"""The tool by which a model reads the artifacts of the session and of its user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from live_gateway.content import Part
from live_gateway.tools.function import FunctionTool

MAX_TEXT = 50_000
"""Longest text of one artifact that is passed on, in characters."""


class ArtifactContext(Protocol):
    """A tool context that can load artifacts."""

    async def load_artifact(self, name: str, version: int | None = None) -> Part | None:
        """A version of an artifact, the newest where none is named."""
        ...

    async def list_artifacts(self) -> Sequence[str]:
        """Names of the session's and of the user's artifacts."""
        ...


async def _load_artifacts(names: list[str], ctx: ArtifactContext) -> dict[str, Any]:
    """Read files of this conversation and of this user.

    Args:
        names: which ones; an empty list gives the names of all that there are
    """
    if not names:
        return {"names": list(await ctx.list_artifacts())}
    return {"artifacts": {name: _shown(await ctx.load_artifact(name)) for name in names}}


def _shown(part: Part | None) -> dict[str, Any]:
    if part is None:
        return {"error": "there is no artifact of this name"}
    if part.text is not None:
        return _text(part.text)
    data = part.inline_data.data if part.inline_data is not None else None
    kind = part.inline_data.mime_type if part.inline_data is not None else None
    if (kind or "").startswith("text/") or kind == "application/json":
        return _text((data or b"").decode("utf-8", "replace"))
    return {"mimeType": kind, "bytes": len(data or b""), "note": "this is no text"}


def _text(text: str) -> dict[str, Any]:
    return {"text": text[:MAX_TEXT]} | ({"cut": True} if len(text) > MAX_TEXT else {})


load_artifacts = FunctionTool(_load_artifacts, name="load_artifacts", effect="read")
"""Put it into an agent's `tools`. Needs an artifact service."""
