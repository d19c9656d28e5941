"""The queue to the model: one order, audio bounded, everything else delivered or refused."""

from __future__ import annotations

import asyncio

import pytest

from live_gateway.errors import LiveSessionClosed, NotDelivered, UpstreamLost
from live_gateway.live.uplink import MAX_AUDIO_SAMPLES, MAX_COMMANDS, RESERVED, Uplink


class Wire:
    """What reached the model, in order; `gate` holds it back."""

    def __init__(self) -> None:
        self.sent: list[bytes | str] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def send_audio(self, pcm: bytes) -> None:
        await self.gate.wait()
        self.sent.append(pcm)

    async def text(self, text: str) -> None:
        await self.gate.wait()
        self.sent.append(text)


def uplink_to(wire: Wire) -> Uplink:
    uplink = Uplink()
    uplink.release(wire)
    return uplink


async def test_audio_and_commands_keep_their_order() -> None:
    wire = Wire()
    uplink = uplink_to(wire)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(uplink.run())
        uplink.push_audio(b"\x01\x00")
        uplink.post(lambda: wire.text("mark"))
        uplink.push_audio(b"\x02\x00")
        await uplink.perform(lambda: wire.text("content"))
        uplink.close()
        await running
    assert wire.sent == [b"\x01\x00", "mark", b"\x02\x00", "content"]


