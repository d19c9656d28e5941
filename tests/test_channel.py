"""The bounded, closable queue between tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from live_gateway.channel import Channel, ChannelClosed, ChannelFull
from live_gateway.testing.virtual_time import VirtualTimeLoop

pytestmark = pytest.mark.virtual_time


async def test_first_in_first_out() -> None:
    channel: Channel[int] = Channel(3)
    for n in range(3):
        channel.put_nowait(n)
    with pytest.raises(ChannelFull):
        channel.put_nowait(3)
    assert len(channel) == 3
    assert [await channel.get() for _ in range(3)] == [0, 1, 2]


def test_it_needs_room() -> None:
    with pytest.raises(ValueError, match="not 0"):
        Channel(0)


async def test_readers_get_what_is_left_and_then_the_end() -> None:
    channel: Channel[int] = Channel(3)
    channel.put_nowait(1)
    channel.put_nowait(2)
    channel.close()
    channel.close()
    assert channel.closed
    with pytest.raises(ChannelClosed):
        channel.put_nowait(3)
    with pytest.raises(ChannelClosed):
        await channel.put(3)
    assert [item async for item in channel] == [1, 2]
    with pytest.raises(ChannelClosed):
        await channel.get()


async def test_put_waits_for_room_and_get_for_an_item() -> None:
    channel: Channel[int] = Channel(1)
    async with asyncio.TaskGroup() as group:
        getter = group.create_task(channel.get())
        await asyncio.sleep(1)
        assert not getter.done()
        await channel.put(1)
        assert await getter == 1
        await channel.put(2)
        putter = group.create_task(channel.put(3))
        await asyncio.sleep(1)
        assert not putter.done()
        assert await channel.get() == 2
        await putter
        assert await channel.get() == 3


async def ends(awaitable: Awaitable[Any]) -> str:
    try:
        await awaitable
    except ChannelClosed:
        return "closed"
    return "done"


# report: A05
async def test_close_wakes_everybody() -> None:
    empty: Channel[int] = Channel(1)
    full: Channel[int] = Channel(1)
    full.put_nowait(0)
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(ends(empty.get())) for _ in range(3)] + [group.create_task(ends(full.put(n))) for n in range(3)]
        await asyncio.sleep(1)
        empty.close()
        full.close()
        begin = asyncio.get_running_loop().time()
        assert [await task for task in waiting] == ["closed"] * 6
        assert asyncio.get_running_loop().time() == begin


async def test_a_reader_cancelled_after_its_wake_up_passes_it_on() -> None:
    channel: Channel[int] = Channel(1)
    async with asyncio.TaskGroup() as group:
        first, second = group.create_task(channel.get()), group.create_task(channel.get())
        await asyncio.sleep(1)
        channel.put_nowait(7)
        first.cancel()
        assert await second == 7


async def test_a_writer_cancelled_after_its_wake_up_passes_it_on() -> None:
    channel: Channel[int] = Channel(1)
    channel.put_nowait(0)
    async with asyncio.TaskGroup() as group:
        first, second = group.create_task(channel.put(1)), group.create_task(channel.put(2))
        await asyncio.sleep(1)
        assert await channel.get() == 0
        first.cancel()
        await second
        assert await channel.get() == 2


@settings(max_examples=80, deadline=None)
@given(
    capacity=st.integers(1, 3),
    writers=st.lists(st.integers(0, 8), min_size=1, max_size=4),
    cancels=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 30)), max_size=6),
)
def test_nothing_is_lost_doubled_or_reordered(capacity: int, writers: list[int], cancels: list[tuple[int, int]]) -> None:
    """Writers and readers run against each other while some are cancelled at odd moments. An item counts as given when its put returned."""
    given_: list[tuple[int, int]] = []
    taken: list[tuple[int, int]] = []

    async def write(channel: Channel[tuple[int, int]], writer: int, count: int) -> None:
        for n in range(count):
            if await ends(channel.put((writer, n))) == "closed":  # all readers were cancelled
                return
            given_.append((writer, n))
            if (writer + n) % 3 == 0:
                await asyncio.sleep(1)

    async def read(channel: Channel[tuple[int, int]], pause: int) -> None:
        async for item in channel:
            taken.append(item)
            await asyncio.sleep(pause)

    async def scenario() -> None:
        channel: Channel[tuple[int, int]] = Channel(capacity)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(write(channel, n, count)) for n, count in enumerate(writers)]
            tasks += [group.create_task(read(channel, pause)) for pause in (1, 2)]
            for who, when in sorted(cancels, key=lambda cancel: cancel[1]):
                await asyncio.sleep(when % 4)
                tasks[who % len(tasks)].cancel()
            await asyncio.sleep(40)
            channel.close()
            await read(channel, 0)
            assert len(channel) == 0

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(scenario())
    assert sorted(taken) == sorted(given_)
    assert len(set(taken)) == len(taken)
    for writer in range(len(writers)):
        assert [n for who, n in given_ if who == writer] == list(range(sum(who == writer for who, _ in given_)))
