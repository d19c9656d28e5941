"""Sessions: make, list, fetch, change the state of, delete."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from live_gateway.errors import SessionExists, SessionNotFound
from live_gateway.events import USER, Event, EventActions
from live_gateway.runner import Runner
from live_gateway.server.gateway import Gateway
from live_gateway.server.rest.bodies import BareState, CreateSession, PatchSession
from live_gateway.server.rest.call import Call
from live_gateway.server.rest.meta import json_response
from live_gateway.server.rest.problems import Refused
from live_gateway.server.rest.run import runner_of
from live_gateway.server.rest.views import session_view
from live_gateway.sessions.base import Session


class SessionApi:
    """The endpoints of sessions."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def list(self, call: Call) -> Response:
        """The sessions of a user, without their events; the newest first."""
        runner, user_id = self._runner(call), call.identifier("user_id")
        sessions = await runner.session_service.list(app_name=runner.app_name, user_id=user_id)
        return json_response([session_view(session) for session in sessions])

    async def create(self, call: Call) -> Response:
        """A new session."""
        body = call.body_as(CreateSession)
        return await self._create(call, body.session_id, body.state)

    async def create_named(self, call: Call) -> Response:
        """A new session whose id is in the path."""
        return await self._create(call, call.identifier("session_id"), call.body_as(BareState).root)

    async def get(self, call: Call) -> Response:
        """A session with its events."""
        return json_response(session_view(await fetch(self._runner(call), call)))

    async def patch(self, call: Call) -> Response:
        """Store a change of the state as an event of the user; the session after it, with its events."""
        runner, delta = self._runner(call), call.body_as(PatchSession).state_delta
        session = await fetch(runner, call)
        event = Event(author=USER, invocation_id=f"p-{uuid.uuid4()}", actions=EventActions(state_delta=delta))
        try:
            await runner.session_service.append_event(session, event)
        except SessionNotFound:
            raise _missing() from None
        return json_response(session_view(session))

    async def delete(self, call: Call) -> Response:
        """Remove a session."""
        runner = self._runner(call)
        session = await fetch(runner, call, recent=0)
        await runner.session_service.delete(app_name=session.app_name, user_id=session.user_id, session_id=session.id)
        return json_response(None)

    async def _create(self, call: Call, session_id: str | None, state: Mapping[str, Any] | None) -> Response:
        runner, user_id = self._runner(call), call.identifier("user_id")
        try:
            session = await runner.session_service.create(app_name=runner.app_name, user_id=user_id, session_id=session_id, state=state)
        except SessionExists:
            raise Refused(409, f"Session already exists: {session_id}", "session_exists") from None
        return json_response(session_view(session))

    def _runner(self, call: Call) -> Runner:
        return runner_of(self._gateway, call.path("app_name"))


async def fetch(runner: Runner, call: Call, *, recent: int | None = None) -> Session:
    """The session that the path names. Raises `Refused` (404)."""
    user_id, session_id = call.identifier("user_id"), call.identifier("session_id")
    try:
        return await runner.session_service.get(app_name=runner.app_name, user_id=user_id, session_id=session_id, recent=recent)
    except SessionNotFound:
        raise _missing() from None


def _missing() -> Refused:
    return Refused(404, "Session not found", "session_not_found")
