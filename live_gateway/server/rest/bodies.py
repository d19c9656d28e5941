"""What clients send: bodies, read within bounds and checked. camelCase and snake_case; unknown fields are ignored, as google-adk does.

What a client may say is narrow: text and files in the message itself, and answers to calls that wait for one. Who it is that speaks is not
his to say: the role is always `user`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import Annotated, Any, TypeVar

import msgspec
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    StrictBool,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from starlette.requests import Request

from live_gateway.content import Blob, Content, FunctionResponse, Part
from live_gateway.errors import ContentRefused
from live_gateway.events import USER
from live_gateway.server.json_text import check_shape, clean
from live_gateway.server.messages import ID_PATTERN, MAX_PARTS
from live_gateway.server.rest.problems import Invalid, Refused

MAX_BODY = 8 * 2**20
BODY_S = 30.0

M = TypeVar("M", bound=BaseModel)


def _bounded(value: dict[str, Any]) -> dict[str, Any]:
    if not _fits(value):
        raise ValueError("a whole number has more than 64 bits")
    return value


def _fits(value: Any) -> bool:
    if isinstance(value, int):
        return -(2**63) <= value < 2**64
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return all(map(_fits, inner))


def _empty(value: object) -> object:
    if value:
        raise ValueError("this server does nothing with it; leave it out")
    return value


def _decoded(data: str) -> str:
    """The text, if it is base64 in either alphabet, padded or not."""
    if not decode_base64(data):
        raise ValueError("data is empty")
    return data


def _exactly_one_of(*names: str) -> dict[str, Any]:
    """JSON Schema for: one of these is there and not null, the others are neither."""
    return {"oneOf": [{"required": [name], "properties": {name: {"not": {"type": "null"}}}} for name in names]}


Id = Annotated[str, StringConstraints(pattern=ID_PATTERN)]
Json = Annotated[dict[str, Any], AfterValidator(_bounded)]
_NOTHING = {"anyOf": [{"type": "null"}, {"type": "object", "maxProperties": 0}, {"type": "array", "maxItems": 0}]}
Unused = Annotated[Any, AfterValidator(_empty), WithJsonSchema(_NOTHING)]
"""A field of google-adk's that does nothing here; empty it may be there."""
Base64 = Annotated[
    str, StringConstraints(min_length=2), Field(json_schema_extra={"pattern": "^[A-Za-z0-9+/_-]{2,}={0,2}$"}), AfterValidator(_decoded)
]
"""The pattern is for the description: decoding finds out the same, and 2 MiB against an expression hold all threads up for 15 ms."""
MimeType = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.+-]+/[A-Za-z0-9.+*-]+(;[ -~]*)?$", max_length=128)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class Body(BaseModel):
    """What all bodies have in common."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)


class InlineData(Body):
    """A file: base64 in either alphabet."""

    mime_type: MimeType
    data: Base64
    display_name: Name | None = None


class CallResponse(Body):
    """The answer to a call that waits for one."""

    id: Name
    name: Name
    response: Json


class MessagePart(Body):
    """One of: a text, a file, an answer to a call."""

    model_config = ConfigDict(json_schema_extra=_exactly_one_of("text", "inlineData", "functionResponse"))

    text: Annotated[str, Field(min_length=1)] | None = None
    inline_data: InlineData | None = None
    function_response: CallResponse | None = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_kinds(cls, data: Any) -> Any:
        for camel, snake in _REFUSED_KINDS if isinstance(data, dict) else ():
            if data.get(camel) is not None or data.get(snake) is not None:
                raise ContentRefused(f"A client sends text, files and answers to calls; {camel} is refused.")
        return data

    @model_validator(mode="after")
    def _one_of(self) -> MessagePart:
        if sum(value is not None for value in (self.text, self.inline_data, self.function_response)) != 1:
            raise ValueError("a part is a text, inlineData or a functionResponse: exactly one of them")
        return self

    def to_part(self) -> Part:
        """The part for the runner."""
        if self.function_response is not None:
            answer = self.function_response
            return Part(function_response=FunctionResponse(id=answer.id, name=answer.name, response=answer.response))
        if self.inline_data is not None:
            file = self.inline_data
            data = decode_base64(file.data)
            return Part(inline_data=Blob(data=data, mime_type=file.mime_type, display_name=file.display_name))
        return Part(text=self.text)


class Message(Body):
    """What the user says. Answers to calls stand alone."""

    parts: Annotated[list[MessagePart], Field(min_length=1, max_length=MAX_PARTS)]

    @model_validator(mode="after")
    def _not_mixed(self) -> Message:
        if len({part.function_response is None for part in self.parts}) > 1:
            raise ValueError("answers to calls and other parts need a message each")
        return self

    @property
    def answers(self) -> list[CallResponse]:
        """The answers to calls."""
        return [part.function_response for part in self.parts if part.function_response is not None]

    def to_content(self) -> Content:
        """The content for the runner."""
        return Content(role=USER, parts=[part.to_part() for part in self.parts])


class RunBody(Body):
    """What is to be run.

    app_name may be left out where one app is served. streaming: pieces before each whole event (`/run_sse`). function_call_event_id,
    invocation_id: where the call that is answered was made; they go with answers only, and must be right.
    """

    app_name: str | None = None
    user_id: Id
    session_id: Id
    new_message: Message | None = None
    streaming: StrictBool = False
    state_delta: Json | None = None
    function_call_event_id: str | None = None
    invocation_id: str | None = None
    custom_metadata: Unused = None
    service_tier: Unused = None


class CreateSession(Body):
    """A new session; without an id it gets one."""

    session_id: Id | None = None
    state: Json | None = None
    events: Unused = None
    options: Unused = None


class BareState(RootModel[Json | None]):
    """The state of a new session."""

    root: Json | None = None


class PatchSession(Body):
    """Changes to a session's state."""

    state_delta: Json


