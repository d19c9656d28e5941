"""Gemini through the google-genai client: the Gemini API with a key, or Vertex AI."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from google import genai
from google.auth.exceptions import GoogleAuthError, TransportError
from google.genai import errors, types

from live_gateway.content import FinishReason
from live_gateway.errors import ModelError, ModelUnavailable, UpstreamPolicy
from live_gateway.models.aggregate import Aggregator
from live_gateway.models.base import ModelRequest, ModelResponse
from live_gateway.models.upstream import Patience, ask, is_network_failure, refusal, unreachable

_FINE = (None, FinishReason.STOP, FinishReason.MAX_TOKENS, FinishReason.FINISH_REASON_UNSPECIFIED)


class GeminiModel:
    """A `Model` on Google's service. One object serves any number of requests of one event loop.

    api_key: for the Gemini API; without, the client looks for GEMINI_API_KEY and GOOGLE_API_KEY. vertexai: use Vertex AI with the
    machine's Google credentials (project, location). base_url: another address that speaks the same protocol. patience: deadlines and
    retries. Answering raises `ModelUnavailable` where no key is found, `UpstreamLost`, `UpstreamQuota` or `UpstreamPolicy`.
    """

    def __init__(
        self,
        name: str,
        *,
        api_key: str | None = None,
        vertexai: bool | None = None,
        project: str | None = None,
        location: str | None = None,
        base_url: str | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.name = name
        self._patience = patience or Patience()
        self._options: dict[str, Any] = {"api_key": api_key, "vertexai": vertexai, "project": project, "location": location}
        self._http = types.HttpOptions(base_url=base_url, timeout=round(self._patience.timeout_s * 1000))
        self._client: genai.Client | None = None

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelResponse]:
        """Answer; pieces first where the request wants a stream."""
        client = self._connected()

        async def open_stream() -> AsyncIterator[types.GenerateContentResponse]:
            contents, config = list(request.contents), _config(request)
            if request.stream:
                return await client.aio.models.generate_content_stream(model=self.name, contents=contents, config=config)
            return _once(await client.aio.models.generate_content(model=self.name, contents=contents, config=config))

        answer = _Answer()
        async for response in ask(self.name, open_stream, self._translate, self._patience):
            piece = answer.add(response)
            if piece is not None and request.stream:
                yield piece
        yield answer.whole()

    async def aclose(self) -> None:
        """Give the connections back. The model connects again when it is asked again."""
        client, self._client = self._client, None
        if client is not None:
            await client.aio.aclose()

    def _connected(self) -> genai.Client:
        if self._client is None:
            try:
                self._client = genai.Client(http_options=self._http, **self._options)
            except ValueError as error:
                raise ModelUnavailable(f"model {self.name!r} needs an API key (GEMINI_API_KEY) or Vertex AI credentials") from error
        return self._client

    def _translate(self, failure: Exception) -> ModelError:
        if isinstance(failure, errors.APIError):
            return refusal(self.name, failure.code or 500, failure.status)
        if isinstance(failure, TransportError) or is_network_failure(failure):
            return unreachable(self.name)
        if isinstance(failure, GoogleAuthError):
            return UpstreamPolicy(f"model {self.name!r} cannot be used with these Google credentials; check them")
        return ModelError(f"the client of model {self.name!r} failed ({type(failure).__name__})")


class _Answer:
    """The answer as it grows, and what came with it."""

    def __init__(self) -> None:
        self._aggregator = Aggregator()
        self._last: dict[str, Any] = {}
        self._finish_message: str | None = None
        self._block_reason: str | None = None

    def add(self, response: types.GenerateContentResponse) -> ModelResponse | None:
        """Take in the next response; what of it is worth showing at once."""
        candidate = response.candidates[0] if response.candidates else None
        self._note(usage=response.usage_metadata, model_version=response.model_version)
        if response.prompt_feedback is not None and response.prompt_feedback.block_reason is not None:
            self._block_reason = response.prompt_feedback.block_reason.value
        if candidate is None:
            return None
        self._finish_message = candidate.finish_message or self._finish_message
        self._note(
            finish_reason=candidate.finish_reason,
            grounding_metadata=candidate.grounding_metadata,
            citation_metadata=candidate.citation_metadata,
        )
        parts = candidate.content.parts if candidate.content is not None else None
        content = self._aggregator.add(parts or ())
        return None if content is None else ModelResponse(content=content, partial=True)

    def whole(self) -> ModelResponse:
        """The whole answer. Where there is none, the reason is its error code."""
        content = self._aggregator.whole()
        reason: FinishReason | None = self._last.get("finish_reason")
        code = self._block_reason or (reason.value if reason is not None and reason not in _FINE else None)
        if content is not None or code is None:
            return ModelResponse(content=content, **self._last)
        return ModelResponse(error_code=code, error_message=self._finish_message, **self._last)

    def _note(self, **values: Any) -> None:
        self._last.update({name: value for name, value in values.items() if value is not None})


async def _once(response: types.GenerateContentResponse) -> AsyncIterator[types.GenerateContentResponse]:
    yield response


def _config(request: ModelRequest) -> types.GenerateContentConfig:
    """The request's settings on top of the agent's; the client itself runs no tools."""
    config = request.config or types.GenerateContentConfig()
    changes: dict[str, Any] = {"automatic_function_calling": types.AutomaticFunctionCallingConfig(disable=True)}
    if request.instruction:
        changes["system_instruction"] = request.instruction
    if request.tools:
        changes["tools"] = [*(config.tools or ()), types.Tool(function_declarations=list(request.tools))]
    return config.model_copy(update=changes)
