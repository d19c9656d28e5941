"""The content model: what a message is made of.

`Content`, `Part`, `Blob`, `FunctionCall`, ... are those of `google.genai.types`, which users of this ecosystem know. This module is the
one place that imports them; the rest of the package imports them from here. The helpers below never change what they are given.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from google.genai.types import (
    Blob,
    CitationMetadata,
    Content,
    FileData,
    FinishReason,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    FunctionResponseScheduling,
    GenerateContentConfig,
    GenerateContentResponseUsageMetadata,
    GroundingMetadata,
    Part,
    Transcription,
    UsageMetadata,
)

__all__ = [
    "Blob",
    "CitationMetadata",
    "Content",
    "FileData",
    "FinishReason",
    "FunctionCall",
    "FunctionDeclaration",
    "FunctionResponse",
    "FunctionResponseScheduling",
    "GenerateContentConfig",
    "GenerateContentResponseUsageMetadata",
    "GroundingMetadata",
    "Part",
    "Transcription",
    "UsageMetadata",
    "digest",
    "function_calls",
    "function_responses",
    "has_inline_data",
    "is_reference",
    "model_content",
    "text_of",
    "user_content",
    "without_inline_data",
]

CONTEXT = "For context, from another participant:"
"""What a message begins with by which an agent's model is told what another agent said or did."""
TRANSFER_TO_AGENT = "transfer_to_agent"
"""Name of the tool by which an agent's model hands the conversation over."""
TASK_COMPLETED = "task_completed"
"""Name of the tool by which it says that its part of a sequence is done."""


def user_content(text: str) -> Content:
    """A message of the user with one text part."""
    return Content(role="user", parts=[Part(text=text)])


def model_content(parts: Iterable[Part]) -> Content:
    """A turn of the model with these parts."""
    return Content(role="model", parts=list(parts))


def text_of(content: Content | None) -> str:
    """The text parts joined, thoughts left out; empty without content."""
    if content is None or not content.parts:
        return ""
    return "".join(part.text for part in content.parts if part.text and not part.thought)


def function_calls(content: Content | None) -> list[FunctionCall]:
    """The function calls in the order of the parts; empty without content."""
    if content is None or not content.parts:
        return []
    return [part.function_call for part in content.parts if part.function_call is not None]


def function_responses(content: Content | None) -> list[FunctionResponse]:
    """The function responses in the order of the parts; empty without content."""
    if content is None or not content.parts:
        return []
    return [part.function_response for part in content.parts if part.function_response is not None]


def has_inline_data(content: Content | None) -> bool:
    """Whether any part carries bytes (audio, an image)."""
    return content is not None and any(part.inline_data is not None for part in content.parts or ())


def without_inline_data(content: Content) -> Content | None:
    """A copy of the content without the parts that carry bytes; None when nothing is left."""
    parts = [part for part in content.parts or () if part.inline_data is None]
    return Content(role=content.role, parts=parts) if parts else None


def is_reference(content: Content | None) -> bool:
    """Whether the content is nothing but references to artifacts of ours: a record of something, and no words of anybody."""
    parts = content.parts if content is not None else None
    return bool(parts) and all(
        part.file_data is not None and (part.file_data.file_uri or "").startswith("artifact:") for part in parts or ()
    )


def digest(args: Mapping[str, Any] | None) -> str:
    """A short hash of a call's arguments, equal for equal arguments: 16 hex digits of SHA-256 over canonical JSON."""
    canonical = json.dumps(args or {}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:16]
