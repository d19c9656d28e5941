"""What the gateway adds to an audio frame: CPU of the server process per frame, and delay, beside a bare relay on the same transport.

Each contender runs in a process of its own and serves the same load, one after the other, in alternating rounds: real-time sessions with
20 ms of 16 kHz audio up and 40 ms of 24 kHz audio down for every second frame. Before both stands the same scripted server of a live model
in a third process, reached over a WebSocket (JSON, base64). The relay has one task that carries frames up to the model and one that carries
them down, converts them as the gateway does, and nothing else; both sit on the same uvicorn with the same protocol classes. The row `shell
alone` is the live session without any socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import statistics
import time
from multiprocessing.connection import Connection

import msgspec
import websockets
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from benchmarks.echo_model import EchoModel
from benchmarks.table import percentile, show, spread
from live_gateway.agents.llm import LlmAgent
from live_gateway.models.gemini_live import GeminiLiveModel
from live_gateway.models.gemini_wire import audio_message
from live_gateway.runner import Runner
from live_gateway.server.app import create_app
from live_gateway.server.gateway import Gateway
from live_gateway.server.run import listen, make_server
from live_gateway.server.wire import SUBPROTOCOL, pack_audio_down

SESSIONS = int(os.environ.get("BENCH_SESSIONS", "50"))
SECONDS = float(os.environ.get("BENCH_SECONDS", "8"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
WARM_UP_S = 2.0
FRAME_S = 0.02
HEADER = 24
PCM = bytes(640)


def main() -> None:
    """Print CPU per frame and delay of the contenders, and the ratio of the whole server to the relay."""
    contenders = ("relay", "gateway")
    cpu: dict[str, list[float]] = {name: [] for name in contenders}
    delays: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name in contenders:
            per_frame, waits = asyncio.run(_round(name))
            cpu[name].append(per_frame)
            delays[name].append((percentile(waits, 0.5) * 1000, percentile(waits, 0.99) * 1000))
    shell = [asyncio.run(_shell()) for _ in range(ROUNDS)]
    rows = [
        [name, spread(cpu[name]), spread([p50 for p50, _ in delays[name]], 2), spread([p99 for _, p99 in delays[name]], 2)]
        for name in contenders
    ]
    rows.append(["shell alone", spread(shell), "", ""])
    print(f"  {SESSIONS} sessions, {SECONDS:g} s a round, {ROUNDS} rounds")
    show(["", "CPU us per frame", "delay p50 ms", "delay p99 ms"], rows)
    ratio = statistics.median(cpu["gateway"]) / statistics.median(cpu["relay"])
    added = statistics.median([p99 for _, p99 in delays["gateway"]]) - statistics.median([p99 for _, p99 in delays["relay"]])
    print(f"  the whole server takes {ratio:.2f} times the relay's CPU per frame; p99 added: {added:.2f} ms")


def relay_app(upstream: str) -> Starlette:
    """Frames from the client to the model, frames from the model to the client. Nothing else."""

    async def relay(websocket: WebSocket) -> None:
        await websocket.accept(SUBPROTOCOL)
        async with websockets.connect(upstream, compression=None, max_size=None) as model, asyncio.TaskGroup() as group:
            await model.send('{"setup":{}}')
            await model.recv()
            down = group.create_task(_relay_down(model, websocket))
            with contextlib.suppress(WebSocketDisconnect):
                while True:
                    message = await websocket.receive()
                    if (frame := message.get("bytes")) is not None:
                        await model.send(audio_message(frame[HEADER:]), text=True)
                    elif message["type"] == "websocket.disconnect":
                        break
            down.cancel()

    app = Starlette(routes=[WebSocketRoute("/live", relay)])
    app.state.gateway = Gateway(Runner.in_memory("bench", LlmAgent(name="bench")))
    return app


async def _relay_down(model: websockets.ClientConnection, websocket: WebSocket) -> None:
    sent = 0
    while True:
        pcm = _decoder.decode(await model.recv(decode=False)).server_content.model_turn.parts[0].inline_data.data
        await websocket.send_bytes(pack_audio_down(1, sent, sent * 960, 0.0, pcm))
        sent += 1


def gateway_app(upstream: str) -> Starlette:
    """The whole server: wire, limits, live session, turns, store, the model's connection."""
    model = GeminiLiveModel("bench-live", api_key="none", base_url=upstream.replace("ws", "http", 1))
    return create_app(Runner.in_memory("bench", LlmAgent(name="bench", live_model=model)))


