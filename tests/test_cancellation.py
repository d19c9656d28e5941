"""A wait that is taken away from its task, without the task."""

from __future__ import annotations

import asyncio

import pytest

from live_gateway.cancellation import Interruptible


async def _wait(place: Interruptible, waiting: asyncio.Event, *, fails: bool = False) -> int:
    """How often the task is still to be cancelled after the wait."""
    with place:
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            if fails:
                raise OSError("lost")
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


async def test_an_interruption_ends_the_wait_and_nothing_else() -> None:
    place, waiting = Interruptible(), asyncio.Event()
    for _ in range(2):
        async with asyncio.TaskGroup() as group:
            task = group.create_task(_wait(place, waiting))
            await waiting.wait()
            place.interrupt()
            place.interrupt()
        assert task.result() == 0
        place.interrupt()  # nobody waits there
        waiting.clear()


async def test_what_fails_while_it_is_interrupted_is_raised() -> None:
    place = Interruptible()
    asyncio.get_running_loop().call_soon(place.interrupt)
    with pytest.raises(OSError, match="lost"):
        await _wait(place, asyncio.Event(), fails=True)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@pytest.mark.parametrize("interrupted", [False, True])
async def test_a_cancellation_from_elsewhere_passes_also_where_both_come(interrupted: bool) -> None:
    place, waiting = Interruptible(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(_wait(place, waiting))
        await waiting.wait()
        if interrupted:
            place.interrupt()
        task.cancel()
    assert task.cancelled()
