"""Nothing that a client can send gets past the parser in any way but two: as a message, or as an error that may be shown."""

from __future__ import annotations

import json
import random
import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from live_gateway.content import Content
from live_gateway.errors import BadAudioFrame, BadMessage, InvalidInput, facts, public_error
from live_gateway.server.json_text import MAX_TOKENS
from live_gateway.server.messages import SendContent, parse_message, subject_of
from live_gateway.server.outgoing import close_reason, encode, error
from live_gateway.server.wire import (
    HEADER_BYTES,
    MAX_IMAGE,
    MAX_MESSAGE,
    Codec,
    Flag,
    Frame,
    ImageAssembler,
    Kind,
    pack_audio_down,
    pack_frame,
    unpack_frame,
)
from tests.support.machine import processor_s, yardstick_s

TYPES = [
    "hello", "content", "input.activity", "input.mute", "input.mode", "input.end", "response.cancel", "playback", "tool.confirm",
    "tool.response", "tool.extend", "session.update", "auth.refresh", "client.stats", "ping", "bye", "shout", "",
]  # fmt: skip
FIELDS = [
    "v", "app", "user", "session", "ticket", "last_seq", "pending", "input", "caps", "config", "playing", "message_id", "content", "event",
    "muted", "mode", "reason", "response", "played", "heard", "call", "approve", "digest", "scope", "name", "voice", "vad", "t0", "audio",
    "parts", "text", "inlineData", "functionResponse", "file_data", "mimeType", "data", "modalities",
]  # fmt: skip
MANY = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
texts = st.one_of(
    st.text(max_size=20), st.sampled_from(["start", "end", "pos", "AUDIO", "ptt", "hands_free", "image/png", "iVBORw0KGgo=", "m-1"])
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.integers(0, 3), st.floats(), texts)
keys = st.sampled_from(FIELDS)
values = st.recursive(scalars, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)))
messages = st.builds(lambda kind, fields: {"type": kind, **fields}, st.sampled_from(TYPES), st.dictionaries(keys, values, max_size=6))


def check_text(text: str) -> None:
    subject_of(text)
    try:
        message = parse_message(text)
    except InvalidInput as problem:
        refused = problem
    else:
        if isinstance(message, SendContent):
            assert message.content.role == "user"
            assert_storable(message.content)
        return
    public = public_error(refused)
    assert len(public.message) < 400
    encode(error(public)).encode()
    assert len(close_reason(public.code).encode()) <= 120
    assert 4500 <= facts(refused).close_code < 5000


def assert_storable(content: Content) -> None:
    for part in content.parts or ():
        assert (part.text is None) != (part.inline_data is None)
        assert part.function_call is None
        assert part.function_response is None
        assert "\0" not in (part.text or "")
        (part.text or "").encode()


@MANY
@given(messages)
def test_messages(message: dict[str, Any]) -> None:
    check_text(json.dumps(message))


