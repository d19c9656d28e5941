"""The table of endpoints."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from live_gateway.events import Event
from live_gateway.server.gateway import Gateway
from live_gateway.server.rest.artifacts import ArtifactApi
from live_gateway.server.rest.bodies import BareState, CreateSession, PatchSession, RunBody, SaveArtifact
from live_gateway.server.rest.call import Call
from live_gateway.server.rest.meta import MetaApi
from live_gateway.server.rest.openapi import document
from live_gateway.server.rest.operations import Operation, Parameter, routes
from live_gateway.server.rest.run import CANCEL, MAX_SEQ, RunApi
from live_gateway.server.rest.runs import Runs
from live_gateway.server.rest.sessions import SessionApi
from live_gateway.server.rest.views import AppList, ArtifactVersion, Health, SessionView, VersionView

_SESSIONS = "/apps/{app_name}/users/{user_id}/sessions"
_SESSION = f"{_SESSIONS}/{{session_id}}"
_ARTIFACTS = f"{_SESSION}/artifacts"
_ARTIFACT = f"{_ARTIFACTS}/{{artifact_name}}"
_RUN_ERRORS = (404, 409, 429, 502, 504)
_BOOL: dict[str, Any] = {"type": "boolean", "default": False}
_CANCEL = Parameter("query", CANCEL, _BOOL, "A client that leaves ends the run.")
_LAST = Parameter(
    "header",
    "Last-Event-ID",
    {"type": "integer", "minimum": 1, "maximum": MAX_SEQ},
    "Go on with the run of this event, after it, instead of starting another one.",
)


class Rest:
    """The endpoints of one gateway. Its routes work while it is entered; leaving it ends the runs that still go on."""

    def __init__(self, gateway: Gateway) -> None:
        self._runs = Runs(gateway.config.send_s)
        self.operations = _operations(gateway, self._runs)
        self._document = msgspec.json.encode(document(self.operations, list(gateway.runners)))

    @property
    def routes(self) -> list[Route]:
        """The routes, that of the document included."""
        described = Operation(
            method="GET", path="/openapi.json", name="openapi", summary="This document.", handler=self._openapi, tag="server"
        )
        return routes([*self.operations, described])

    async def __aenter__(self) -> Self:
        await self._runs.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._runs.__aexit__(kind, error, trace)

    async def _openapi(self, _call: Call) -> Response:
        return Response(self._document, media_type="application/json")


def _operations(gateway: Gateway, runs: Runs) -> list[Operation]:
    return [
        *_meta(MetaApi(gateway.runners)),
        *_run(RunApi(gateway, runs)),
        *_sessions(SessionApi(gateway)),
        *_artifacts(ArtifactApi(gateway)),
    ]


def _meta(api: MetaApi) -> list[Operation]:
    detailed = Parameter("query", "detailed", _BOOL, "What the apps are, and not only their names.")
    make = _maker("server")
    return [
        make("GET", "/health", api.health, "health", answers=Health),
        make("GET", "/version", api.version, "version", answers=VersionView),
        make("GET", "/list-apps", api.list_apps, "list_apps", answers=list[str] | AppList, parameters=(detailed,)),
    ]


def _run(api: RunApi) -> list[Operation]:
    make = _maker("run")
    return [
        make("POST", "/run", api.run, "run", body=RunBody, answers=list[Event], errors=_RUN_ERRORS, parameters=(_CANCEL,)),
        make(
            "POST",
            "/run_sse",
            api.run_sse,
            "run_sse",
            body=RunBody,
            answers=Event,
            media_type="text/event-stream",
            errors=_RUN_ERRORS,
            parameters=(_CANCEL, _LAST),
        ),
    ]


def _sessions(api: SessionApi) -> list[Operation]:
    make = _maker("sessions")
    one = {"answers": SessionView}
    return [
        make("GET", _SESSIONS, api.list, "list_sessions", answers=list[SessionView], errors=(404,)),
        make("POST", _SESSIONS, api.create, "create_session", body=CreateSession, body_required=False, errors=(404, 409), **one),
        make("GET", _SESSION, api.get, "get_session", errors=(404,), **one),
        make("PATCH", _SESSION, api.patch, "patch_session", body=PatchSession, errors=(404,), **one),
        make("DELETE", _SESSION, api.delete, "delete_session", errors=(404,)),
        make(
            "POST",
            _SESSION,
            api.create_named,
            "create_session_with_id",
            body=BareState,
            body_required=False,
            errors=(404, 409),
            deprecated=True,
            **one,
        ),
    ]


def _artifacts(api: ArtifactApi) -> list[Operation]:
    make = _maker("artifacts", (400, 404, 501))
    version = Parameter("query", "version", {"type": "integer", "minimum": 0, "maximum": 10**18 - 1}, "The newest without it.")
    part = {"answers": dict[str, Any]}
    return [
        make("GET", _ARTIFACTS, api.list, "list_artifacts", answers=list[str]),
        make("POST", _ARTIFACTS, api.save, "save_artifact", body=SaveArtifact, answers=ArtifactVersion),
        make("GET", _ARTIFACT, api.get, "get_artifact", parameters=(version,), **part),
        make("DELETE", _ARTIFACT, api.delete, "delete_artifact"),
        make("GET", f"{_ARTIFACT}/versions", api.versions, "list_artifact_versions", answers=list[int]),
        make("GET", f"{_ARTIFACT}/versions/{{version_id}}", api.get_version, "get_artifact_version", **part),
    ]


def _maker(tag: str, errors: tuple[int, ...] = ()) -> Callable[..., Operation]:
    """Makes operations of one group; the summary is the first paragraph of what the handler says of itself."""

    def make(method: str, path: str, handler: Any, name: str, **rest: Any) -> Operation:
        summary = " ".join((handler.__doc__ or name).split("\n\n")[0].split())
        return Operation(method=method, path=path, handler=handler, name=name, summary=summary, tag=tag, **{"errors": errors, **rest})

    return make