def _serve_model(parent: Connection) -> None:
    """The scripted model: ready at once, one frame down for every second frame up."""

    async def answer(socket: websockets.ServerConnection) -> None:
        await socket.recv()
        await socket.send('{"setupComplete":{}}')
        heard = 0
        with contextlib.suppress(websockets.ConnectionClosed):
            async for _ in socket:
                heard += 1
                if heard % 2 == 0:
                    await socket.send(_DOWN)

    async def serve_for_ever() -> None:
        async with websockets.serve(answer, "127.0.0.1", 0, compression=None, ping_interval=None) as server:
            parent.send(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            await asyncio.to_thread(parent.recv)

    asyncio.run(serve_for_ever())


class _Blob(msgspec.Struct, rename="camel"):
    data: bytes


class _Part(msgspec.Struct, rename="camel"):
    inline_data: _Blob


class _Turn(msgspec.Struct, rename="camel"):
    parts: list[_Part]


class _Content(msgspec.Struct, rename="camel"):
    model_turn: _Turn


class _Message(msgspec.Struct, rename="camel"):
    server_content: _Content


_decoder = msgspec.json.Decoder(_Message)
_DOWN = msgspec.json.encode(
    {"serverContent": {"modelTurn": {"parts": [{"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": bytes(1920)}}]}}}
).decode()


def _runner() -> Runner:
    return Runner.in_memory("bench", LlmAgent(name="bench", live_model=EchoModel()))


def _serve(name: str, upstream: str, parent: Connection) -> None:
    import threading

    listener = listen("127.0.0.1", 0)
    server = make_server({"relay": relay_app, "gateway": gateway_app}[name](upstream), listener=listener, on_ready=parent.send)

    def answer() -> None:
        while (asked := parent.recv()) != "stop":
            parent.send(time.process_time() if asked == "cpu" else None)
        server.should_exit = True

    threading.Thread(target=answer, daemon=True).start()
    server.run(sockets=[listener])


async def _round(name: str) -> tuple[float, list[float]]:
    """Microseconds of CPU per frame (both directions counted), and seconds between a frame and its answer."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    model_ours, model_theirs = context.Pipe()
    model = context.Process(target=_serve_model, args=(model_theirs,), daemon=True)
    model.start()
    process = context.Process(target=_serve, args=(name, await asyncio.to_thread(model_ours.recv), theirs), daemon=True)
    process.start()
    try:
        url = await asyncio.to_thread(ours.recv)
        waits: list[float] = []
        async with asyncio.TaskGroup() as group:
            start = asyncio.get_running_loop().time() + 1.0
            for number in range(SESSIONS):
                group.create_task(_talk(url.replace("http", "ws") + "/live", start + number * FRAME_S / SESSIONS, waits))
            await asyncio.sleep(1.0 + WARM_UP_S)
            before = await asyncio.to_thread(_ask, ours)
            await asyncio.sleep(SECONDS - WARM_UP_S - 0.5)
            after = await asyncio.to_thread(_ask, ours)
        frames = SESSIONS * (SECONDS - WARM_UP_S - 0.5) / FRAME_S * 1.5
        return (after - before) / frames * 1e6, waits
    finally:
        ours.send("stop")
        model_ours.send("stop")
        for child in (process, model):
            await asyncio.to_thread(child.join, 10)
            if child.is_alive():
                child.kill()


def _ask(ours: Connection) -> float:
    ours.send("cpu")
    answer: float = ours.recv()
    return answer


async def _talk(url: str, start: float, waits: list[float]) -> None:
    """One session in real time."""
    loop = asyncio.get_running_loop()
    sent: dict[int, float] = {}
    async with websockets.connect(url, subprotocols=[websockets.Subprotocol(SUBPROTOCOL)], compression=None, max_size=None) as socket:
        await socket.send('{"type":"hello","v":1,"input":"hands_free","caps":[]}')

        async def listen_for_answers() -> None:
            answers = 0
            async for message in socket:
                if isinstance(message, bytes):
                    answers += 1
                    if (began := sent.pop(answers * 2, None)) is not None:
                        waits.append(loop.time() - began)

        async with asyncio.TaskGroup() as group:
            listening = group.create_task(listen_for_answers())
            for number in range(1, int(SECONDS / FRAME_S) + 1):
                await asyncio.sleep(start + number * FRAME_S - loop.time())
                if number % 2 == 0:
                    sent[number] = loop.time()
                await socket.send(_UP.pack_into_frame(number))
            await asyncio.sleep(0.2)
            listening.cancel()


class _Up:
    """Up frames without building one each time but for its counters."""

    def pack_into_frame(self, number: int) -> bytes:
        import struct

        return struct.pack("<BBBBIIId", 1, 1, 0, 0, 1, number - 1, (number - 1) * 320, 0.0) + PCM


_UP = _Up()


async def _shell() -> float:
    """Microseconds of CPU per frame (both directions) through the live session alone."""
    from live_gateway.live.items import AudioChunk

    runner = _runner()
    frames = 20_000
    async with runner.run_live(user_id="u", session_id="s") as live:
        items = live.items()
        began = time.process_time()
        for _ in range(frames // 10):
            for _ in range(10):
                live.push_audio(PCM)
            answers = 0
            while answers < 5:
                if isinstance(await anext(items), AudioChunk):
                    answers += 1
        return (time.process_time() - began) / (frames * 1.5) * 1e6