@MANY
@given(messages, st.data())
def test_texts_cut_and_changed(message: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(message, ensure_ascii=data.draw(st.booleans()))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    check_text(text[:start] + data.draw(st.text(max_size=5)) + text[end:])


@MANY
@given(st.one_of(st.text(), st.text('{}[]":,\\u0d8dc 1etypnull-.', max_size=60)))
def test_any_text(text: str) -> None:
    check_text(text)


@MANY
@given(st.text(st.characters(), max_size=30), st.booleans())
def test_text_of_the_user_arrives_as_it_was_or_mended(text: str, as_ascii: bool) -> None:
    document = {"type": "content", "message_id": "m", "content": {"parts": [{"text": "<" + text}]}}
    message = parse_message(json.dumps(document, ensure_ascii=as_ascii))
    assert isinstance(message, SendContent)
    assert message.content.parts
    mended = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")
    assert message.content.parts[0].text == "<" + mended


headers = st.builds(
    struct.Struct("<BBBBIIId").pack,
    st.sampled_from([0, 1, 1, 1, 2, 255]),
    st.sampled_from([0, 1, 1, 2, 3, 3, 4, 255]),
    st.integers(0, 255),
    st.sampled_from([0, 0, 1, 16, 17, 255]),
    *[st.integers(0, 2**32 - 1)] * 3,
    st.floats(),
)


@MANY
@given(st.one_of(st.binary(max_size=40), st.builds(lambda head, payload: head + payload, headers, st.binary(max_size=9))))
def test_binary_frames(data: bytes) -> None:
    check_frame(data)


def check_frame(data: bytes) -> None:
    try:
        frame = unpack_frame(data)
        if frame.kind is Kind.IMAGE_UP:
            ImageAssembler().feed(frame)
    except (BadMessage, BadAudioFrame):
        return
    assert pack_frame(frame) == data
    assert frame.kind is Kind.IMAGE_UP or len(frame.payload) % 2 == 0


@pytest.mark.parametrize("seed", range(4))
def test_ten_thousand_of_each(seed: int) -> None:
    """Broader than the ones above and much faster: 2,500 messages and 2,500 headers for each seed."""
    dice = random.Random(seed)
    kinds = {True: 0, False: 0}
    for _ in range(2500):
        text = json.dumps({"type": dice.choice(TYPES)} | {dice.choice(FIELDS): roll(dice, 3) for _ in range(dice.randrange(6))})
        if dice.random() < 0.3:
            at = dice.randrange(len(text))
            text = text[:at] + dice.choice(["", '"', "{", "\\ud800", "\0", "\ud800", "1e999", ",,", "]"]) + text[at + dice.randrange(3) :]
        check_text(text)
        frame = bytes([1, dice.choice([1, 1, 3, 4]), dice.randrange(20), dice.choice([0, 0, 1, 16, 17])])
        check_frame(frame + dice.randbytes(dice.choice([0, 19, 20, 21, 22, 40])))
        kinds[_is_message(text)] += 1
    assert kinds[True] > 100
    assert kinds[False] > 100


def roll(dice: random.Random, depth: int) -> Any:
    kind = dice.randrange(9 if depth else 7)
    if kind == 7:
        return [roll(dice, depth - 1) for _ in range(dice.randrange(4))]
    if kind == 8:
        return {dice.choice(FIELDS): roll(dice, depth - 1) for _ in range(dice.randrange(5))}
    words = ["start", "end", "pos", "ptt", "m-1", "", "\ud800", "\0", "\U0001f600", "AUDIO", "iVBORw0KGgo="]
    return [None, True, 1, -1, 1.5, 2**70, dice.choice(words)][kind]


def _is_message(text: str) -> bool:
    try:
        parse_message(text)
    except InvalidInput:
        return False
    return True


@pytest.mark.parametrize(
    "text",
    [
        "[" * MAX_MESSAGE,
        "{}," * (MAX_MESSAGE // 3),
        '{"type":"ping","t0":1,"x":[' + "{}," * 80_000 + "{}]}",
        '{"type":"ping","t0":1,"x":[' + '"",' * 80_000 + '""]}',
        '{"type":"ping","t0":1,"x":[' + "1," * 120_000 + "1]}",
        '"' + "\\\\" * 131_000,
        '{"type":"ping","t0":1,"x":"' + "\\u0000" * 43_000 + '"}',
        '{"type":"ping","t0":1,"x":"' + "\0" * 200_000 + '"}',
        '{"type":"ping","t0":1,"x":"' + "\ud800" * 80_000 + '"}',
        '{"type":"ping","t0":' + "9" * 250_000 + "}",
        '{"type":"content","message_id":"m","content":{"parts":[' + '{"text":"a"},' * 15_000 + '{"text":"a"}]}}',
    ],
)
def test_the_worst_texts_cost_little(text: str) -> None:
    """A message of 256 KiB must not hold up the audio of others."""
    assert processor_s(lambda: check_text(text)) < 10 * yardstick_s()


def test_a_message_holds_a_bounded_number_of_things() -> None:
    with pytest.raises(BadMessage, match=str(MAX_TOKENS)):
        parse_message('{"type":"ping","t0":1,"x":[' + "[]," * MAX_TOKENS + "1]}")
    with pytest.raises(BadMessage, match="bytes"):
        parse_message(" " * (MAX_MESSAGE + 1))


def test_numbers_of_the_fast_path_wrap() -> None:
    frame = unpack_frame(pack_audio_down(1, 2**32 + 5, 2**33 + 7, 1.0, b"\0\0"), frozenset({Kind.AUDIO_DOWN}))
    assert (frame.frame_no, frame.pos, frame.flags) == (5, 7, Flag.NONE)
    assert len(pack_audio_down(1, 0, 0, 0.0, b"")) == HEADER_BYTES


def image(flags: Flag, pos: int, payload: bytes, stream: int = 1) -> Frame:
    return Frame(Kind.IMAGE_UP, flags, Codec.WEBP, stream, 0, pos, 0.0, payload)


def test_images_are_put_together() -> None:
    assembler = ImageAssembler()
    assert assembler.feed(image(Flag.START | Flag.END, 0, b"one")) == (b"one", "image/webp")
    assert assembler.feed(image(Flag.START, 0, b"lost")) is None
    assert assembler.feed(image(Flag.START, 0, b"tw")) is None
    assert assembler.feed(image(Flag.END, 2, b"o")) == (b"two", "image/webp")


@pytest.mark.parametrize("frame", [image(Flag.END, 0, b"x"), image(Flag.NONE, 9, b"x"), image(Flag.END, 2, b"x", stream=2)])
def test_a_piece_out_of_place_gives_the_image_up(frame: Frame) -> None:
    assembler = ImageAssembler()
    if frame.pos:
        assembler.feed(image(Flag.START, 0, b"tw"))
    with pytest.raises(BadMessage):
        assembler.feed(frame)
    with pytest.raises(BadMessage):
        assembler.feed(image(Flag.END, 2, b"o"))


def test_an_image_has_a_bounded_size() -> None:
    assembler = ImageAssembler()
    assembler.feed(image(Flag.START, 0, bytes(MAX_IMAGE)))
    with pytest.raises(BadMessage, match=str(MAX_IMAGE)):
        assembler.feed(image(Flag.END, MAX_IMAGE, b"x"))
