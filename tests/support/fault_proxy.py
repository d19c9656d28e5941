"""A TCP proxy that does what networks do: delay, a low rate, one-byte slices, a stall, an end or a reset after so many bytes.

    async with FaultProxy(port, Faults(cut_after=5000, how="rst")) as proxy:
        ...  # connect to 127.0.0.1:proxy.port

`faults` may be changed while it runs; what counts bytes counts those from the server to the client, over the proxy's whole life, unless
`up` says otherwise. After a cut, connections pass unharmed.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

CHUNK = 16_384
LIMIT = 65_536


@dataclass
class Faults:
    """delay_s: before each chunk. bytes_per_s: no faster. slice_bytes: passed on in such pieces. cut_after: so many bytes, and then `how`:
    the connection is ended (`fin`), reset (`rst`), or stays open and says nothing more (`stall`). refuse: take no connection.
    buffer_bytes: about so much is taken of the server before it has to wait, 128 KiB or more; otherwise the kernel takes megabytes."""

    delay_s: float = 0.0
    bytes_per_s: float | None = None
    slice_bytes: int | None = None
    cut_after: int | None = None
    how: Literal["fin", "rst", "stall"] = "fin"
    up: bool = False
    refuse: bool = False
    buffer_bytes: int | None = None


class FaultProxy:
    """Between a client and a server on this machine. connections: how many were made. passed: bytes down (or up) so far."""

    def __init__(self, target_port: int, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.connections = 0
        self.passed = 0
        self._target_port = target_port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._stopped = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._server is not None
        self._server.close()
        self._stopped.set()
        self.break_all("rst")
        await self._server.wait_closed()
        await self._idle.wait()

    def break_all(self, how: Literal["fin", "rst"] = "rst") -> None:
        """Break every connection now."""
        for writer in list(self._writers):
            _end(writer, how)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.faults.refuse:
            _end(writer, "rst")
            return
        self.connections += 1
        try:
            to_server, from_server = await self._open(reader, writer)
        except OSError:
            _end(writer, "rst")
            return
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, from_server, writer, up=True))
                group.create_task(self._pump(to_server, writer, from_server, up=False))
        finally:
            for one in (writer, from_server):
                _end(one, "fin")
                self._writers.discard(one)
            if not self._writers:
                self._idle.set()

    async def _open(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raw = socket.socket()
        raw.setblocking(False)
        if (size := self.faults.buffer_bytes) is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size // 2)
        await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", self._target_port))
        to_server, from_server = await asyncio.open_connection(sock=raw, limit=(size or 2 * LIMIT) // 4)
        self._writers |= {writer, from_server}
        self._idle.clear()
        return to_server, from_server

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, other: asyncio.StreamWriter, *, up: bool) -> None:
        try:
            while data := await source.read(CHUNK):
                await self._pass_on(data, sink, other, up=up)
        except (OSError, _Cut):
            pass
        with contextlib.suppress(OSError):
            sink.close()

    async def _pass_on(self, data: bytes, sink: asyncio.StreamWriter, other: asyncio.StreamWriter, *, up: bool) -> None:
        faults = self.faults
        size = faults.slice_bytes or len(data)
        for begin in range(0, len(data), size):
            piece = data[begin : begin + size]
            if faults.delay_s:
                await asyncio.sleep(faults.delay_s)
            if faults.bytes_per_s:
                await asyncio.sleep(len(piece) / faults.bytes_per_s)
            if faults.cut_after is not None and faults.up is up and self.passed + len(piece) >= faults.cut_after:
                await self._cut(piece[: faults.cut_after - self.passed], sink, other)
            if faults.up is up:
                self.passed += len(piece)
            sink.write(piece)
            await sink.drain()

    async def _cut(self, last: bytes, sink: asyncio.StreamWriter, other: asyncio.StreamWriter) -> None:
        how = self.faults.how
        self.passed += len(last)
        self.faults.cut_after = None
        sink.write(last)
        await sink.drain()
        if how == "stall":
            await self._stopped.wait()
        for writer in (sink, other):
            _end(writer, "rst" if how == "rst" else "fin")
        raise _Cut


class _Cut(Exception):
    pass


def _end(writer: asyncio.StreamWriter, how: Literal["fin", "rst"]) -> None:
    raw: socket.socket | None = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        if how == "rst" and raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        writer.close()
