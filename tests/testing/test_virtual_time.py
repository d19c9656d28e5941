"""The virtual-time loop: jumps, threads, deadlocks."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from live_gateway.testing import virtual_time
from live_gateway.testing.virtual_time import DeadlockError, VirtualClock, VirtualTimeLoop, run

pytestmark = pytest.mark.virtual_time


async def test_an_hour_passes_at_once() -> None:
    real = time.monotonic()
    loop = asyncio.get_running_loop()
    start = loop.time()
    await asyncio.sleep(3600)
    assert loop.time() - start == pytest.approx(3600)
    assert time.monotonic() - real < 5


async def test_timers_fire_in_their_order() -> None:
    woken: list[str] = []

    async def sleeper(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        woken.append(f"{name}@{asyncio.get_running_loop().time() - start:.1f}")

    start = asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as group:
        group.create_task(sleeper("late", 2.5))
        group.create_task(sleeper("early", 0.5))
        group.create_task(sleeper("middle", 1.0))
    assert woken == ["early@0.5", "middle@1.0", "late@2.5"]


async def test_a_timeout_fires_on_virtual_time() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(30):
            await asyncio.Event().wait()


async def test_time_stands_still_while_a_thread_works() -> None:
    go = threading.Event()
    loop = asyncio.get_running_loop()
    start = loop.time()

    def work() -> str:
        assert go.wait(5)
        return "result"

    async with asyncio.timeout(0.001):  # a jump would end it before the thread is done
        future = loop.run_in_executor(None, work)
        go.set()
        assert await future == "result"
    assert loop.time() == start


async def test_time_moves_again_after_the_thread() -> None:
    assert await asyncio.to_thread(lambda: 7) == 7
    start = asyncio.get_running_loop().time()
    await asyncio.sleep(10)
    assert asyncio.get_running_loop().time() == pytest.approx(start + 10)


async def test_hold_waits_for_what_comes_from_outside() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    arrived = asyncio.Event()
    thread = threading.Thread(target=loop.call_soon_threadsafe, args=(arrived.set,))
    async with asyncio.timeout(0.001):
        with loop.hold():
            thread.start()
            await arrived.wait()
    thread.join()
    assert not loop.held


async def test_the_clock_reads_the_loop() -> None:
    clock = VirtualClock()
    now, wall = clock.now(), clock.wall()
    await asyncio.sleep(60)
    assert clock.now() - now == pytest.approx(60)
    assert clock.wall() - wall == pytest.approx(60)


def test_a_deadlock_is_named_instead_of_hanging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_time, "PATIENCE_S", 0.02)

    async def waits_for_nothing() -> None:
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError, match=r"no timer.*\n.*Event\.wait"):
        run(waits_for_nothing())


def test_a_thread_that_never_ends_is_a_deadlock_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_time, "PATIENCE_S", 0.02)
    go = threading.Event()

    async def waits_for_thread() -> None:
        async with asyncio.timeout(1):
            await asyncio.get_running_loop().run_in_executor(None, go.wait)

    threading.Timer(0.5, go.set).start()
    with pytest.raises(DeadlockError, match="does not end"):
        run(waits_for_thread())


def test_run_returns_the_result() -> None:
    async def main() -> int:
        await asyncio.sleep(1000)
        return 5

    assert run(main()) == 5
