"""Events: the records that a session is made of, and their JSON form.

An event is immutable; a changed one is a copy (`msgspec.structs.replace`). JSON keys are camelCase, absent means default, so an empty event
has exactly the keys `actions`, `author`, `id`, `invocationId`, `timestamp`.

Four ids, four meanings: `event.id` is one record; `function_call.id` pairs a call with its response; `invocation_id` is one logical run,
shared by pause and resume; an interrupt id is one waiting point. The role of the content and the author of the event are different things:
a tool's answer has the role `user` and the agent as author.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any

import msgspec
from pydantic import BaseModel, ValidationError

from live_gateway.content import (
    CitationMetadata,
    Content,
    FinishReason,
    FunctionCall,
    FunctionResponse,
    GenerateContentResponseUsageMetadata,
    GroundingMetadata,
    Transcription,
    function_calls,
    function_responses,
    text_of,
)

USER = "user"
"""The author of what the user said, typed or answered; no agent may have this name."""


def new_event_id() -> str:
    """A fresh id for one record: 32 hex digits."""
    return uuid.uuid4().hex


def new_invocation_id() -> str:
    """A fresh id for one logical run."""
    return f"e-{uuid.uuid4()}"


class Compaction(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A summary that stands for the stored events `first_seq` to `last_seq`, but for those in `excluded`."""

    first_seq: int
    last_seq: int
    content: Content
    excluded: list[int] = []


class EventActions(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Side effects that an event carries; they take effect when it is stored."""

    state_delta: dict[str, Any] = {}
    artifact_delta: dict[str, int] = {}
    transfer_to_agent: str | None = None
    escalate: bool = False
    skip_summarization: bool = False
    requested_tool_confirmations: dict[str, Any] = {}
    compaction: Compaction | None = None
    end_of_agent: bool = False


class NodeInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Where in a workflow an event comes from."""

    path: str = ""
    message_as_output: bool = False
    output_for: list[str] = []


class Event(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One record of a session.

    timestamp: seconds since the Unix epoch; for people, never for ordering.
    seq: the place in the session's order, from 1 without holes; 0 while the event is not stored.
    partial: a piece of something that is still growing; yielded, never stored.
    """

    author: str
    id: str = msgspec.field(default_factory=new_event_id)
    invocation_id: str = msgspec.field(default_factory=str)  # a factory, so that an empty one is written too
    timestamp: float = msgspec.field(default_factory=time.time)
    actions: EventActions = msgspec.field(default_factory=EventActions)
    seq: int = 0
    branch: str | None = None
    isolation_scope: str | None = None
    content: Content | None = None
    partial: bool = False
    turn_complete: bool = False
    interrupted: bool = False
    input_transcription: Transcription | None = None
    output_transcription: Transcription | None = None
    error_code: str | None = None
    error_message: str | None = None
    usage_metadata: GenerateContentResponseUsageMetadata | None = None
    finish_reason: FinishReason | None = None
    grounding_metadata: GroundingMetadata | None = None
    citation_metadata: CitationMetadata | None = None
    model_version: str | None = None
    long_running_tool_ids: list[str] = []
    node_info: NodeInfo | None = None
    routes: list[str | int | bool] = []
    requested_input: dict[str, Any] | None = None
    output: Any = None
    custom_metadata: dict[str, Any] = {}

    @property
    def function_calls(self) -> list[FunctionCall]:
        """The calls in the content; empty without content."""
        return function_calls(self.content)

    @property
    def function_responses(self) -> list[FunctionResponse]:
        """The responses in the content; empty without content."""
        return function_responses(self.content)

    @property
    def text(self) -> str:
        """The text parts joined, thoughts left out; empty without content."""
        return text_of(self.content)

    @property
    def transcription(self) -> Transcription | None:
        """The input or output transcription, whichever the event has."""
        return self.input_transcription or self.output_transcription

    def is_final_response(self) -> bool:
        """Whether this event closes an agent's answer. It does not mean that the run is over: callers go on until the stream ends."""
        if self.actions.compaction is not None:
            return False
        if self.actions.skip_summarization or self.long_running_tool_ids:
            return True
        return not (self.partial or self.function_calls or self.function_responses or _ends_in_code_result(self.content))


def _ends_in_code_result(content: Content | None) -> bool:
    return bool(content and content.parts and content.parts[-1].code_execution_result is not None)


def replace(event: Event, **changes: Any) -> Event:
    """A copy of the event with these fields changed."""
    return msgspec.structs.replace(event, **changes)


def encode_event(event: Event) -> bytes:
    """The event as compact UTF-8 JSON."""
    return _encoder.encode(event)


def event_to_dict(event: Event) -> dict[str, Any]:
    """The event as JSON-ready data (dicts, lists, strings, numbers)."""
    built: dict[str, Any] = msgspec.to_builtins(event, enc_hook=_enc_hook, str_keys=True)
    return built


def decode_event(data: bytes | str) -> Event:
    """The event in this JSON text. Raises `msgspec.ValidationError` (a `ValueError`) naming the path of what is wrong."""
    return _decoder.decode(data)


def event_from_dict(data: object) -> Event:
    """The event in this JSON-ready data. Raises `msgspec.ValidationError` (a `ValueError`)."""
    return msgspec.convert(data, Event, dec_hook=_dec_hook)


def _enc_hook(value: object) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, Mapping):  # a read-only value out of a session's state
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _dec_hook(kind: type, value: Any) -> Any:
    if not issubclass(kind, BaseModel):
        raise TypeError(f"{kind.__name__} cannot be read from JSON")
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise ValueError(_complaint(error)) from None


def _complaint(error: ValidationError) -> str:
    """What is wrong and where, without the value: it is content."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{error.title}: {first['msg']} at {'.'.join(str(step) for step in first['loc']) or 'the top'}"


_encoder = msgspec.json.Encoder(enc_hook=_enc_hook)
_decoder = msgspec.json.Decoder(Event, dec_hook=_dec_hook)
