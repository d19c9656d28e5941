"""Run a server of the developer's until Ctrl-C or SIGTERM, which both end it in order."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from live_gateway.cli.problems import CommandError, Exit
from live_gateway.errors import ConfigurationError


def run_until_stopped(serving: Callable[[], Coroutine[Any, Any, None]], what: str) -> int:
    """Its exit code. what: what cannot be used if the system refuses it. Raises `CommandError` for what cannot be started."""
    try:
        asyncio.run(_stoppable(serving))
    except KeyboardInterrupt:
        pass  # how it is meant to end
    except ConfigurationError as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"{what} cannot be used: {error.strerror or error}") from None
    return int(Exit.OK)


async def _stoppable(serving: Callable[[], Coroutine[Any, Any, None]]) -> None:
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
    await serving()
