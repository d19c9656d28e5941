"""Asking a provider over HTTP: deadlines, and retries with back-off for failures that pass."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from live_gateway.errors import ModelError, UpstreamLost, UpstreamPolicy, UpstreamQuota
from live_gateway.telemetry import get_logger

log = get_logger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long and how often a provider is asked.

    timeout_s: longest wait for the next piece of an answer. attempts: how often a request is made in all while nothing of the answer has
    come and the failure is one that passes. first_delay_s, max_delay_s: the pause before the second attempt, which doubles, up to the
    longest; each is drawn at random between half of it and the whole.
    """

    timeout_s: float = 60.0
    attempts: int = 3
    first_delay_s: float = 0.5
    max_delay_s: float = 8.0

    def delay(self, attempt: int) -> float:
        """Seconds to wait after this attempt (1 is the first)."""
        longest: float = min(self.max_delay_s, self.first_delay_s * 2.0 ** (attempt - 1))
        return longest * (0.5 + random.random() / 2)  # noqa: S311  spreads load, keeps no secret


async def ask(
    model: str,
    open_stream: Callable[[], Awaitable[AsyncIterator[T]]],
    translate: Callable[[Exception], ModelError],
    patience: Patience,
) -> AsyncGenerator[T, None]:
    """The pieces of an answer. A request that fails in a way that passes (`UpstreamLost`) is made again while nothing has come.

    translate: turns what the provider's client raises into an error of ours. Raises what it gives.
    """
    for attempt in range(1, patience.attempts + 1):
        begun = False
        try:
            async with asyncio.timeout(patience.timeout_s):
                stream = await open_stream()
            try:
                while (piece := await _next(stream, patience.timeout_s)) is not None:
                    begun = True
                    yield piece
                return
            finally:
                await _close(stream)
        except Exception as failure:  # the provider's client is foreign code
            error = _translated(failure, translate, model, patience)
            if begun or attempt == patience.attempts or not isinstance(error, UpstreamLost):
                raise error from failure
        delay = patience.delay(attempt)
        log.warning("model_retry", model=model, attempt=attempt, code=error.code, delay_ms=round(delay * 1000))
        await asyncio.sleep(delay)


def refusal(model: str, status: int, word: str | None = None) -> ModelError:
    """The error for an HTTP status that is none of success. The provider's own words are left out: they may repeat the prompt."""
    said = f"HTTP {status}{f', {word}' if word else ''}"
    if status == 429:
        return UpstreamQuota(f"the quota for model {model!r} is used up ({said}); try again later")
    if status == 408 or status >= 500:
        return UpstreamLost(f"model {model!r} cannot answer right now ({said}); try again")
    return UpstreamPolicy(f"model {model!r} refuses the request ({said}); check key, model name and settings")


_NETWORK = frozenset({"httpx", "httpx2", "httpcore", "aiohttp"})


def is_network_failure(failure: Exception) -> bool:
    """Whether the failure comes from the connection. Providers' clients choose their HTTP library by what is installed."""
    return isinstance(failure, OSError) or any(kind.__module__.partition(".")[0] in _NETWORK for kind in type(failure).__mro__)


def unreachable(model: str) -> UpstreamLost:
    """The error for a connection that could not be made, or broke."""
    return UpstreamLost(f"the connection to model {model!r} failed; try again")


def _translated(failure: Exception, translate: Callable[[Exception], ModelError], model: str, patience: Patience) -> ModelError:
    if isinstance(failure, ModelError):
        return failure
    if isinstance(failure, TimeoutError):
        return UpstreamLost(f"model {model!r} said nothing for {patience.timeout_s:g} seconds; try again")
    return translate(failure)


async def _next(stream: AsyncIterator[T], timeout_s: float) -> T | None:
    async with asyncio.timeout(timeout_s):
        return await anext(stream, None)


async def _close(stream: object) -> None:
    closing = getattr(stream, "aclose", None) or getattr(stream, "close", None)
    if closing is not None:
        await closing()
