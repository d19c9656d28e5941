"""The golden vectors of the wire, which the page's own tests read too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from live_gateway.errors import GatewayError, PublicError, facts
from live_gateway.events import event_from_dict
from live_gateway.live import items
from live_gateway.server.messages import SendContent, parse_message
from live_gateway.server.outgoing import Outgoing, ack, encode, error, goaway, input_ack, pong, welcome
from live_gateway.server.wire import Codec, Flag, Frame, Kind, pack_frame, unpack_frame

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "vectors" / "wire.json").read_text(encoding="utf-8"))


def cases(section: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in VECTORS[section]])


@cases("binary")
def test_binary_frames(case: dict[str, Any]) -> None:
    fields = dict(case["fields"])
    frame = Frame(
        kind=Kind(fields.pop("kind")),
        flags=Flag(fields.pop("flags")),
        codec=Codec(fields.pop("codec")),
        payload=bytes.fromhex(fields.pop("payload_hex")),
        **fields,
    )
    data = bytes.fromhex(case["hex"])
    assert unpack_frame(data, accept=frozenset(Kind)) == frame
    assert pack_frame(frame) == data


@cases("binary_refused")
def test_binary_frames_that_are_refused(case: dict[str, Any]) -> None:
    with pytest.raises(GatewayError) as caught:
        unpack_frame(bytes.fromhex(case["hex"]) + bytes(case.get("pad", 0)))
    assert caught.value.code == case["code"]


@cases("client")
def test_client_messages(case: dict[str, Any]) -> None:
    assert decoded(json.dumps(case["message"])) == case["decoded"]


@cases("client_texts")
def test_texts_that_cannot_be_stored_are_mended(case: dict[str, Any]) -> None:
    message = parse_message(case["text"])
    assert isinstance(message, SendContent)
    assert message.content.parts
    assert message.content.parts[0].text == case["content_text"]


# contract: LIVE-06, HITL-07
@cases("client_refused")
def test_client_messages_that_are_refused(case: dict[str, Any]) -> None:
    with pytest.raises(GatewayError) as caught:
        parse_message(case["text"])
    assert caught.value.code == case["code"]
    if "close" in case:
        assert facts(caught.value).close_code == case["close"]


@cases("server")
def test_items_on_the_wire(case: dict[str, Any]) -> None:
    outgoing = Outgoing(VECTORS["session"], VECTORS["tools"])
    for event in case.get("after", ()):
        outgoing.frames(items.Stored(event_from_dict(event)), 0.0)
    for _ in range(case.get("frame_no", 0)):
        outgoing.frames(items.AudioChunk(1, 0, b"\0\0"), 0.0)
    frames = outgoing.frames(item_of(case["item"], dict(case["args"])), case.get("t", 0.0))
    if "hex" in case:
        assert frames == [bytes.fromhex(case["hex"])]
    else:
        assert [json.loads(frame) for frame in frames] == case["messages"]


def test_messages_of_the_connection() -> None:
    made = [
        welcome(
            session="s-1", model="scripted", head_seq=0, acks=[], limits=VECTORS["connection"][0]["limits"], features=["playback", "events"]
        ),
        ack("m-1", "persisted", 4),
        ack("m-1", "delivered"),
        ack("m-1", "not_delivered"),
        ack("m-1", "delivered_not_persisted"),
        ack("m-1", "unknown"),
        input_ack(1, 16_000),
        pong(1.5, 2.5, 2.75),
        goaway("drain", 1000, 500),
    ]
    assert [json.loads(encode(message)) for message in made] == VECTORS["connection"][:9]
    for example in VECTORS["connection"][9:]:
        problem = PublicError(example["code"], example["message"], example["retryable"], 4500, 400)
        assert error(problem, fatal=example["fatal"], ref=example.get("ref")) == example


def decoded(text: str) -> Any:
    message = parse_message(text)
    if isinstance(message, SendContent):
        content = message.content.model_dump(mode="json", by_alias=True, exclude_none=True)
        assert content.pop("role") == "user"
        return {"type": "content", "message_id": message.message_id, "content": content}
    return msgspec.json.decode(msgspec.json.encode(message))


def item_of(name: str, args: dict[str, Any]) -> items.LiveItem:
    if "event" in args:
        args["event"] = event_from_dict(args["event"])
    if "transcript" in args:
        args["transcript"] = items.TranscriptUpdate(**args["transcript"])
    if "pcm_hex" in args:
        args["pcm"] = bytes.fromhex(args.pop("pcm_hex"))
    item: items.LiveItem = getattr(items, name)(**args)
    return item