async def test_beyond_two_seconds_the_oldest_audio_is_dropped_and_counted_and_nothing_else() -> None:
    wire = Wire()
    uplink = uplink_to(wire)
    uplink.push_audio(b"\x00\x00" * 1600)
    uplink.post(lambda: wire.text("kept"))
    for _ in range(20):
        uplink.push_audio(b"\x01\x00" * 1600)
    assert uplink.take_dropped_ms() == 100
    assert uplink.take_dropped_ms() == 0
    async with asyncio.TaskGroup() as group:
        running = group.create_task(uplink.run())
        await uplink.perform(lambda: wire.text("end"))
        uplink.close()
        await running
    assert wire.sent[0] == "kept"
    assert sum(len(item) // 2 for item in wire.sent if isinstance(item, bytes)) == MAX_AUDIO_SAMPLES


@pytest.mark.virtual_time
async def test_audio_alone_wakes_whoever_sends() -> None:
    wire = Wire()
    uplink = uplink_to(wire)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(uplink.run())
        for number in range(3):
            await asyncio.sleep(1)
            uplink.push_audio(bytes([number, 0]))
        await asyncio.sleep(1)
        assert wire.sent == [b"\x00\x00", b"\x01\x00", b"\x02\x00"]
        uplink.close()
        await running


@pytest.mark.virtual_time
async def test_a_gap_is_told_once_and_when_it_is_over() -> None:
    wire = Wire()
    uplink = uplink_to(wire)
    wire.gate.clear()
    told: list[int] = []
    async with asyncio.TaskGroup() as group:
        running = group.create_task(uplink.run())
        for _ in range(31):  # the first frame is being sent, twenty wait, ten too many
            uplink.push_audio(bytes(3_200))
            await asyncio.sleep(0)
            told.append(uplink.take_gap_ms())
        assert told == [0] * 31, "more of it is still being dropped"
        wire.gate.set()
        await asyncio.sleep(1)
        assert [uplink.take_gap_ms() for _ in range(2)] == [1_000, 0]
        uplink.close()
        await running


async def test_the_error_of_a_command_goes_to_whoever_waits_for_it() -> None:
    async def broken() -> None:
        raise UpstreamLost("gone")

    wire = Wire()
    uplink = uplink_to(wire)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(uplink.run())
        with pytest.raises(UpstreamLost):
            await uplink.perform(broken)
        await uplink.perform(lambda: wire.text("next"))
        uplink.close()
        await running
    assert wire.sent == ["next"]


async def test_closing_refuses_what_waits_and_what_comes() -> None:
    wire = Wire()
    uplink = uplink_to(wire)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(_refused(uplink, wire))
        await asyncio.sleep(0)
        uplink.close()
        await waiting
    with pytest.raises(LiveSessionClosed):
        await uplink.perform(lambda: wire.text("late"))
    uplink.push_audio(b"\x00\x00")
    assert wire.sent == []


async def _refused(uplink: Uplink, wire: Wire) -> None:
    with pytest.raises(NotDelivered):
        await uplink.perform(lambda: wire.text("waiting"))


async def test_a_cancelled_caller_takes_its_message_back() -> None:
    wire = Wire()
    uplink = uplink_to(wire)
    async with asyncio.TaskGroup() as group:
        caller = group.create_task(uplink.perform(lambda: wire.text("withdrawn")))
        await asyncio.sleep(0)
        caller.cancel()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(uplink.run())
        await uplink.perform(lambda: wire.text("next"))
        uplink.close()
        await running
    assert wire.sent == ["next"]


async def test_commands_are_bounded() -> None:
    wire = Wire()
    uplink = uplink_to(wire)
    for _ in range(MAX_COMMANDS):
        uplink.post(lambda: wire.text("x"))
    with pytest.raises(NotDelivered):
        await uplink.perform(lambda: wire.text("one too many"))
    for _ in range(RESERVED):
        uplink.post(lambda: wire.text("x"))
    with pytest.raises(NotDelivered):
        uplink.post(lambda: wire.text("one too many"))


class WireAtOnce(Wire):
    """One that takes audio at once while `free`."""

    def __init__(self) -> None:
        super().__init__()
        self.free = True

    def take_audio(self, pcm: bytes) -> bool:
        if self.free:
            self.sent.append(pcm)
        return self.free


async def test_audio_goes_at_once_where_nothing_is_under_way_and_never_overtakes_what_is() -> None:
    wire = WireAtOnce()
    uplink = uplink_to(wire)
    uplink.push_audio(b"\x01\x00")  # nobody sends yet: it waits
    assert wire.sent == []
    async with asyncio.TaskGroup() as group:
        running = group.create_task(uplink.run())
        await uplink.perform(lambda: wire.text("mark"))
        await asyncio.sleep(0)  # the sender waits for more
        uplink.push_audio(b"\x02\x00")
        assert wire.sent == [b"\x01\x00", "mark", b"\x02\x00"]
        wire.gate.clear()
        uplink.post(lambda: wire.text("slow"))
        uplink.push_audio(b"\x03\x00")  # behind what was queued
        await asyncio.sleep(0)
        uplink.push_audio(b"\x04\x00")  # behind what is being sent
        assert wire.sent[3:] == []
        wire.gate.set()
        await uplink.perform(lambda: wire.text("end"))
        wire.free = False
        await asyncio.sleep(0)
        uplink.push_audio(b"\x05\x00")
        await uplink.perform(lambda: wire.text("last"))
        uplink.close()
        uplink.push_audio(b"\x06\x00")
        await running
    assert wire.sent[3:] == ["slow", b"\x03\x00", b"\x04\x00", "end", b"\x05\x00", "last"]


# contract: LIVE-21
async def test_what_comes_while_it_is_held_waits_and_goes_in_order_once_it_is_released() -> None:
    wire = Wire()
    uplink = uplink_to(wire)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(uplink.run())
        await uplink.perform(lambda: wire.text("before"))
        uplink.hold()
        await running
        uplink.push_audio(b"\x01\x00")
        waiting = group.create_task(uplink.perform(lambda: wire.text("content")))
        await asyncio.sleep(0)
        assert wire.sent == ["before"]
        uplink.release(wire)
        running = group.create_task(uplink.run())
        await waiting
        uplink.close()
        await running
    assert wire.sent == ["before", b"\x01\x00", "content"]


# contract: LIVE-21
async def test_holding_lets_what_is_being_sent_end() -> None:
    wire = Wire()
    wire.gate.clear()
    begun = asyncio.Event()

    async def begin() -> None:
        begun.set()
        await wire.text("begun")

    uplink = uplink_to(wire)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(uplink.run())
        sending = group.create_task(uplink.perform(begin))
        await begun.wait()
        uplink.post(lambda: wire.text("not begun"))
        uplink.hold()
        wire.gate.set()
        await sending
        await running
    assert wire.sent == ["begun"]
