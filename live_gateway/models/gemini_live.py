"""Gemini Live as a live model. See `gemini_connection` for what one conversation does."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

from live_gateway.models.gemini_address import GeminiAccess
from live_gateway.models.gemini_connection import GeminiConnection
from live_gateway.models.gemini_options import GeminiOptions
from live_gateway.models.live import LiveSetup

MAX_HANDLES: Final = 1024
HANDLE_LIVES_S: Final = 2 * 3600.0 - 300.0
"""The service keeps a state for two hours."""


class GeminiLiveModel:
    """A `LiveModel` on Gemini Live.

    name: the model's, with or without its path. api_key: a key or an ephemeral token, else from the environment. vertexai: Google Cloud,
    with project, location and credentials (else the machine's own). base_url: another server. tls: for one with a certificate of its own.
    rotate_after_s: when a connection is replaced before the service ends it. stalled_after_s: how long the model may say nothing while it
    owes an answer. setup_s: how long it may take to be ready. Seconds.

    Raises `ModelUnavailable` without a key or project.
    """

    def __init__(
        self,
        name: str,
        *,
        api_key: str | None = None,
        vertexai: bool = False,
        project: str | None = None,
        location: str | None = None,
        credentials: Any = None,
        options: GeminiOptions | None = None,
        base_url: str | None = None,
    ) -> None:
        self.options = options or GeminiOptions()
        self.access = GeminiAccess.of_environment(
            api_key=api_key,
            vertexai=vertexai,
            project=project,
            location=location,
            credentials=credentials,
            base_url=base_url,
            api_version=self.options.api_version,
            headers=dict(self.options.headers),
        )
        self._name = name
        self._handles: OrderedDict[str, tuple[str, float]] = OrderedDict()

    @property
    def name(self) -> str:
        """What the provider calls it."""
        return self._name

    def connect(self, setup: LiveSetup) -> AbstractAsyncContextManager[GeminiConnection]:
        """Open a connection. Entering raises `ModelNotLive`, `UpstreamPolicy`, `UpstreamQuota`, `SetupTimeout`, `UpstreamLost`,
        `ContextExhausted`.
        """
        return self._connect(setup)

    @asynccontextmanager
    async def _connect(self, setup: LiveSetup) -> AsyncIterator[GeminiConnection]:
        handle = setup.session_resumption.handle or self._remembered(setup.continues)
        connection = GeminiConnection(self._name, self.access, self.options, setup, handle)
        try:
            await connection.open()
            yield connection
        finally:
            await connection.close()
            self._remember(setup.conversation, connection.handle)

    def _remember(self, conversation: str | None, handle: str | None) -> None:
        if conversation is None or handle is None:
            return
        self._handles[conversation] = (handle, self.options.clock.now())
        if len(self._handles) > MAX_HANDLES:
            self._handles.popitem(last=False)

    def _remembered(self, conversation: str | None) -> str | None:
        """The handle that a conversation of this process ended with, while the service keeps it."""
        if conversation is None:
            return None
        handle, since = self._handles.pop(conversation, (None, 0.0))
        return handle if self.options.clock.now() < since + HANDLE_LIVES_S else None


__all__ = ["GeminiConnection", "GeminiLiveModel", "GeminiOptions"]
