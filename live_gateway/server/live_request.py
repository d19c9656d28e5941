"""What a client of `WS /run_live` says: the query of the address, and google-adk's `LiveRequest` frames. Pure.

Both spellings of every name are taken (`activity_start`, `activityStart`). Of the realtime fields of one frame the first of
`activity_start`, `activity_end`, `audio_stream_end`, `blob` counts, as in google-adk; a content in the same frame goes before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from pydantic import BaseModel, ValidationError
from starlette.datastructures import QueryParams

from live_gateway.agents.config import LiveRunConfig
from live_gateway.content import Content
from live_gateway.errors import BadAudioFrame, BadMessage, ContentRefused, InvalidInput, NotSupported
from live_gateway.models.live import INPUT_HZ, Activity, SessionResumption
from live_gateway.server.json_text import check_shape, clean
from live_gateway.server.messages import ID_PATTERN, IMAGE_TYPES
from live_gateway.server.rest.bodies import Message, PatchSession, decode_base64
from live_gateway.server.wire import MAX_IMAGE

MAX_PCM: Final = 320_000
"""Bytes of audio in one frame: 10 s."""
KEYS: Final = ("content", "blob", "activity_start", "activity_end", "audio_stream_end", "state_delta", "close", "partial")

M = TypeVar("M", bound=BaseModel)
_ID = re.compile(ID_PATTERN)
_FLAGS = {"true": True, "1": True, "false": False, "0": False}
_PCM = re.compile(r"audio/pcm(?:;\s*rate=(\d{1,6}))?")


@dataclass(frozen=True, slots=True)
class RunLiveQuery:
    """Which session is to be opened and how. standard_base64: audio in the plain alphabet instead of the url-safe one."""

    app_name: str
    user_id: str
    session_id: str
    config: LiveRunConfig
    standard_base64: bool = False


def parse_query(query: QueryParams) -> RunLiveQuery:
    """The query of the address. Raises `InvalidInput` for what is missing or wrong, `NotSupported`."""
    app_name, user_id, session_id = (_required(query, name) for name in ("app_name", "user_id", "session_id"))
    for name, value in (("user_id", user_id), ("session_id", session_id)):
        if _ID.fullmatch(value) is None:
            raise InvalidInput(f"{name}: an id has 1 to 64 letters, digits, _ and -.")
    if _flag(query, "explicit_vad_signal", default=False):
        raise NotSupported("explicit_vad_signal: no event says when a voice is found; transcriptions and interruptions do. Leave it out.")
    alphabet = _value(query, "base64") or "url"
    if alphabet not in {"url", "std"}:
        raise InvalidInput("base64 is std or url.")
    config = LiveRunConfig(
        modality=_modality(query),
        proactivity=_flag(query, "proactive_audio", default=False),
        affective_dialog=_flag(query, "enable_affective_dialog", default=False),
        save_live_blob=_flag(query, "save_live_blob", default=False),
        session_resumption=SessionResumption(enabled=_flag(query, "enable_session_resumption", default=True)),
    )
    return RunLiveQuery(app_name, user_id, session_id, config, standard_base64=alphabet == "std")


@dataclass(frozen=True, slots=True)
class Audio:
    """Microphone audio: int16 little endian mono at 16 kHz."""

    pcm: bytes


@dataclass(frozen=True, slots=True)
class Image:
    """One image of what the user shows."""

    data: bytes
    mime_type: str


@dataclass(frozen=True, slots=True)
class AudioEnd:
    """The microphone is off."""


Realtime: TypeAlias = Audio | Image | AudioEnd | Activity


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRequest:
    """One frame of a client, in the order in which its parts are carried out."""

    state_delta: dict[str, Any] | None = None
    content: Content | None = None
    realtime: Realtime | None = None
    close: bool = False


def parse_request(text: str) -> LiveRequest:
    """The request in this frame.

    Raises `BadMessage` for what is none, `BadAudioFrame` for audio that is not whole samples at 16 kHz, `ContentRefused` for a kind of
    content that a client may not send, `NotSupported`.
    """
    fields = _fields(text)
    if fields.get("partial"):
        raise NotSupported("partial: what is stored is a whole message, and a piece of one could not be taken back. Send it whole.")
    request = LiveRequest(
        state_delta=_checked(PatchSession, {"state_delta": fields["state_delta"]}).state_delta if "state_delta" in fields else None,
        content=_content(fields["content"]) if "content" in fields else None,
        realtime=_realtime(fields),
        close=fields.get("close") is True,
    )
    if request == LiveRequest() and not fields.keys() & {"close", "audio_stream_end", "partial"}:
        raise BadMessage(f"There is nothing in this frame that is known here. Known are {', '.join(KEYS)}.")
    return request


def audio_of(pcm: bytes) -> Audio:
    """Audio out of a binary frame or a blob. Raises `BadAudioFrame`."""
    if len(pcm) % 2:
        raise BadAudioFrame(f"Audio is 16 bit; a frame of {len(pcm)} bytes cuts a sample in half.")
    if len(pcm) > MAX_PCM:
        raise BadAudioFrame(f"A frame of audio has at most {MAX_PCM} bytes.")
    if not pcm:
        raise BadAudioFrame("A frame of audio has at least one sample.")
    if pcm.startswith((b"RIFF", b"OggS", b"fLaC", b"ID3")):
        raise BadAudioFrame("Audio is bare PCM, without the header of a file.")
    return Audio(pcm)


def _fields(text: str) -> dict[str, Any]:
    """What is known of the frame's fields, by snake-case name, those that are null left out."""
    check_shape(text)
    try:
        found = msgspec.json.decode(clean(text))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise BadMessage(f"This is not JSON: {str(error)[:120]}") from None
    if not isinstance(found, dict):
        raise BadMessage("A frame is an object.")
    return {name: value for name in KEYS if (value := _spelled(found, name)) is not None}


