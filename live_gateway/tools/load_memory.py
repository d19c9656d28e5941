"""The tool by which a model looks into the user's earlier sessions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from live_gateway.content import text_of
from live_gateway.memory.base import MemoryEntry
from live_gateway.tools.function import FunctionTool


class MemoryContext(Protocol):
    """A tool context that can search the memory."""

    async def search_memory(self, query: str) -> Sequence[MemoryEntry]:
        """What earlier sessions say about the query."""
        ...


async def _load_memory(query: str, ctx: MemoryContext) -> dict[str, Any]:
    """Search what was said in earlier conversations with this user.

    Args:
        query: words to look for
    """
    return {"memories": [_shown(entry) for entry in await ctx.search_memory(query)]}


def _shown(entry: MemoryEntry) -> dict[str, str]:
    said_at = datetime.fromtimestamp(entry.timestamp, UTC).isoformat(timespec="seconds")
    return {"author": entry.author, "text": text_of(entry.content), "time": said_at}


load_memory = FunctionTool(_load_memory, name="load_memory", effect="read")
"""Put it into an agent's `tools`. Needs a memory service."""
