"""What clients get: events and sessions as google-adk writes them. camelCase; what is not there is left out; some empty maps are not."""

from __future__ import annotations

from typing import Any

import msgspec

from live_gateway.content import Part
from live_gateway.events import Event, event_to_dict
from live_gateway.sessions.base import Session
from live_gateway.sessions.state import thaw

_ALWAYS = ("stateDelta", "artifactDelta", "requestedAuthConfigs", "requestedToolConfirmations")


class SessionView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A session. state: of app, user and session in one map. last_update_time: seconds since the epoch."""

    id: str
    app_name: str
    user_id: str
    state: dict[str, Any]
    events: list[Event]
    last_update_time: float


class AppView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An app that is served, by the agent at its root."""

    name: str
    root_agent_name: str
    description: str
    language: str = "python"
    is_computer_use: bool = False


class AppList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The apps that are served."""

    apps: list[AppView]


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The process answers."""

    status: str


class VersionView(msgspec.Struct, frozen=True, kw_only=True):
    """What this server is."""

    version: str
    language: str
    language_version: str


class ArtifactVersion(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A version of an artifact that was stored. canonical_uri: where it is, seen from the root of this API. create_time: epoch seconds."""

    version: int
    canonical_uri: str
    custom_metadata: dict[str, Any]
    create_time: float
    mime_type: str | None


def event_view(event: Event) -> dict[str, Any]:
    """An event as JSON-ready data."""
    view = event_to_dict(event)
    for name in _ALWAYS:
        view["actions"].setdefault(name, {})
    view.setdefault("nodeInfo", {}).setdefault("path", "")
    for part in (view.get("content") or {}).get("parts") or ():
        if (call := part.get("functionCall")) is not None:
            call.setdefault("args", {})
            view.setdefault("longRunningToolIds", [])
    return view


def session_view(session: Session) -> dict[str, Any]:
    """A session with the events that it was fetched with, as JSON-ready data."""
    return {
        "id": session.id,
        "appName": session.app_name,
        "userId": session.user_id,
        "state": thaw(session.state),
        "events": [event_view(event) for event in session.events],
        "lastUpdateTime": session.last_update_time,
    }


def part_view(part: Part) -> dict[str, Any]:
    """A part as JSON-ready data; bytes in url-safe base64."""
    return part.model_dump(mode="json", by_alias=True, exclude_none=True)
