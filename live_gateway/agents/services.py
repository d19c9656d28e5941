"""The services of a runner as one invocation sees them: bound to its app, user and session."""

from __future__ import annotations

from collections.abc import Sequence

from live_gateway.artifacts.base import ArtifactService
from live_gateway.content import Part
from live_gateway.memory.base import MemoryEntry, MemoryService


class ArtifactAccess:
    """The artifacts of one session and of its user. The methods are those of `ArtifactService`."""

    def __init__(self, service: ArtifactService, *, app_name: str, user_id: str, session_id: str) -> None:
        self._service = service
        self._app_name = app_name
        self._user_id = user_id
        self._session_id = session_id

    async def save(self, name: str, part: Part) -> int:
        """Store the next version; its number, from 0, is returned."""
        return await self._service.save(app_name=self._app_name, user_id=self._user_id, session_id=self._session_id, name=name, part=part)

    async def load(self, name: str, version: int | None = None) -> Part | None:
        """A version, the newest where none is named; None if there is no such one."""
        return await self._service.load(
            app_name=self._app_name, user_id=self._user_id, session_id=self._session_id, name=name, version=version
        )

    async def list(self) -> Sequence[str]:
        """Names of the session's and of the user's artifacts, sorted."""
        return await self._service.list(app_name=self._app_name, user_id=self._user_id, session_id=self._session_id)


class MemoryAccess:
    """What one user said in earlier sessions of the app."""

    def __init__(self, service: MemoryService, *, app_name: str, user_id: str) -> None:
        self._service = service
        self._app_name = app_name
        self._user_id = user_id

    async def search(self, query: str, limit: int = 20) -> Sequence[MemoryEntry]:
        """What fits the query best, best first."""
        return await self._service.search(app_name=self._app_name, user_id=self._user_id, query=query, limit=limit)
