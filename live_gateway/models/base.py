"""What the flow needs of a text model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from live_gateway.content import (
    CitationMetadata,
    Content,
    FinishReason,
    FunctionDeclaration,
    GenerateContentConfig,
    GenerateContentResponseUsageMetadata,
    GroundingMetadata,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One question to a text model.

    contents: the conversation so far, oldest first; the last entry is what is to be answered.
    instruction: the system instruction, templates already filled.
    tools: what the model may call.
    config: generation settings of the agent; what is set above stands above it.
    stream: whether pieces are wanted before the whole answer.
    """

    contents: tuple[Content, ...]
    instruction: str = ""
    tools: tuple[FunctionDeclaration, ...] = ()
    config: GenerateContentConfig | None = None
    stream: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResponse:
    """A piece of the answer (`partial`) or the whole of it. A stream ends with exactly one that is not partial."""

    content: Content | None = None
    partial: bool = False
    usage: GenerateContentResponseUsageMetadata | None = None
    finish_reason: FinishReason | None = None
    model_version: str | None = None
    grounding_metadata: GroundingMetadata | None = None
    citation_metadata: CitationMetadata | None = None
    error_code: str | None = None
    error_message: str | None = None


class Model(Protocol):
    """A text model. One object serves any number of requests at once and keeps nothing between them."""

    @property
    def name(self) -> str:
        """What the provider calls it, or ours for an embedded one."""
        ...

    def generate(self, request: ModelRequest) -> AsyncIterator[ModelResponse]:
        """Answer. Raises `ModelError` (and its children) where the provider fails."""
        ...
