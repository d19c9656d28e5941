"""JSON from a client to the server, typed and checked (docs/reference/wire.md). Pure.

Size, depth and number of things are bounded before anything is parsed. Unknown fields are ignored; everything known is checked. No message
holds free JSON: what a client says is numbers, short names and texts.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from live_gateway.content import Blob, Content, Part
from live_gateway.errors import BadMessage, ContentRefused, GatewayError, ToolResponseNotExpected, VersionUnsupported
from live_gateway.server.json_text import check_shape, clean
from live_gateway.server.wire import MAX_MESSAGE, VERSION

MAX_PARTS = 32
IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/webp"})
ID_PATTERN = r"^[A-Za-z0-9_-]{1,64}$"
"""What an id of a session or a user may look like when a client chooses it."""

ForeignId = Annotated[str, msgspec.Meta(pattern=ID_PATTERN)]
MessageId = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.:-]{1,64}$")]
Name = Annotated[str, msgspec.Meta(max_length=128)]
Secret = Annotated[str, msgspec.Meta(max_length=4096)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=60_000)]
Measure = Annotated[float, msgspec.Meta(ge=-1e15, le=1e15)]
InputMode = Literal["hands_free", "ptt"]


class _Struct(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """What all messages have in common."""


class VadConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When the user counts as speaking; None leaves a value to the agent."""

    silence_ms: Milliseconds | None = None
    prefix_ms: Milliseconds | None = None
    interrupts: bool | None = None


class TranscriptionConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether what is said is also written, for each side."""

    input: bool = True
    output: bool = True


class ClientConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a client may choose about its live session."""

    modalities: Annotated[list[Literal["AUDIO", "TEXT"]], msgspec.Meta(min_length=1, max_length=1)] | None = None
    voice: Name | None = None
    language: Name | None = None
    vad: VadConfig | None = None
    transcription: TranscriptionConfig | None = None


class PlayingState(msgspec.Struct, frozen=True, kw_only=True):
    """How far a client that comes back had got with a response, in samples at 24 kHz."""

    response: Count
    received: Count
    played: Count


class Hello(_Struct, frozen=True, kw_only=True, tag="hello"):
    """The first message. `pending`: messages of which the client does not know what became."""

    v: Count
    app: Name | None = None
    user: ForeignId | None = None
    session: ForeignId | None = None
    ticket: Secret | None = None
    resume: Secret | None = None
    last_seq: Count | None = None
    pending: Annotated[list[MessageId], msgspec.Meta(max_length=64)] = []
    input: InputMode = "hands_free"
    lang: Name | None = None
    caps: Annotated[list[Name], msgspec.Meta(max_length=32)] = []
    config: ClientConfig | None = None
    playing: PlayingState | None = None


class SendContent(_Struct, frozen=True, kw_only=True, tag="content"):
    """A message of the user: text and images. Its role is `user`, whatever the client says."""

    message_id: MessageId
    content: Content


class InputActivity(_Struct, frozen=True, kw_only=True, tag="input.activity"):
    """Push to talk."""

    event: Literal["start", "end"]


class InputMute(_Struct, frozen=True, kw_only=True, tag="input.mute"):
    """The user switched the microphone off or on."""

    muted: bool


class SetInputMode(_Struct, frozen=True, kw_only=True, tag="input.mode"):
    """Hands-free or push to talk."""

    mode: InputMode


class InputEnd(_Struct, frozen=True, kw_only=True, tag="input.end"):
    """No more audio comes."""


class CancelResponse(_Struct, frozen=True, kw_only=True, tag="response.cancel"):
    """Stop the answer."""

    reason: Name = ""


class Playback(_Struct, frozen=True, kw_only=True, tag="playback"):
    """What the client played of a response; samples at 24 kHz."""

    event: Literal["start", "pos", "drained", "flushed", "underrun"]
    response: Count
    played: Count = 0
    heard: Count = 0
    queued: Count = 0
    underruns: Count = 0


class ConfirmTool(_Struct, frozen=True, kw_only=True, tag="tool.confirm"):
    """The user's decision about a call."""

    call: Name
    approve: bool
    digest: Name
    scope: Literal["once", "session"] = "once"


class AnswerTool(_Struct, frozen=True, kw_only=True, tag="tool.response"):
    """The answer of a tool that runs in the client."""

    call: Name
    name: Name
    response: msgspec.Raw


class ExtendTool(_Struct, frozen=True, kw_only=True, tag="tool.extend"):
    """The user needs more time to decide."""

    call: Name


class UpdateSession(_Struct, frozen=True, kw_only=True, tag="session.update"):
    """Change the session while it runs."""

    voice: Name | None = None
    instructions: Annotated[str, msgspec.Meta(max_length=65_536)] | None = None
    vad: VadConfig | None = None


class RefreshAuth(_Struct, frozen=True, kw_only=True, tag="auth.refresh"):
    """A new ticket before the old one's time is over."""

    ticket: Secret


