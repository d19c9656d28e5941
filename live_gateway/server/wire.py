"""Binary frames: a header of 24 bytes, little endian, then the payload (docs/reference/wire.md). Pure.

    0 u8 version   1 u8 kind   2 u8 flags   3 u8 codec   4 u32 stream   8 u32 frame_no   12 u32 pos   16 f64 t   24 payload

Audio is int16 little endian mono: 16 kHz up, 24 kHz down. A frame that does not fit is refused whole and never realigned.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Container
from dataclasses import dataclass
from enum import IntEnum, IntFlag

from live_gateway.errors import BadAudioFrame, BadMessage

SUBPROTOCOL = "live-gateway.v1"
VERSION = 1
HEADER_BYTES = 24
MAX_PAYLOAD = 64 * 1024
MAX_MESSAGE = 256 * 1024
"""Bytes of one WebSocket message, text or binary; above, the connection is closed with 1009."""

_HEADER = struct.Struct("<BBBBIIId")
_U32 = 0xFFFF_FFFF


class Kind(IntEnum):
    """What a frame carries, and in which direction."""

    AUDIO_UP = 1
    AUDIO_DOWN = 2
    IMAGE_UP = 3


class Flag(IntFlag):
    """DISCONTINUITY: something is missing before this frame. START, END: first and last of a stream. BACKLOG: sent late, after a resume."""

    NONE = 0
    DISCONTINUITY = 1
    END = 2
    START = 4
    BACKLOG = 8


class Codec(IntEnum):
    """How the payload is coded. 1 is reserved for Opus."""

    PCM16 = 0
    JPEG = 16
    WEBP = 17


_FLAGS = tuple(Flag(bits) for bits in range(16))
"""Every combination, made once: making one of a number is slow."""

CLIENT_KINDS = frozenset({Kind.AUDIO_UP, Kind.IMAGE_UP})
SERVER_KINDS = frozenset({Kind.AUDIO_DOWN})

_AUDIO_UP, _AUDIO_DOWN, _PCM16, _START = int(Kind.AUDIO_UP), int(Kind.AUDIO_DOWN), int(Codec.PCM16), int(Flag.START)
_CODECS = {
    Kind.AUDIO_UP: frozenset({Codec.PCM16}),
    Kind.AUDIO_DOWN: frozenset({Codec.PCM16}),
    Kind.IMAGE_UP: frozenset({Codec.JPEG, Codec.WEBP}),
}


@dataclass(frozen=True, slots=True)
class Frame:
    """One binary frame.

    stream: number of the capture, of the response, or of the image. frame_no: counts frames of this direction and connection from 0.
    pos: index of the first sample inside the stream; of an image, offset of the first byte. t: epoch milliseconds (up: when the last sample
    was captured; down: when it was sent).
    """

    kind: Kind
    flags: Flag
    codec: Codec
    stream: int
    frame_no: int
    pos: int
    t: float
    payload: bytes


def pack_frame(frame: Frame) -> bytes:
    """The frame as bytes. Numbers wrap at 32 bits."""
    return (
        _HEADER.pack(VERSION, frame.kind, frame.flags, frame.codec, frame.stream & _U32, frame.frame_no & _U32, frame.pos & _U32, frame.t)
        + frame.payload
    )


def pack_audio_down(response: int, frame_no: int, pos: int, t: float, pcm: bytes) -> bytes:
    """A piece of a response's voice as one frame: the fast path, one concatenation and nothing else."""
    return _HEADER.pack(VERSION, _AUDIO_DOWN, 0 if pos else _START, 0, response & _U32, frame_no & _U32, pos & _U32, t) + pcm


def unpack_frame(data: bytes, accept: Container[Kind] = CLIENT_KINDS) -> Frame:
    """The frame in these bytes.

    accept: the kinds that the other side may send. Raises `BadMessage` for what is no frame or not of these kinds, and for an image that
    does not fit; `BadAudioFrame` for audio that does not fit.
    """
    if len(data) < HEADER_BYTES:
        raise BadMessage(f"A binary frame has a header of {HEADER_BYTES} bytes; this one has {len(data)} bytes in all.")
    version, number, flags, codec, stream, frame_no, pos, t = _HEADER.unpack_from(data)
    plain = number == _AUDIO_UP and codec == _PCM16 and version == VERSION and not len(data) % 2
    if plain and flags < len(_FLAGS) and len(data) <= HEADER_BYTES + MAX_PAYLOAD and math.isfinite(t) and Kind.AUDIO_UP in accept:
        return Frame(Kind.AUDIO_UP, _FLAGS[flags], Codec.PCM16, stream, frame_no, pos, t, data[HEADER_BYTES:])  # 25 to 50 a second
    if version != VERSION:
        raise BadAudioFrame(f"This frame has version {version}; the server speaks version {VERSION}.")
    try:
        kind = Kind(number)
    except ValueError:
        raise BadMessage(f"There is no frame of kind {number}.") from None
    if kind not in accept:
        raise BadMessage(f"A frame of kind {number} does not go in this direction.")
    _check(kind, flags, codec, t, len(data) - HEADER_BYTES)
    return Frame(kind, Flag(flags), Codec(codec), stream, frame_no, pos, t, data[HEADER_BYTES:])


def _check(kind: Kind, flags: int, codec: int, t: float, payload_bytes: int) -> None:
    refusal = BadMessage if kind is Kind.IMAGE_UP else BadAudioFrame
    if codec not in _CODECS[kind]:
        raise refusal(f"Codec {codec} is not supported in a frame of kind {kind.value}.")
    if flags > 15:
        raise refusal(f"The flags {flags} have bits that are not defined.")
    if not math.isfinite(t):
        raise refusal("The time of a frame must be a finite number.")
    if payload_bytes > MAX_PAYLOAD:
        raise refusal(f"The payload has {payload_bytes} bytes; at most {MAX_PAYLOAD} are allowed.")
    if payload_bytes % 2 and kind is not Kind.IMAGE_UP:
        raise refusal(f"Audio is 16 bit; a payload of {payload_bytes} bytes cuts a sample in half.")


MAX_IMAGE = 2 * 1024 * 1024
_MIME_TYPES = {Codec.JPEG: "image/jpeg", Codec.WEBP: "image/webp"}


class ImageAssembler:
    """Puts images together whose frames come in order: the first has START and offset 0, the last has END, both may be one frame."""

    def __init__(self) -> None:
        self._stream: int | None = None
        self._pieces = bytearray()

    def feed(self, frame: Frame) -> tuple[bytes, str] | None:
        """Take a frame; the image and its MIME type when it is whole. A piece out of place gives it up: raises `BadMessage`."""
        if frame.flags & Flag.START:
            self._stream = frame.stream
            self._pieces.clear()
        if frame.stream != self._stream or frame.pos != len(self._pieces):
            self._stream = None
            raise BadMessage(f"This piece does not continue image {frame.stream}.")
        self._pieces += frame.payload
        if len(self._pieces) > MAX_IMAGE:
            self._stream = None
            raise BadMessage(f"An image has at most {MAX_IMAGE} bytes.")
        if not frame.flags & Flag.END:
            return None
        self._stream = None
        return bytes(self._pieces), _MIME_TYPES[frame.codec]
