"""Any server that speaks the chat-completions protocol, local (Ollama, vLLM, llama.cpp) or hosted, through the `openai` client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, cast

from live_gateway.content import GenerateContentResponseUsageMetadata, Part
from live_gateway.errors import ModelError, ModelUnavailable
from live_gateway.models.aggregate import Aggregator
from live_gateway.models.base import ModelRequest, ModelResponse
from live_gateway.models.openai_wire import Assembled, body_of, finish_reason
from live_gateway.models.upstream import Patience, ask, is_network_failure, refusal, unreachable

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class OpenAIModel:
    """A `Model` on a chat-completions server. One object serves any number of requests of one event loop.

    name: the model as the server calls it. base_url: up to and with `/v1`. api_key: sent as a bearer token; never taken from the
    environment, so that no key reaches a server that it is not meant for. patience: deadlines and retries.
    Raises `ModelUnavailable` where the `openai` extra is not installed; answering raises `UpstreamLost`, `UpstreamQuota`,
    `UpstreamPolicy`, or `ModelError` for a part that the wire cannot carry.
    """

    def __init__(self, name: str, *, base_url: str, api_key: str | None = None, patience: Patience | None = None) -> None:
        try:
            import openai
        except ImportError as error:
            raise ModelUnavailable("OpenAIModel needs the openai extra: pip install 'live-gateway[openai]'") from error
        self.name = name
        self._patience = patience or Patience()
        self._sdk = openai
        self._base_url = base_url
        self._api_key = api_key or "none"
        self._client: AsyncOpenAI | None = None

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelResponse]:
        """Answer; pieces first where the request wants a stream."""
        client, body = self._connected(), body_of(self.name, request)

        async def open_stream() -> AsyncIterator[Any]:
            opened: Any = await client.chat.completions.create(**body)
            return cast("AsyncIterator[Any]", opened) if request.stream else _once(opened)

        answer = _Answer()
        async for chunk in ask(self.name, open_stream, self._translate, self._patience):
            piece = answer.add(chunk)
            if piece is not None and request.stream:
                yield piece
        yield answer.whole()

    async def aclose(self) -> None:
        """Give the connections back. The model connects again when it is asked again."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _connected(self) -> AsyncOpenAI:
        if self._client is None:
            self._client = self._sdk.AsyncOpenAI(
                api_key=self._api_key, base_url=self._base_url, max_retries=0, timeout=self._patience.timeout_s
            )
        return self._client

    def _translate(self, failure: Exception) -> ModelError:
        if isinstance(failure, self._sdk.APIStatusError):
            return refusal(self.name, failure.status_code, failure.code if isinstance(failure.code, str) else None)
        if isinstance(failure, self._sdk.APIConnectionError) or is_network_failure(failure):
            return unreachable(self.name)
        return ModelError(f"the client of model {self.name!r} failed ({type(failure).__name__})")


class _Answer:
    """The answer as it grows, and what came with it. Takes chunks of a stream and whole completions alike."""

    def __init__(self) -> None:
        self._aggregator = Aggregator()
        self._calls = Assembled()
        self._finish: str | None = None
        self._last: dict[str, Any] = {}

    def add(self, chunk: Any) -> ModelResponse | None:
        """Take in the next chunk; what of it is worth showing at once."""
        if chunk.usage is not None:
            self._last["usage"] = GenerateContentResponseUsageMetadata(
                prompt_token_count=chunk.usage.prompt_tokens,
                candidates_token_count=chunk.usage.completion_tokens,
                total_token_count=chunk.usage.total_tokens,
            )
        if chunk.model:
            self._last["model_version"] = chunk.model
        if not chunk.choices:
            return None
        choice = chunk.choices[0]
        self._finish = choice.finish_reason or self._finish
        said = choice.delta if hasattr(choice, "delta") else choice.message
        for position, call in enumerate(said.tool_calls or ()):
            index = getattr(call, "index", None)
            self._calls.add(position if index is None else index, call.id, call.function.name, call.function.arguments)
        content = self._aggregator.add(_texts(said))
        return None if content is None else ModelResponse(content=content, partial=True)

    def whole(self) -> ModelResponse:
        """The whole answer. Calls that do not parse, or an answer that was filtered away, are an error code."""
        reason = finish_reason(self._finish)
        try:
            self._aggregator.add(self._calls.parts())
        except ValueError:
            return ModelResponse(error_code="MALFORMED_FUNCTION_CALL", error_message="The call's arguments are no JSON.", **self._last)
        content = self._aggregator.whole()
        if content is None and self._finish == "content_filter":
            return ModelResponse(error_code="SAFETY", finish_reason=reason, **self._last)
        return ModelResponse(content=content, finish_reason=reason, **self._last)


def _texts(said: Any) -> list[Part]:
    """The texts of a message: what many local servers call its reasoning, and what it says."""
    thought = getattr(said, "reasoning_content", None) or getattr(said, "reasoning", None)
    parts = [Part(text=thought, thought=True)] if isinstance(thought, str) and thought else []
    return [*parts, Part(text=said.content)] if said.content else parts


async def _once(completion: Any) -> AsyncIterator[Any]:
    yield completion