class AudioStats(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Gaps in playback."""

    underruns: Count = 0
    underrun_ms: Measure = 0.0
    glitches: Count = 0


class ClientStats(_Struct, frozen=True, kw_only=True, tag="client.stats"):
    """What the client measured since the last of these."""

    audio: AudioStats | None = None
    lag_ms: Measure | None = None
    dropped_ms: Measure | None = None
    rtt_ms: Measure | None = None


class Ping(_Struct, frozen=True, kw_only=True, tag="ping"):
    """A question for a pong. `t0`: the client's clock, epoch milliseconds."""

    t0: Measure


class Bye(_Struct, frozen=True, kw_only=True, tag="bye"):
    """The user is done."""


ClientMessage: TypeAlias = (
    Hello
    | SendContent
    | InputActivity
    | InputMute
    | SetInputMode
    | InputEnd
    | CancelResponse
    | Playback
    | ConfirmTool
    | AnswerTool
    | ExtendTool
    | UpdateSession
    | RefreshAuth
    | ClientStats
    | Ping
    | Bye
)


def parse_message(text: str) -> ClientMessage:
    """The message in this text.

    Raises `BadMessage` for what is no message, `VersionUnsupported` for a hello of another version, and for content `ContentRefused` or
    `ToolResponseNotExpected`. A lone surrogate and NUL become U+FFFD.
    """
    if len(text) > MAX_MESSAGE:
        raise BadMessage(f"A text message has at most {MAX_MESSAGE} bytes.")
    check_shape(text)
    text = clean(text)
    try:
        message = _decoder.decode(text)
    except msgspec.ValidationError as error:
        raise _refusal(text, error) from None
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise BadMessage(f"This is not JSON: {str(error)[:120]}") from None
    if isinstance(message, Hello) and message.v != VERSION:
        raise _wrong_version(message.v)
    return message


def subject_of(text: str) -> tuple[str | None, str | None]:
    """Type and message id of a message that was refused, as far as they can be told."""
    try:
        subject = _subject_decoder.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None, None
    return subject.type, subject.message_id


def parse_content(data: object) -> Content:
    """The user's content in this JSON-ready data: text and inline images, nothing else; in camel or snake case.

    Raises `ValueError` for what does not fit, `ContentRefused` for a kind of part that a client may not send, `ToolResponseNotExpected` for
    a function response.
    """
    if isinstance(data, dict):
        for part in data["parts"] if isinstance(data.get("parts"), list) else ():
            _refuse_kinds(part)
    narrow = msgspec.convert(data, _NarrowContent)
    return Content(role="user", parts=[_part(part) for part in narrow.parts])


class _NarrowBlob(msgspec.Struct, frozen=True, kw_only=True):
    data: str
    mimeType: str | None = None  # noqa: N815 - the field's name on the wire
    mime_type: str | None = None


class _NarrowPart(msgspec.Struct, frozen=True, kw_only=True):
    text: str | None = None
    inlineData: _NarrowBlob | None = None  # noqa: N815
    inline_data: _NarrowBlob | None = None


class _NarrowContent(msgspec.Struct, frozen=True, kw_only=True):
    parts: Annotated[list[_NarrowPart], msgspec.Meta(min_length=1, max_length=MAX_PARTS)]


class _Envelope(msgspec.Struct, frozen=True):
    type: str
    v: int | None = None


class _Subject(msgspec.Struct, frozen=True):
    type: str | None = None
    message_id: MessageId | None = None


_REFUSED_KINDS = {
    "fileData": "file_data",
    "functionCall": "function_call",
    "executableCode": "executable_code",
    "codeExecutionResult": "code_execution_result",
    "toolCall": "tool_call",
    "toolResponse": "tool_response",
}


def _refusal(text: str, error: Exception) -> GatewayError:
    """What to say about a text that is JSON and no message: for a hello the version comes first, since its fields may differ by version."""
    try:
        envelope = _envelope_decoder.decode(text)
    except (msgspec.DecodeError, ValueError):
        return BadMessage(f'A message is an object with a text "type": {str(error)[:120]}')
    if envelope.type == "hello" and envelope.v not in (None, VERSION):
        return _wrong_version(envelope.v)
    if envelope.type not in _KNOWN_TYPES:
        return BadMessage(f"There is no message of type {envelope.type[:40]!r}.")
    return BadMessage(f"{envelope.type}: {str(error)[:160]}")


def _wrong_version(version: int | None) -> VersionUnsupported:
    return VersionUnsupported(f"This server speaks version {VERSION} of the protocol, not {version}.")


def _refuse_kinds(part: object) -> None:
    if not isinstance(part, dict):
        return
    if "functionResponse" in part or "function_response" in part:
        raise ToolResponseNotExpected("No call waits for an answer of this client.")
    for camel, snake in _REFUSED_KINDS.items():
        if camel in part or snake in part:
            raise ContentRefused(f"A client sends text and images; {camel} is refused.")


def _part(part: _NarrowPart) -> Part:
    given = [value for value in (part.text, part.inlineData, part.inline_data) if value is not None]
    if len(given) != 1:
        raise ValueError("a part is either a text or an image (inlineData)")
    value = given[0]
    if isinstance(value, str):
        if not value:
            raise ValueError("a text part is not empty")
        return Part(text=value)
    mime_type = (value.mimeType or value.mime_type or "").lower()
    if mime_type not in IMAGE_TYPES:
        raise ContentRefused(f"An image is one of {', '.join(sorted(IMAGE_TYPES))}, not {mime_type[:40]!r}.")
    return Part(inline_data=Blob(data=_decode_base64(value.data), mime_type=mime_type))


def _decode_base64(text: str) -> bytes:
    """Base64 in either alphabet, padded or not."""
    try:
        data = base64.b64decode(text.rstrip("=").translate(_URL_SAFE) + "=" * (-len(text.rstrip("=")) % 4), validate=True)
    except binascii.Error:
        raise ValueError("data is not base64") from None
    if not data:
        raise ValueError("data is empty")
    return data


_URL_SAFE = str.maketrans("-_", "+/")


def _dec_hook(kind: type, value: Any) -> Any:
    if kind is Content:
        return parse_content(value)
    raise NotImplementedError(kind)


_decoder: msgspec.json.Decoder[ClientMessage] = msgspec.json.Decoder(ClientMessage, dec_hook=_dec_hook)
_envelope_decoder = msgspec.json.Decoder(_Envelope)
_subject_decoder = msgspec.json.Decoder(_Subject)
_KNOWN_TYPES = frozenset(kind.__struct_config__.tag for kind in ClientMessage.__args__)
