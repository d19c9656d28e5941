"""Waiting at a mailbox: one reader, many writers, an end."""

from __future__ import annotations

import asyncio

import pytest

from live_gateway.channel import ChannelClosed
from live_gateway.errors import SlowConsumer
from live_gateway.events import Event
from live_gateway.live.items import AudioChunk, Notice, Relay, Stored
from live_gateway.live.listener import Listener
from live_gateway.live.mailbox import MAX_CONTROL, MailboxItem
from live_gateway.models.live import OUTPUT_HZ


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Reader:
    """A call of `get`, taken step by step, so that no test depends on how the loop schedules tasks."""

    def __init__(self, listener: Listener) -> None:
        self._get = listener.get()
        self.item: MailboxItem | None = None

    def step(self) -> bool:
        """Run until it waits (False) or has an item (True)."""
        try:
            self._get.send(None)
        except StopIteration as done:
            self.item = done.value
            return True
        return False

    def cancel(self) -> None:
        with pytest.raises(asyncio.CancelledError):
            self._get.throw(asyncio.CancelledError())


async def test_a_reader_waits_for_the_next_item() -> None:
    listener = Listener(Time())
    reader = Reader(listener)
    assert not reader.step()
    listener.put(Relay("a"))
    listener.put(Relay("b"))
    assert reader.step()
    assert reader.item == Relay("a")
    assert await listener.get() == Relay("b")


# contract: LIVE-23
async def test_what_is_left_comes_before_the_end() -> None:
    listener = Listener(Time())
    listener.put(Relay("a"))
    listener.put(Relay("b"))
    listener.close()
    listener.close()
    listener.put(Relay("late"))
    assert [item async for item in listener] == [Relay("a"), Relay("b")]
    with pytest.raises(ChannelClosed):
        await listener.get()


# contract: LIVE-23
async def test_closing_wakes_a_reader_that_waits() -> None:
    listener = Listener(Time())
    reader = Reader(listener)
    assert not reader.step()
    listener.close()
    with pytest.raises(ChannelClosed):
        reader.step()


@pytest.mark.parametrize("put_first", [False, True])
async def test_a_cancelled_reader_loses_no_item(put_first: bool) -> None:
    listener = Listener(Time())
    reader = Reader(listener)
    assert not reader.step()
    if put_first:
        listener.put(Relay("a"))
    reader.cancel()
    if not put_first:
        listener.put(Relay("a"))
    assert await listener.get() == Relay("a")


async def test_a_second_reader_is_refused() -> None:
    listener = Listener(Time())
    reader = Reader(listener)
    assert not reader.step()
    with pytest.raises(RuntimeError, match="one listener"):
        await listener.get()
    listener.put(Relay("a"))
    assert reader.step()
    assert reader.item == Relay("a")


async def test_audio_that_is_not_kept_gives_a_waiting_reader_nothing() -> None:
    listener = Listener(Time())
    listener.mailbox.flush(3)
    reader = Reader(listener)
    assert not reader.step()
    listener.put(AudioChunk(3, 0, b"\0\0"))
    assert not reader.step()
    listener.put(Relay("a"))
    assert reader.step()
    assert reader.item == Relay("a")


# contract: LIVE-25
async def test_time_is_read_when_items_are_put_and_taken() -> None:
    time = Time()
    listener = Listener(time)
    for n in range(30):
        listener.put(AudioChunk(1, n * OUTPUT_HZ, bytes(2 * OUTPUT_HZ)))
    time.now = 11.0
    assert await listener.get() == Notice("warning", "audio_gap", {"dropped_ms": 10_000, "direction": "down"})


# contract: LIVE-25
async def test_a_reader_that_was_too_slow_may_go_on() -> None:
    listener = Listener(Time())
    event = Event(author="agent", seq=1)
    for n in range(MAX_CONTROL + 1):
        listener.put(Relay(str(n)))
    listener.put(Stored(event))
    with pytest.raises(SlowConsumer):
        await anext(listener)
    assert await anext(listener) == Stored(event)
