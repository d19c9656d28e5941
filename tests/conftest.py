"""Shared by all tests: the event loop. `@pytest.mark.virtual_time` runs an async test on `live_gateway.testing.virtual_time`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

from live_gateway.testing.virtual_time import VirtualTimeLoop


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "virtual_time: time jumps to the next timer when nothing can run")


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.get_closest_marker("virtual_time"):
        return {"virtual": VirtualTimeLoop}
    return {"real": asyncio.new_event_loop}
