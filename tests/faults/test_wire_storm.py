"""Ten thousand messages and headers that no decent client would send, over real sockets, against a running server.

Whatever comes, the connection goes on, or ends with an error frame and a code of the protocol; the loop is never held up for long; nothing
is left behind. `LIVE_GATEWAY_FAULTS=all` sends all ten thousand; without it, two thousand.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import random
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from live_gateway.server.limits import CONTROL_BURST
from live_gateway.server.wire import MAX_MESSAGE, MAX_PAYLOAD
from tests.support.loop_lag import LoopLag
from tests.support.machine import yardstick_s
from tests.support.spoken_turn import House, TurnModel, audio_frame, client_of, speak, until
from tests.support.threaded_server import ThreadedServer

SENT = 10_000 if os.environ.get("LIVE_GATEWAY_FAULTS") == "all" else 2_000
AT_ONCE = 4
"""One of them sends the largest messages: what each of these may cost is what is measured."""
LONGEST_S = 0.05
CODES = range(4000, 5000)

TYPES = [
    "hello", "content", "input.activity", "input.mute", "input.mode", "input.end", "response.cancel", "playback", "tool.confirm",
    "tool.response", "tool.extend", "session.update", "auth.refresh", "client.stats", "ping", "shout", "",
]  # fmt: skip
FIELDS = [
    "v", "app", "user", "session", "ticket", "last_seq", "pending", "input", "caps", "config", "playing", "message_id", "content", "event",
    "muted", "mode", "reason", "response", "played", "heard", "call", "approve", "digest", "scope", "name", "voice", "vad", "t0", "audio",
    "parts", "text", "inlineData", "functionResponse", "file_data", "mimeType", "data", "modalities",
]  # fmt: skip
WORDS = ["start", "end", "pos", "drained", "ptt", "m-1", "", "\ud800", "\0", "\U0001f600", "AUDIO", "iVBORw0KGgo=", "image/png", "x" * 3000]
RIGHT: list[dict[str, Any]] = [
    {"type": "content", "message_id": "m-1", "content": {"parts": [{"text": "hello"}]}},
    {"type": "content", "message_id": "m-2", "content": {"parts": [{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}]}},
    {"type": "input.activity", "event": "start"},
    {"type": "input.activity", "event": "end"},
    {"type": "input.mute", "muted": True},
    {"type": "input.mute", "muted": False},
    {"type": "input.end"},
    {"type": "response.cancel", "reason": "why"},
    {"type": "playback", "event": "pos", "response": 1, "played": 2**62, "heard": 2**62},
    {"type": "client.stats", "rtt_ms": 1e15},
    {"type": "ping", "t0": -1},
]


def roll(dice: random.Random, depth: int) -> Any:
    kind = dice.randrange(9 if depth else 7)
    if kind == 7:
        return [roll(dice, depth - 1) for _ in range(dice.randrange(4))]
    if kind == 8:
        return {dice.choice(FIELDS): roll(dice, depth - 1) for _ in range(dice.randrange(5))}
    return [None, True, dice.randrange(-2, 9), 2**70, 1e300, dice.choice(WORDS), dice.choice(WORDS)][kind]


def any_text(dice: random.Random, *, large: bool) -> str:
    """A message that is right, one field of which is not, made of known words, or none at all."""
    if dice.random() < 0.5:
        message = dict(dice.choice(RIGHT))
        if dice.random() < 0.5:
            message[dice.choice([*message, *FIELDS])] = roll(dice, 3)
    else:
        message = {"type": dice.choice(TYPES)} | {dice.choice(FIELDS): roll(dice, 3) for _ in range(dice.randrange(6))}
    text = json.dumps(message)
    if dice.random() < 0.2:
        at = dice.randrange(len(text))
        text = text[:at] + dice.choice(["", '"', "{", "\\ud800", "\0", "1e999", ",,", "]"]) + text[at + dice.randrange(3) :]
    if large and dice.random() < 0.03:
        text = dice.choice(
            ["[" * 200_000, '{"type":"ping","t0":1,"x":"' + "\\u0000" * 40_000 + '"}', "{}," * 80_000, "9" * (MAX_MESSAGE - 1)]
        )
    return text


def any_frame(dice: random.Random) -> bytes:
    if dice.random() < 0.05:
        return dice.randbytes(dice.randrange(40))
    head = struct.pack(
        "<BBBBIIId",
        dice.choice([1, 1, 1, 1, 0, 2, 255]),
        dice.choice([1, 1, 1, 3, 3, 2, 0, 255]),
        dice.choice([0, 0, 1, 2, 4, 6, 15, 16, 255]),
        dice.choice([0, 0, 0, 16, 17, 1, 255]),
        *(dice.choice([0, 1, 2**32 - 1, dice.randrange(2**32)]) for _ in range(3)),
        dice.choice([0.0, 1e12, float("nan"), float("-inf"), 1e308]),
    )
    return head + bytes(dice.choice([0, 2, 640, 640, 1280, 641, MAX_PAYLOAD, MAX_PAYLOAD + 2]))


class Pest:
    """A client that sends so much of it as its connection takes. sent: how much that was. large: the largest messages there are, too."""

    def __init__(self, port: int, dice: random.Random, *, large: bool) -> None:
        self.sent = 0
        self.close_code = 0
        self._port = port
        self._dice = dice
        self._large = large
        self._last: dict[str, Any] = {}

    async def run(self) -> None:
        async with asyncio.timeout(20), client_of(self._port) as client, asyncio.TaskGroup() as group:
            listening = group.create_task(self._listen(client))
            with contextlib.suppress(ConnectionClosed):
                await self._pester(client, listening)
            await listening
            self._check(client)

    async def _pester(self, client: ClientConnection, listening: asyncio.Task[None]) -> None:
        dice = self._dice
        if dice.random() < 0.95:
            session = "shared" if dice.random() < 0.05 else f"s-{dice.randrange(10**9)}"
            await client.send(json.dumps({"type": "hello", "v": 1, "session": session, "caps": ["events", "playback"]}))
            self.sent += 1
        patient = dice.random() < 0.8
        for number in range(int(CONTROL_BURST * dice.choice([0.9, 0.9, 1.5]))):
            if number % 5 == 0 and patient:
                await client.send(audio_frame(number))  # or ten bad ones in a row would end it soon
            await client.send(any_frame(dice) if dice.random() < 0.4 else any_text(dice, large=self._large))
            await asyncio.sleep(0)
            if listening.done():
                return
            self.sent += 1
        await client.send('{"type":"bye"}')

    async def _listen(self, client: ClientConnection) -> None:
        async for frame in _until_closed(client):
            if isinstance(frame, str):
                self._last = json.loads(frame)

    def _check(self, client: ClientConnection) -> None:
        """It ended as the protocol says."""
        assert client.close_code is not None
        self.close_code = client.close_code
        if client.close_code in CODES:
            assert (self._last["type"], self._last["fatal"]) == ("error", True), self._last
            assert client.close_reason == self._last["code"]
        else:
            assert client.close_code in {1000, 1009}, (client.close_code, client.close_reason, self._last)


async def _until_closed(client: ClientConnection) -> AsyncIterator[str | bytes]:
    with contextlib.suppress(ConnectionClosed):
        while True:
            yield await client.recv()


async def test_nothing_that_can_be_sent_breaks_or_blocks_the_server(caplog: pytest.LogCaptureFixture) -> None:
    lag = LoopLag()
    house = House(TurnModel(), around=lag.watch)
    dice = random.Random(5)
    pests: list[Pest] = []
    with ThreadedServer(house.app) as server:
        async with client_of(server.port) as client:
            await speak(client)
        lag.forget()  # starting up collects garbage, once
        while sum(pest.sent for pest in pests) < SENT:
            together = [Pest(server.port, random.Random(dice.random()), large=not number) for number in range(AT_ONCE)]
            pests += together
            async with asyncio.TaskGroup() as group:
                for pest in together:
                    group.create_task(pest.run())
        assert await until(lambda: house.quiet, 2)
        async with client_of(server.port) as client:
            assert (await speak(client))[-1]["status"] == "completed"
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
    assert {pest.close_code for pest in pests} >= {1000, 4005, 4500}, "the storm was one breeze"
    assert max(lag.held_s) < max(LONGEST_S, 10 * yardstick_s())
