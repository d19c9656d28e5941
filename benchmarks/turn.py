"""A spoken turn through the whole server with the embedded voice, at the pace of speech: is it quick, is it right, what does it cost?

The server (SQLite in a file, the demo agent) is a process of its own; the caller is this one. A turn's delay runs from the last voiced
sample that leaves the microphone to the first audio of the answer at the client, less the 500 ms of silence that are waited for. Loop lag
is how late a timer of 5 ms is inside of the server. It takes about five minutes. `BENCH_TURNS` sets the number of turns (30).
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.table import percentile, show

TURNS = int(os.environ.get("BENCH_TURNS", "30"))
MEASURED = 20
LONG = ("librivox_0880", "librivox_0920", "librivox_0930", "librivox_0880", "cards_001")
"""Said in one go, without a pause in which an answer could begin."""
QUIET_S = 15.0
LAG_S = 0.005


def main() -> None:
    """Print what was measured beside what is wanted."""
    from live_gateway.voice.local import available

    if not available().ok:
        print(f"  {available()}")
        return
    before = os.getloadavg()
    rows = asyncio.run(_measure())
    after = os.getloadavg()
    print(f"  load average {before[0]:.1f} before, {after[0]:.1f} after; the machine has {os.cpu_count()} processors")
    show(["", "measured", "goal"], rows)


# The server, in a process of its own.


class _Lag:
    def __init__(self) -> None:
        self.on = False
        self.late: list[float] = []

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:  # left in the task that entered it: the server's own
            task = group.create_task(self._look())
            yield
            task.cancel()

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self.on:
                await asyncio.sleep(0.5)  # next to nothing, while CPU is measured
                continue
            due = loop.time() + LAG_S
            await asyncio.sleep(LAG_S)
            self.late.append(loop.time() - due)

    def start(self) -> None:
        self.late, self.on = [], True

    def take(self) -> list[float]:
        self.on = False
        return self.late


def _serve(parent: Connection, directory: str) -> None:
    from contextlib import AsyncExitStack

    from live_gateway.cli.local_voice import with_live_models
    from live_gateway.demo import agent
    from live_gateway.runner import Runner
    from live_gateway.server.app import create_app
    from live_gateway.server.run import listen, make_server
    from live_gateway.sessions import open_session_service

    store = open_session_service(str(Path(directory) / "sessions.db"))
    lag = _Lag()

    @asynccontextmanager
    async def around() -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(store)
            await stack.enter_async_context(lag.watch())
            yield

    runner = Runner(app_name="demo", agent=with_live_models(agent, None), session_service=store, auto_create_session=True)
    listener = listen("127.0.0.1", 0)
    server = make_server(create_app(runner, around=around), listener=listener, on_ready=parent.send)
    answers = {"cpu": time.process_time, "rss": _rss_mb, "watch": lag.start, "lag": lag.take}

    def answer() -> None:
        while (asked := parent.recv()) != "stop":
            parent.send(answers[asked]())
        server.should_exit = True

    threading.Thread(target=answer, daemon=True).start()
    server.run(sockets=[listener])


def _rss_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


class _Server:
    """The process, and questions to it."""

    def __init__(self, directory: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, directory), daemon=True)

    async def start(self) -> int:
        """The port on which it listens."""
        self._process.start()
        url: str = await asyncio.to_thread(self._ours.recv)
        return int(url.rpartition(":")[2])

    async def ask(self, what: str) -> Any:
        self._ours.send(what)
        return await asyncio.to_thread(self._ours.recv)

    async def cpu_percent(self, seconds: float) -> float:
        """Of one core, over the next seconds."""
        before, began = await self.ask("cpu"), time.perf_counter()
        await asyncio.sleep(seconds)
        return float((await self.ask("cpu") - before) / (time.perf_counter() - began) * 100)

    async def stop(self) -> None:
        self._ours.send("stop")
        await asyncio.to_thread(self._process.join, 10)
        if self._process.is_alive():
            self._process.kill()


# The caller.


async def _measure() -> list[list[str]]:
    with tempfile.TemporaryDirectory() as directory:
        server = _Server(directory)
        port = await server.start()
        try:
            return [*await _turns(server, port), *await _quiet(server, port)]
        finally:
            await server.stop()


async def _turns(server: _Server, port: int) -> list[list[str]]:
    from tests.support.speech_clips import clip, clips, word_errors
    from tests.support.spoken_turn import client_of
    from tests.support.voice_caller import calling, last_voiced, without_silence

    command = clip("cmd_goforward").pcm
    voiced = last_voiced(command)
    delays: list[float] = []
    errors = words = 0
    async with client_of(port) as client, calling(client) as caller:
        idle_mb = await server.ask("rss")
        await caller.ask(command, voiced)
        await server.ask("watch")
        for _ in range(min(MEASURED, TURNS)):
            turn = await caller.ask(command, voiced)
            delays.append(turn.delay_s * 1000)
            assert turn.tools == ["move"], turn
        lag = [seconds * 1000 for seconds in await server.ask("lag")]
        for recording in clips():
            turn = await caller.ask(recording.pcm, last_voiced(recording.pcm))
            words += len(recording.text.split())
            errors += word_errors(recording.text, turn.heard)
        long = b"".join(without_silence(clip(name).pcm) for name in LONG)
        turn = await caller.ask(long, last_voiced(long))
        said = len(turn.heard.split())
        for _ in range(TURNS - MEASURED - 7):
            await caller.ask(command, voiced)
        full_mb = await server.ask("rss")
    return [
        [f"first audio after the end of speech, median of {len(delays)} turns, ms", f"{percentile(delays, 0.5):.0f}", "150"],
        ["  the same, p95, ms", f"{percentile(delays, 0.95):.0f} (most {max(delays):.0f})", "300"],
        ["loop lag while it decodes and speaks, p99, ms", f"{percentile(lag, 0.99):.1f} (most {max(lag):.0f})", "25"],
        ["word errors of the five clips, %", f"{errors / words * 100:.1f} ({errors} of {words})", "5"],
        [f"memory after {TURNS} turns, one of {len(long) / 32_000:.0f} s, MB", f"{full_mb:.0f} ({idle_mb:.0f} before)", "430"],
        ["  words understood in the long one", f"{said}", "44"],
    ]


async def _quiet(server: _Server, port: int) -> list[list[str]]:
    from tests.support.spoken_turn import client_of
    from tests.support.voice_caller import calling

    async with client_of(port) as client, calling(client) as caller:
        await asyncio.sleep(3)
        open_percent = await server.cpu_percent(QUIET_S)
        await caller.mute(True)
        await asyncio.sleep(3)
        muted_percent = await server.cpu_percent(QUIET_S)
    await asyncio.sleep(2)
    nobody_percent = await server.cpu_percent(QUIET_S)
    return [
        ["CPU of a muted session, % of a core", f"{muted_percent - nobody_percent:.2f}", "0.3"],
        ["CPU of an open microphone in silence, %", f"{open_percent - nobody_percent:.2f}", "3"],
        ["  the server with nobody there, %", f"{nobody_percent:.2f}", ""],
    ]
