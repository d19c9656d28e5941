"""Artifacts in this process; gone when it ends."""

from __future__ import annotations

from collections.abc import Sequence

from live_gateway.artifacts.base import DEFAULT_MAX_BYTES, check_name, check_part, owner
from live_gateway.content import Part

_Place = tuple[str, str, str | None]
_Versions = list[Part]


class InMemoryArtifactService:
    """An `ArtifactService` for tests and local use. `max_bytes`: largest artifact that is taken."""

    def __init__(self, *, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: dict[_Place, dict[str, _Versions]] = {}

    async def save(self, *, app_name: str, user_id: str, session_id: str, name: str, part: Part) -> int:
        check_name(name)
        check_part(part, self._max_bytes)
        versions = self._kept.setdefault((app_name, user_id, owner(session_id, name)), {}).setdefault(name, [])
        versions.append(part.model_copy(deep=True))
        return len(versions) - 1

    async def load(self, *, app_name: str, user_id: str, session_id: str, name: str, version: int | None = None) -> Part | None:
        versions = self._versions(app_name, user_id, session_id, name)
        index = len(versions) - 1 if version is None else version
        return versions[index].model_copy(deep=True) if 0 <= index < len(versions) else None

    async def list(self, *, app_name: str, user_id: str, session_id: str) -> Sequence[str]:
        places = (app_name, user_id, session_id), (app_name, user_id, None)
        return sorted(name for place in places for name in self._kept.get(place, {}))

    async def versions(self, *, app_name: str, user_id: str, session_id: str, name: str) -> Sequence[int]:
        return list(range(len(self._versions(app_name, user_id, session_id, name))))

    async def delete(self, *, app_name: str, user_id: str, session_id: str, name: str) -> None:
        check_name(name)
        self._kept.get((app_name, user_id, owner(session_id, name)), {}).pop(name, None)

    def _versions(self, app_name: str, user_id: str, session_id: str, name: str) -> _Versions:
        check_name(name)
        return self._kept.get((app_name, user_id, owner(session_id, name)), {}).get(name, [])
