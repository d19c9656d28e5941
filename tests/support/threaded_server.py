"""A real server on a free port in a thread of its own, for clients that block."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from starlette.applications import Starlette

from live_gateway.server.run import address_of, listen, make_server

WAIT_S = 20.0


class ThreadedServer:
    """`with ThreadedServer(app) as server`: `server.url` is `http://127.0.0.1:<port>`."""

    def __init__(self, app: Starlette) -> None:
        self._listener = listen("127.0.0.1", 0)
        self.url = address_of(self._listener)
        self.port = int(self._listener.getsockname()[1])
        self._ready = threading.Event()
        self._server = make_server(app, listener=self._listener, on_ready=lambda _: self._ready.set())
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._listener]}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(WAIT_S), "the server did not start"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.should_exit = True
        self._thread.join(WAIT_S)
        self._listener.close()
