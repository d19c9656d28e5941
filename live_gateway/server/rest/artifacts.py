"""Artifacts of a session: list, fetch, save, delete."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from starlette.responses import Response

from live_gateway.artifacts.base import ArtifactService
from live_gateway.clock import Clock
from live_gateway.content import Part
from live_gateway.server.gateway import Gateway
from live_gateway.server.rest.bodies import SaveArtifact
from live_gateway.server.rest.call import Call
from live_gateway.server.rest.meta import json_response
from live_gateway.server.rest.problems import Refused
from live_gateway.server.rest.run import runner_of
from live_gateway.server.rest.sessions import fetch
from live_gateway.server.rest.views import ArtifactVersion, part_view
from live_gateway.sessions.base import Session


@dataclass(frozen=True, slots=True)
class Shelf:
    """The artifacts of one session."""

    service: ArtifactService
    session: Session

    @property
    def owner(self) -> dict[str, str]:
        """Whose they are, as arguments of the service."""
        return {"app_name": self.session.app_name, "user_id": self.session.user_id, "session_id": self.session.id}


class ArtifactApi:
    """The endpoints of artifacts."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._clock: Clock = gateway.clock

    async def list(self, call: Call) -> Response:
        """The names of the session's and of the user's artifacts."""
        shelf = await self._shelf(call)
        return json_response(list(await shelf.service.list(**shelf.owner)))

    async def save(self, call: Call) -> Response:
        """Store the next version of an artifact."""
        body, shelf = call.body_as(SaveArtifact), await self._shelf(call)
        part = body.artifact.to_part()
        number = await shelf.service.save(**shelf.owner, name=body.filename, part=part)
        path = ("apps", call.path("app_name"), "users", shelf.session.user_id, "sessions", shelf.session.id, "artifacts", body.filename)
        return json_response(
            ArtifactVersion(
                version=number,
                canonical_uri="".join(f"/{quote(step, safe='')}" for step in (*path, "versions", str(number))),
                custom_metadata={},
                create_time=self._clock.wall(),
                mime_type=part.inline_data.mime_type if part.inline_data is not None else "text/plain",
            )
        )

    async def get(self, call: Call) -> Response:
        """An artifact: the newest version, or the one that `version` names."""
        return await self._load(call, call.query_number("version"))

    async def get_version(self, call: Call) -> Response:
        """A version of an artifact; `latest` is the newest."""
        return await self._load(call, None if call.path("version_id") == "latest" else call.number("version_id"))

    async def versions(self, call: Call) -> Response:
        """The numbers of an artifact's versions."""
        shelf = await self._shelf(call)
        numbers = await shelf.service.versions(**shelf.owner, name=call.path("artifact_name"))
        if not numbers:
            raise _missing()
        return json_response(list(numbers))

    async def delete(self, call: Call) -> Response:
        """Remove all versions of an artifact."""
        shelf, name = await self._shelf(call), call.path("artifact_name")
        if not await shelf.service.versions(**shelf.owner, name=name):
            raise _missing()
        await shelf.service.delete(**shelf.owner, name=name)
        return json_response(None)

    async def _load(self, call: Call, version: int | None) -> Response:
        shelf = await self._shelf(call)
        part: Part | None = await shelf.service.load(**shelf.owner, name=call.path("artifact_name"), version=version)
        if part is None:
            raise _missing()
        return json_response(part_view(part))

    async def _shelf(self, call: Call) -> Shelf:
        runner = runner_of(self._gateway, call.path("app_name"))
        session = await fetch(runner, call, recent=0)
        if runner.artifact_service is None:
            raise Refused(501, "This app keeps no artifacts: artifact service is not set.", "service_missing")
        return Shelf(runner.artifact_service, session)


def _missing() -> Refused:
    return Refused(404, "Artifact not found", "artifact_not_found")
