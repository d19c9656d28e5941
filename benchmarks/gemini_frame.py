"""What one frame costs between this program and Gemini Live: CPU per frame sent and received, beside the vendor's SDK doing the same.

`without a socket`: both write to and read from the same stub, so that only what they do themselves counts. `over TLS`: both talk to the
same bare server in another process on this machine; the WebSocket layer, the same for both, and TLS are in it. Up 20 ms of 16 kHz
audio, down 40 ms of 24 kHz audio. Rounds alternate.
"""

from __future__ import annotations

import asyncio
import base64
import json
import multiprocessing
import os
import ssl
import statistics
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from typing import Any

from google import genai
from google.genai import types
from google.genai.live import AsyncSession
from websockets.asyncio.server import ServerConnection, serve

from benchmarks.table import show, spread
from live_gateway.models.gemini_connection import GeminiConnection
from live_gateway.models.gemini_live import GeminiLiveModel
from live_gateway.models.gemini_options import GeminiOptions
from live_gateway.models.gemini_socket import Link
from live_gateway.models.live import LiveSetup
from live_gateway.testing.certificates import loopback_tls

FRAMES = int(os.environ.get("BENCH_FRAMES", "5000"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
UP = bytes(640)
DOWN = json.dumps(
    {
        "serverContent": {
            "modelTurn": {"parts": [{"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": base64.b64encode(bytes(1920)).decode()}}]}
        }
    }
).encode()
READY = b'{"setupComplete":{}}'

Work = Callable[[int], Awaitable[None]]


class Stub:
    """A socket that takes everything and gives the same frame for ever."""

    async def send(self, message: Any, text: bool | None = None) -> None:
        """Take it."""

    async def recv(self, decode: bool | None = None) -> bytes:
        """The frame."""
        return DOWN


def main() -> None:
    """Print both tables and the ratios."""
    print(f"  {FRAMES} frames a round, {ROUNDS} rounds; CPU us per frame")
    rows = []
    for place, measure in (("without a socket", _without_socket), ("over TLS", _over_tls)):
        figures: dict[tuple[str, str], list[float]] = {}
        for _ in range(ROUNDS):
            for key, value in asyncio.run(measure()).items():
                figures.setdefault(key, []).append(value)
        for way in ("up", "down"):
            theirs, ours = figures["sdk", way], figures["ours", way]
            share = statistics.median(ours) / statistics.median(theirs)
            rows.append([f"{place}, {way}", spread(theirs), spread(ours), f"{share:.2f}"])
        theirs = [up + down for up, down in zip(figures["sdk", "up"], figures["sdk", "down"], strict=True)]
        ours = [up + down for up, down in zip(figures["ours", "up"], figures["ours", "down"], strict=True)]
        share = statistics.median(ours) / statistics.median(theirs)
        rows.append([f"{place}, both", spread(theirs), spread(ours), f"{share:.2f}"])
    show(["", "google-genai SDK", "live_gateway", "share"], rows)


async def _without_socket() -> dict[tuple[str, str], float]:
    client = genai.Client(api_key="none")
    session = AsyncSession(client._api_client, Stub())  # type: ignore[arg-type]
    model = GeminiLiveModel("gemini-live", api_key="none")
    connection = GeminiConnection("gemini-live", model.access, model.options, LiveSetup(), None)
    connection._sender.link = Link(Stub())  # type: ignore[arg-type]
    return await _measure(session, connection)


async def _over_tls() -> dict[tuple[str, str], float]:
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,), daemon=True)
    server.start()
    try:
        port = await asyncio.to_thread(ours.recv)
        trusting = ssl.create_default_context()
        trusting.check_hostname = False
        trusting.verify_mode = ssl.CERT_NONE
        url = f"https://127.0.0.1:{port}"
        client = genai.Client(api_key="none", http_options=types.HttpOptions(base_url=url, async_client_args={"ssl": trusting}))
        model = GeminiLiveModel("gemini-live", api_key="none", base_url=url, options=GeminiOptions(tls=trusting))
        async with client.aio.live.connect(model="gemini-live") as session, model.connect(LiveSetup()) as connection:
            return await _measure(session, connection)
    finally:
        server.terminate()
        await asyncio.to_thread(server.join)


async def _measure(session: AsyncSession, connection: GeminiConnection) -> dict[tuple[str, str], float]:
    async def sdk_up(frames: int) -> None:
        for _ in range(frames):
            await session.send_realtime_input(audio=types.Blob(data=UP, mime_type="audio/pcm;rate=16000"))

    async def sdk_down(frames: int) -> None:
        stream = session.receive()
        for _ in range(frames):
            await anext(stream)

    async def our_up(frames: int) -> None:
        for _ in range(frames):
            await connection.send_audio(UP)

    async def our_down(frames: int) -> None:
        for _ in range(frames):
            await connection.receive()

    work: dict[tuple[str, str], Work] = {
        ("sdk", "up"): sdk_up,
        ("ours", "up"): our_up,
        ("sdk", "down"): sdk_down,
        ("ours", "down"): our_down,
    }
    return {key: await _cpu_us(one) for key, one in work.items()}


async def _cpu_us(work: Work) -> float:
    await work(FRAMES // 10)
    began = time.process_time()
    await work(FRAMES)
    return (time.process_time() - began) / FRAMES * 1e6


def _serve(pipe: Connection) -> None:
    """A bare server: answers the set-up, sends frames as fast as they are taken, and throws away what it is sent."""

    async def handle(socket: ServerConnection) -> None:
        await socket.recv()
        await socket.send(READY)

        async def down() -> None:
            while True:
                await socket.send(DOWN)

        async with asyncio.TaskGroup() as group:
            sending = group.create_task(down())
            async for _ in socket:
                pass
            sending.cancel()

    async def run() -> None:
        server, _ = loopback_tls()
        async with serve(handle, "127.0.0.1", 0, ssl=server, compression=None, ping_interval=None, max_size=None) as listening:
            pipe.send(next(iter(listening.sockets)).getsockname()[1])
            await asyncio.Event().wait()

    asyncio.run(run())
