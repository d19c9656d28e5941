"""`live-gateway serve`: put agent, store, runner and server together and run them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from live_gateway import telemetry
from live_gateway.agents.base import Agent
from live_gateway.artifacts.base import ArtifactService
from live_gateway.artifacts.directory import DirectoryArtifactService
from live_gateway.artifacts.memory import InMemoryArtifactService
from live_gateway.cli.live_model import live_model, with_live_model
from live_gateway.cli.load import load_agent
from live_gateway.cli.local_voice import how_to_install, missing_voice, needs_voice, with_live_models
from live_gateway.cli.problems import CommandError, Exit
from live_gateway.errors import ConfigurationError, GatewayError
from live_gateway.runner import Runner
from live_gateway.server.app import create_app
from live_gateway.server.gateway import ServerConfig
from live_gateway.server.run import serve
from live_gateway.sessions import OpenableSessionService, default_path, open_session_service
from live_gateway.settings import Settings, SettingsError, load_settings
from live_gateway.voice.local import Availability

_OPTIONS = ("host", "port", "store", "artifacts", "record_calls", "app_name", "live_model", "gemini_base_url")


def run(arguments: argparse.Namespace) -> int:
    """Serve until the process is asked to stop. Raises `CommandError` for whatever cannot be started."""
    settings = _settings(arguments)
    telemetry.configure(settings.log_level, as_json={"auto": None, "json": True, "text": False}[settings.log_format])
    agent = load_agent(arguments.agent)
    try:
        _serve(agent, settings)
    except ConfigurationError as error:
        raise CommandError(str(error)) from None
    return int(Exit.OK)


def _serve(agent: Agent, settings: Settings) -> None:
    if settings.live_model is not None:
        agent = with_live_model(agent, live_model(settings.live_model, settings.gemini_base_url))
    missing = missing_voice() if needs_voice(agent) else None
    store = _Store(open_session_service(settings.store))
    runner = Runner(
        app_name=settings.app_name or agent.name,
        agent=with_live_models(agent, missing),
        session_service=store.service,
        artifact_service=_artifacts(settings),
        auto_create_session=True,
    )
    app = create_app(runner, ServerConfig(record_calls=_recordings(settings)), around=store.opened)
    try:
        serve(app, settings.host, settings.port, on_ready=_announce(runner, settings, missing))
    except SystemExit:  # how uvicorn says that starting failed
        if store.problem is None:
            raise
    if store.problem is not None:
        raise CommandError(str(store.problem))


def _artifacts(settings: Settings) -> ArtifactService:
    if settings.artifacts is None and settings.store == "memory://":
        return InMemoryArtifactService()
    if settings.artifacts is not None:
        try:
            settings.artifacts.mkdir(parents=True, exist_ok=True)
        except OSError as error:  # said now, not when the first file of a conversation is lost
            raise CommandError(f"artifacts cannot be kept in {settings.artifacts}: {error.strerror or type(error).__name__}") from None
    return DirectoryArtifactService(settings.artifacts or Path(default_path()).parent / "artifacts")


def _recordings(settings: Settings) -> Path | None:
    """Found out now, so that not every caller has to be refused."""
    directory = settings.record_calls
    if directory is not None and not directory.is_dir():
        raise CommandError(f"calls cannot be recorded: {str(directory)!r} is no directory")
    if directory is not None and not os.access(directory, os.W_OK | os.X_OK):
        raise CommandError(f"calls cannot be recorded: nothing can be written in {str(directory)!r}")
    return directory


class _Store:
    """Opens the session service when the server starts, and keeps what went wrong: the server only knows that it could not start."""

    def __init__(self, service: OpenableSessionService) -> None:
        self.service = service
        self.problem: GatewayError | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self.service)
            except GatewayError as error:
                self.problem = error
                raise
            yield


def _settings(arguments: argparse.Namespace) -> Settings:
    try:
        return load_settings(**{name: getattr(arguments, name) for name in _OPTIONS})
    except SettingsError as error:
        raise CommandError(str(error)) from None


def _announce(runner: Runner, settings: Settings, missing: Availability | None) -> Callable[[str], None]:
    """What to say once clients can connect: what is served, where, and what to do next."""

    def announce(address: str) -> None:
        live = address.replace("http", "ws", 1) + "/live"
        lines = [
            f"Serving the agent {runner.agent.name!r}: {address} in a browser, {live} for programs.",
            f"Conversations are kept in {settings.store or default_path()}.",
            f"Try it from another terminal: live-gateway talk FILE.wav --url {live}",
            "Stop with Ctrl-C.",
        ]
        if settings.record_calls is not None:
            lines.insert(2, f"Calls are recorded in {settings.record_calls}.")
        if missing is not None:
            lines.insert(1, f"It only answers typed messages: {how_to_install(missing)}")
        print("\n".join(lines), file=sys.stdout, flush=True)

    return announce
