"""How long one live connection may last: a notice a minute before the end, then the end. A planned end is no fault, and says so."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from live_gateway.errors import PublicError
from live_gateway.server.gateway import Driver, Ending
from live_gateway.server.outgoing import encode, error, notice

WARNED_BEFORE_S: Final = 60.0
DURATION_LIMIT: Final = PublicError(
    "duration_limit", "The conversation has lasted as long as one may; it is stored, and a new connection continues it.", False, 4511, 503
)


@contextmanager
def limited(socket: Driver, limit_s: float) -> Iterator[None]:
    """For the time of the block, end the connection when it has lasted `limit_s` seconds."""
    loop = asyncio.get_running_loop()
    left_s = min(WARNED_BEFORE_S, limit_s)
    near = notice("warning", "duration_limit_near", {"left_s": round(left_s)})
    over = Ending(DURATION_LIMIT.close_code, DURATION_LIMIT.code, encode(error(DURATION_LIMIT, fatal=True)))
    timers = [loop.call_later(limit_s - left_s, socket.tell, near), loop.call_later(limit_s, socket.end, over)]
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()
