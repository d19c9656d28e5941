"""Where a Gemini Live connection goes and how it shows who it is: the same address and headers as the vendor's SDK, from the same input.

An API key, an ephemeral token (`auth_tokens/...`), or Google Cloud credentials. The last are loaded and refreshed in a thread, since both
may ask a server.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import os
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from live_gateway.errors import ModelUnavailable, UpstreamPolicy

DEVELOPER_URL: Final = "https://generativelanguage.googleapis.com"
_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_MULTI_REGIONS: Final = frozenset({"us", "eu"})
_EPHEMERAL: Final = "auth_tokens/"


@dataclass(frozen=True, slots=True)
class Address:
    """uri: what to dial. headers: what to send with it. model: its name with its path, as the set-up wants it."""

    uri: str
    headers: dict[str, str] = field(repr=False)
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiAccess:
    """How to reach the service and as whom.

    api_key: a key, or an ephemeral token; without one it is taken from the environment (GOOGLE_API_KEY, GEMINI_API_KEY), unless a project
    is named. vertexai: Google Cloud instead of the Developer API. credentials: `google.auth` credentials; without them the machine's own.
    base_url: another server; plain `http` only on this machine. api_version: None for the SDK's own choice.

    Raises `ModelUnavailable` if there is nothing to show.
    """

    api_key: str | None = field(default=None, repr=False)
    vertexai: bool = False
    project: str | None = None
    location: str | None = None
    credentials: Any = field(default=None, repr=False)
    base_url: str | None = None
    api_version: str | None = None
    headers: dict[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of_environment(
        cls, *, api_key: str | None, vertexai: bool, project: str | None, location: str | None, credentials: Any, **rest: Any
    ) -> GeminiAccess:
        """Fill what was not given from the environment, as the SDK does."""
        named = bool(project or location or credentials)
        if not vertexai:
            if named:
                raise ModelUnavailable("project, location and credentials belong to vertexai=True")
            api_key = api_key or _key_of_environment()
            if not api_key:
                raise ModelUnavailable("no API key: set GEMINI_API_KEY or pass api_key")
            return cls(api_key=api_key.strip(), **rest)
        if not api_key:
            project = project or os.environ.get("GOOGLE_CLOUD_PROJECT")
            location = location or os.environ.get("GOOGLE_CLOUD_LOCATION")
            if not (project or location or credentials):
                api_key = _key_of_environment()
        return cls(
            api_key=api_key.strip() if api_key else None,
            vertexai=True,
            project=project,
            location=location or (None if api_key else "global"),
            credentials=credentials,
            **rest,
        )

    @property
    def ephemeral(self) -> bool:
        """Whether the key is a token of short life."""
        return bool(self.api_key and self.api_key.startswith(_EPHEMERAL))

    def version(self, *, preview: bool) -> str:
        """The API's version. preview: something is asked for that only the newest knows."""
        if self.api_version:
            return self.api_version
        named = os.environ.get("GOOGLE_GENAI_API_VERSION")
        if self.vertexai:
            return "v1beta1" if not named or named == "beta" else named
        if self.ephemeral or preview:
            return "v1alpha"
        return "v1beta" if named == "beta" else named or "v1"  # as the vendor's own client; a test compares them

    def base(self) -> str:
        """The server, as a WebSocket address without a path."""
        url = self.base_url or self._service_url()
        parts = urlsplit(url)
        if not parts.hostname:
            raise ModelUnavailable(f"the base URL {url!r} names no host")
        scheme = "ws" if parts.scheme in ("http", "ws") and _is_loopback(parts.hostname) else "wss"
        return f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}"

    async def address(self, model: str, *, preview: bool = False) -> Address:
        """The address for a model. Raises `UpstreamPolicy` when credentials cannot be loaded or refreshed."""
        version = self.version(preview=preview)
        headers = dict(self.headers)
        if not self.vertexai:
            assert self.api_key is not None
            method = "BidiGenerateContent"
            if self.ephemeral:
                method += "Constrained"
                headers["Authorization"] = f"Token {self.api_key}"
            else:
                headers["x-goog-api-key"] = self.api_key
            path = f"google.ai.generativelanguage.{version}.GenerativeService.{method}"
            return Address(f"{self.base()}/ws/{path}", headers, _developer_model(model))
        uri = f"{self.base()}/ws/google.cloud.aiplatform.{version}.LlmBidiService/BidiGenerateContent"
        if self.api_key:
            headers["x-goog-api-key"] = self.api_key
            return Address(uri, headers, _vertex_model(model))
        token, project, quota_project = await asyncio.to_thread(self._token)
        headers.setdefault("Authorization", f"Bearer {token}")
        if quota_project:
            headers.setdefault("x-goog-user-project", quota_project)
        name = _vertex_model(model)
        if name.startswith("publishers/"):
            name = f"projects/{project}/locations/{self.location}/{name}"
        return Address(uri, headers, name)

    def _service_url(self) -> str:
        if not self.vertexai:
            return DEVELOPER_URL
        if self.location in (None, "global"):
            return "https://aiplatform.googleapis.com"
        if self.location in _MULTI_REGIONS:
            return f"https://aiplatform.{self.location}.rep.googleapis.com"
        return f"https://{self.location}-aiplatform.googleapis.com"

    def _token(self) -> tuple[str, str, str | None]:
        """In a thread: a token that is valid now, the project, and the project that pays if it is another."""
        from google.auth.exceptions import GoogleAuthError
        from google.auth.transport.requests import Request

        try:
            credentials, project = self.credentials, self.project
            if credentials is None:
                credentials, found = _machine_credentials()
                project = project or found
            if not credentials.valid:
                credentials.refresh(Request())
        except GoogleAuthError as error:
            raise UpstreamPolicy(f"the Google Cloud credentials cannot be used ({type(error).__name__})") from error
        if not project:
            raise UpstreamPolicy("no Google Cloud project: set GOOGLE_CLOUD_PROJECT or pass project")
        return credentials.token, project, getattr(credentials, "quota_project_id", None)


@functools.cache
def _machine_credentials() -> tuple[Any, str | None]:
    """Loaded once; they refresh themselves."""
    import google.auth

    credentials, project = google.auth.default(scopes=[_SCOPE])
    return credentials, project


def _key_of_environment() -> str | None:
    return os.environ.get("GOOGLE_API_KEY") or os.environ.get("GEMINI_API_KEY") or None


def _developer_model(model: str) -> str:
    return model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"


def _vertex_model(model: str) -> str:
    if model.startswith(("projects/", "publishers/", "models/")):
        return model
    publisher, slash, name = model.partition("/")
    return f"publishers/{publisher}/models/{name}" if slash else f"publishers/google/models/{model}"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
