"""The collector is paused for as long as somebody reads, and is afterwards what it was before."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from live_gateway.sessions.collecting import collections_paused


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    assert gc.isenabled()
    yield
    gc.enable()


def test_it_runs_again_after_the_last_block_whatever_happened_there() -> None:
    with collections_paused():
        with pytest.raises(ValueError, match="broken"), collections_paused():
            raise ValueError("broken")
        assert not gc.isenabled()
    assert gc.isenabled()


def test_who_has_switched_it_off_finds_it_off() -> None:
    gc.disable()
    with collections_paused():
        pass
    assert not gc.isenabled()


def test_blocks_of_several_threads_overlap() -> None:
    together = Barrier(4)
    seen: list[bool] = []

    def block() -> None:
        with collections_paused():
            together.wait(10)
            seen.append(gc.isenabled())
            together.wait(10)

    with ThreadPoolExecutor(4) as threads:
        for _ in range(4):
            threads.submit(block)
    assert seen == [False] * 4
    assert gc.isenabled()