def _realtime(fields: Mapping[str, Any]) -> Realtime | None:
    if "activity_start" in fields:
        return Activity.START
    if "activity_end" in fields:
        return Activity.END
    if fields.get("audio_stream_end"):
        return AudioEnd()
    return _blob(fields["blob"]) if "blob" in fields else None


class _Blob(msgspec.Struct, frozen=True):
    """Apart from the models of the HTTP API: 25 to 50 of these come a second."""

    data: str
    mime_type: str | None = None
    mimeType: str | None = None  # noqa: N815 - the field's name on the wire


def _blob(value: object) -> Audio | Image:
    try:
        blob = msgspec.convert(value, _Blob)
        data = decode_base64(blob.data)
    except ValueError as error:
        raise BadMessage(f"blob: {str(error)[:160]}") from None
    mime_type = (blob.mime_type or blob.mimeType or "audio/pcm").strip().lower()
    if (pcm := _PCM.fullmatch(mime_type)) is not None:
        if pcm[1] not in (None, str(INPUT_HZ)):
            raise BadAudioFrame(f"Audio has {INPUT_HZ} Hz (audio/pcm;rate={INPUT_HZ}), not {pcm[1]}.")
        return audio_of(data)
    if mime_type not in IMAGE_TYPES:
        raise ContentRefused(f"A blob is audio/pcm;rate={INPUT_HZ} or one of {', '.join(sorted(IMAGE_TYPES))}, not {mime_type[:40]!r}.")
    if not data or len(data) > MAX_IMAGE:
        raise BadMessage(f"An image has at least one and at most {MAX_IMAGE} bytes.")
    return Image(data, mime_type)


def _content(data: object) -> Content:
    message = _checked(Message, data)
    for part in message.parts:
        if part.inline_data is not None and part.inline_data.mime_type.lower() not in IMAGE_TYPES:
            raise ContentRefused(f"A message has texts and images ({', '.join(sorted(IMAGE_TYPES))}); audio is sent as a blob.")
    return message.to_content()


def _checked(model: type[M], data: object) -> M:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        raise BadMessage(f"{model.__name__}{f' ({place})' if place else ''}: {first['msg'][:160]}") from None


def _spelled(found: Mapping[str, Any], name: str) -> Any:
    value = found.get(name)
    return value if value is not None else found.get(_camel(name))


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def _value(query: QueryParams, name: str) -> str | None:
    return query.get(name) or query.get(_camel(name)) or None


def _required(query: QueryParams, name: str) -> str:
    if (value := _value(query, name)) is None:
        raise InvalidInput(f"The query parameter {name} is missing.")
    return value


def _flag(query: QueryParams, name: str, *, default: bool) -> bool:
    text = _value(query, name)
    if text is None:
        return default
    if text.lower() not in _FLAGS:
        raise InvalidInput(f"{name} is true or false.")
    return _FLAGS[text.lower()]


def _modality(query: QueryParams) -> Literal["AUDIO", "TEXT"]:
    """With several, the voice: what it says is written too."""
    asked = [modality.upper() for modality in query.getlist("modalities")] or ["AUDIO"]
    if unknown := [modality for modality in asked if modality not in {"AUDIO", "TEXT"}]:
        raise InvalidInput(f"modalities are AUDIO and TEXT, not {unknown[0][:40]!r}.")
    return "AUDIO" if "AUDIO" in asked else "TEXT"