class ArtifactPart(Body):
    """One of: a text, a file."""

    model_config = ConfigDict(json_schema_extra=_exactly_one_of("text", "inlineData"))

    text: str | None = None
    inline_data: InlineData | None = None

    @model_validator(mode="after")
    def _one_of(self) -> ArtifactPart:
        if (self.text is None) == (self.inline_data is None):
            raise ValueError("an artifact is a text or inlineData: exactly one of them")
        return self

    def to_part(self) -> Part:
        """The part for the store."""
        return MessagePart.model_construct(text=self.text, inline_data=self.inline_data).to_part()


class SaveArtifact(Body):
    """A new version of an artifact."""

    filename: Name
    artifact: ArtifactPart
    custom_metadata: Unused = None


_REFUSED_KINDS = (
    ("fileData", "file_data"),
    ("functionCall", "function_call"),
    ("executableCode", "executable_code"),
    ("codeExecutionResult", "code_execution_result"),
    ("toolCall", "tool_call"),
    ("toolResponse", "tool_response"),
)
_URL_SAFE = bytes.maketrans(b"-_", b"+/")
_STEP = 2**16


def decode_base64(text: str) -> bytes:
    """Base64 in either alphabet, padded or not. Raises `ValueError`.

    In steps: one call for megabytes would hold all threads up.
    """
    try:
        bare = text.rstrip("=").encode("ascii").translate(_URL_SAFE)
        if b"=" in bare:
            raise ValueError
        bare += b"=" * (-len(bare) % 4)
        return b"".join(base64.b64decode(bare[at : at + _STEP], validate=True) for at in range(0, len(bare), _STEP))
    except (binascii.Error, ValueError):
        raise ValueError("data is not base64") from None


async def read_body(request: Request, model: type[M], *, required: bool = True) -> M:
    """The request's body as this model; without a body, where none is required, the model with nothing set.

    Raises `Invalid`, `BadMessage`, `ContentRefused`, or `Refused` for one that is too large, too slow, or no JSON.
    """
    data = await _read(request)
    if not data and not required:
        return model()
    media_type = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise Refused(415, "A body is application/json.", "unsupported_media_type")
    return parse_body(data, model, required=required)


def parse_body(data: bytes, model: type[M], *, required: bool = True) -> M:
    """The model in this JSON. Depth, keys and number of things are bounded before it is parsed."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise Invalid.at(["body"], "the body is not UTF-8", "json_invalid") from None
    check_shape(text)
    try:
        found = msgspec.json.decode(clean(text))
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Invalid.at(["body"], f"JSON decode error: {str(error)[:120]}", "json_invalid") from None
    if found is None and not required:
        return model()
    try:
        return model.model_validate(found)
    except ValidationError as error:
        raise Invalid.of(error) from None


async def _read(request: Request) -> bytes:
    too_large = Refused(413, f"A body has at most {MAX_BODY} bytes.", "too_large", {"Connection": "close"})
    length = request.headers.get("content-length", "")
    if length.isdecimal() and (len(length) > 18 or int(length) > MAX_BODY):
        raise too_large
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for chunk in request.stream():
                data += chunk
                if len(data) > MAX_BODY:
                    raise too_large
    except TimeoutError:
        raise Refused(408, f"A body is sent within {BODY_S:.0f} seconds.", "timeout", {"Connection": "close"}) from None
    return bytes(data)
