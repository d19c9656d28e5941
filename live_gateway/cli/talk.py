"""`live-gateway talk`: the shell around `talk_client`: sockets, files and the terminal."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from websockets import Subprotocol
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from live_gateway.cli.problems import CommandError, Exit
from live_gateway.cli.talk_audio import last_sound_s, read_clip, write_answer
from live_gateway.cli.talk_client import INPUT_HZ, OUTPUT_HZ, Outcome, Plan, TalkClient
from live_gateway.cli.talk_display import Display, JsonDisplay, TextDisplay
from live_gateway.server.wire import SUBPROTOCOL

CONNECT_WAIT_S = 10.0
SEND_WAIT_S = 10.0
CLOSE_WAIT_S = 2.0
_LOOPBACK = frozenset(["127.0.0.1", "::1", "localhost"])


def run(arguments: argparse.Namespace) -> int:
    """Run the command. Raises `CommandError`."""
    url = live_url(arguments.url)
    pcm = read_clip(Path(arguments.file), INPUT_HZ) if arguments.file is not None else b""
    plan = Plan(
        pcm=pcm,
        last_sound_s=last_sound_s(pcm, INPUT_HZ),
        text=arguments.text,
        session=arguments.session,
        modality="AUDIO" if arguments.answer == "voice" else "TEXT",
        patience_s=arguments.wait,
    )
    out = Path(arguments.out) if arguments.out is not None else None
    if out is not None and not out.parent.is_dir():
        raise CommandError(f"there is no directory {str(out.parent)!r} to write the answer to")
    display = JsonDisplay(sys.stdout) if arguments.json else TextDisplay(sys.stdout, terminal=sys.stdout.isatty())
    client = TalkClient(plan, epoch_s=time.time() - time.monotonic())
    try:
        asyncio.run(_converse(url, client, display, plan))
    except CommandError as error:
        client.fail(error.code, str(error))
    return _conclude(client, display, out)


def live_url(text: str) -> str:
    """The WebSocket's address; the address that the gateway prints for browsers will do too. Raises `CommandError`."""
    try:
        parts = urlsplit(text)
        valid = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        parts, valid = SplitResult("", "", "", "", ""), False
    scheme = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}.get(parts.scheme)
    if scheme is None or not valid:
        raise CommandError(f"{text!r} is not the address of a gateway; it looks like ws://127.0.0.1:8080/live")
    path = "/live" if parts.path in ("", "/") else parts.path
    return parts._replace(scheme=scheme, path=path).geturl()


async def _converse(url: str, client: TalkClient, display: Display, plan: Plan) -> None:
    socket = await _connect(url)
    try:
        await _exchange(socket, client, display, len(plan.pcm) / 2 / INPUT_HZ)
    except ConnectionClosed as closed:
        await _read_on(socket, client, display)
        frame = closed.rcvd
        client.disconnected(frame.code if frame else 1006, frame.reason if frame else "")
    except TimeoutError:
        client.disconnected(1006, "the server takes nothing any more")
    finally:
        await socket.close()


async def _connect(url: str) -> ClientConnection:
    proxy: Literal[True] | None = None if urlsplit(url).hostname in _LOOPBACK else True  # no proxy reaches this very machine
    try:
        return await connect(
            url,
            subprotocols=[Subprotocol(SUBPROTOCOL)],
            compression=None,
            proxy=proxy,
            open_timeout=CONNECT_WAIT_S,
            close_timeout=CLOSE_WAIT_S,
            ping_timeout=None,
        )
    except InvalidStatus as refused:
        raise CommandError(
            f"{url} answered with HTTP status {refused.response.status_code} instead of a WebSocket", Exit.CANNOT_CONNECT
        ) from None
    except (InvalidHandshake, InvalidURI, EOFError) as error:
        raise CommandError(f"{url} is not a gateway: {error}", Exit.CANNOT_CONNECT) from None
    except TimeoutError:
        raise CommandError(f"{url} did not answer within {CONNECT_WAIT_S:.0f} seconds", Exit.CANNOT_CONNECT) from None
    except OSError as error:
        reason = "nothing listens there" if "Connect call failed" in str(error) else error.strerror or str(error)
        raise CommandError(
            f"cannot connect to {url}: {reason}; is the gateway running (live-gateway serve)?", Exit.CANNOT_CONNECT
        ) from None


async def _exchange(socket: ClientConnection, client: TalkClient, display: Display, length_s: float) -> None:
    """Move frames and time between socket and client until the client is done."""
    client.open(time.monotonic())
    while True:
        async with asyncio.timeout(SEND_WAIT_S):
            for frame in client.take():
                await socket.send(frame)
        if client.done:
            return
        display.progress(client.sent_s, length_s)
        try:
            async with asyncio.timeout(max(0.0, client.deadline() - time.monotonic())):
                received = await socket.recv()
        except TimeoutError:
            client.tick(time.monotonic())
            continue
        message = client.receive(received, time.monotonic())
        if message is not None:
            display.message(message)


async def _read_on(socket: ClientConnection, client: TalkClient, display: Display) -> None:
    """The socket is closed. What came before that is still to be read: it says why."""
    try:
        async with asyncio.timeout(CLOSE_WAIT_S):
            while True:
                message = client.receive(await socket.recv(), time.monotonic())
                if message is not None:
                    display.message(message)
    except (ConnectionClosed, TimeoutError):
        return


def _conclude(client: TalkClient, display: Display, out: Path | None) -> int:
    outcome: Outcome = client.outcome
    heard = client.listener.heard
    written = None
    if out is not None and heard:
        write_answer(out, heard, OUTPUT_HZ)
        written = str(out)
    display.finished(outcome, len(heard) / 2 / OUTPUT_HZ, written)
    if outcome.problem is not None:
        raise CommandError(outcome.problem, outcome.code or Exit.SERVER_ERROR)
    return int(outcome.code or Exit.OK)
