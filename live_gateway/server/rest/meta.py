"""What the server is and which apps it serves."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from live_gateway import __version__
from live_gateway.runner import Runner
from live_gateway.server.rest.call import Call
from live_gateway.server.rest.views import AppList, AppView, Health, VersionView


def json_response(data: Any) -> Response:
    """An answer of JSON-ready data, or of what msgspec writes as JSON."""
    return Response(msgspec.json.encode(data), media_type="application/json")


class MetaApi:
    """The endpoints about the server."""

    def __init__(self, runners: Mapping[str, Runner]) -> None:
        self._runners = runners

    async def health(self, _call: Call) -> Response:
        """The process answers."""
        return json_response(Health(status="ok"))

    async def version(self, _call: Call) -> Response:
        """The version of this package and of the language."""
        return json_response(VersionView(version=__version__, language="python", language_version=platform.python_version()))

    async def list_apps(self, call: Call) -> Response:
        """The names of the apps; with `detailed` also what they are."""
        if not call.flag("detailed"):
            return json_response(list(self._runners))
        return json_response(AppList(apps=[_app(name, runner) for name, runner in self._runners.items()]))


def _app(name: str, runner: Runner) -> AppView:
    return AppView(name=name, root_agent_name=runner.agent.name, description=runner.agent.description)
