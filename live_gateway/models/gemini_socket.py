"""One WebSocket to Gemini Live, from the dial to the close. Everything that ends it is a `Loss`, raised as `LinkLost`.

No pings of our own: the service's answers to them were seen to take 8 to 30 s on healthy connections. No compression. Closing waits a
second for the other side and then drops the transport.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import re
import ssl
from collections import deque
from typing import Final
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import broadcast
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.protocol import State

from live_gateway.errors import ModelUnavailable
from live_gateway.models.gemini_address import Address
from live_gateway.models.gemini_inbound import BadFrame, GeminiInbound, Inbound, Refusal, SetupComplete
from live_gateway.models.gemini_reconnect import Loss

SETUP_S: Final = 10.0
CLOSE_S: Final = 1.0
MAX_FRAME: Final = 16 * 1024 * 1024
MAX_UNREAD: Final = 512
"""Frames that may wait to be read before the socket is no longer read from."""
MAX_UNSENT: Final = 16 * 1024
"""Bytes that may wait to be sent while more is sent without waiting for them."""
_USER_AGENT: Final = "live-gateway"
_QUOTA: Final = re.compile(r"RESOURCE_EXHAUSTED|quota", re.IGNORECASE)
_NOT_LIVE: Final = re.compile(r"not (?:found|supported).*bidiGenerateContent", re.IGNORECASE)
"""No code of its own says so: such closes have 1007 or 1008, as many others do."""
_MAX_REASON: Final = 120


class LinkLost(Exception):
    """The connection has ended, or could not be made."""

    def __init__(self, loss: Loss) -> None:
        super().__init__(str(loss))
        self.loss = loss


class Link:
    """An open connection whose set-up is complete."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.early: deque[Inbound] = deque()
        """What came together with the set-up's completion."""

    @classmethod
    async def open(
        cls, address: Address, setup: bytes, inbound: GeminiInbound, *, tls: ssl.SSLContext | None = None, setup_s: float = SETUP_S
    ) -> Link:
        """Dial, send the set-up, wait until the model is ready: all within `setup_s` seconds. Raises `LinkLost`."""
        link: Link | None = None
        try:
            async with asyncio.timeout(setup_s):
                link = cls(await _dial(address, tls))
                await link.send(setup)
                await link._until_ready(inbound)
        except TimeoutError:
            await _drop(link)
            raise LinkLost(Loss("timeout")) from None
        except BaseException:
            await _drop(link)
            raise
        return link

    async def receive(self) -> bytes:
        """The next frame, text or binary. Cancelling loses none. Raises `LinkLost`."""
        try:
            return await self._socket.recv(decode=False)
        except ConnectionClosed as closed:
            raise LinkLost(self._loss(closed)) from None

    async def send(self, message: bytes) -> None:
        """Send JSON as a text frame. Raises `LinkLost`; the message may have arrived or not."""
        try:
            await self._socket.send(message, text=True)
        except ConnectionClosed as closed:
            raise LinkLost(self._loss(closed)) from None

    def take(self, message: bytes) -> bool:
        """Send ASCII JSON as a text frame, if nobody has to wait for it; False, and nothing was done, while much waits or once the
        connection has ended."""
        socket = self._socket
        if socket.state is not State.OPEN or socket.transport.get_write_buffer_size() > MAX_UNSENT:
            return False
        broadcast((socket,), message.decode("ascii"))  # the one way to send without waiting
        return True

    def abort(self) -> None:
        """Drop the connection at once."""
        self._socket.transport.abort()

    async def close(self) -> None:
        """Close in an orderly way; a peer that does not answer is waited for a second."""
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._socket.close()
        except TimeoutError:
            self.abort()

    async def _until_ready(self, inbound: GeminiInbound) -> None:
        ready, refusal = False, None
        while not ready:
            try:
                messages = inbound.decode(await self.receive())
            except BadFrame:
                raise LinkLost(Loss("closed", 1002, "the set-up was answered by something that is no JSON")) from None
            except LinkLost as lost:
                if refusal is None:
                    raise
                loss = dataclasses.replace(lost.loss, reason=lost.loss.reason or refusal.status, quota=lost.loss.quota or refusal.quota)
                raise LinkLost(loss) from None
            for message in messages:
                ready = ready or isinstance(message, SetupComplete)
                refusal = message if isinstance(message, Refusal) else refusal
                self.early.append(message)

    @staticmethod
    def _loss(closed: ConnectionClosed) -> Loss:
        frame = closed.rcvd
        code, reason = (frame.code, frame.reason) if frame is not None else (1006, "")
        quota, not_live = _QUOTA.search(reason) is not None, _NOT_LIVE.search(reason) is not None
        return Loss("closed", code, _printable(reason), quota=quota, not_live=not_live)


async def _dial(address: Address, tls: ssl.SSLContext | None) -> ClientConnection:
    parts = urlsplit(address.uri)
    local = parts.scheme == "ws"
    context = None if local else tls or await asyncio.to_thread(_default_context)
    try:
        return await connect(
            address.uri,
            additional_headers=address.headers,
            user_agent_header=_USER_AGENT,
            compression=None,
            ping_interval=None,
            max_size=MAX_FRAME,
            max_queue=MAX_UNREAD,
            open_timeout=None,
            close_timeout=CLOSE_S,
            proxy=None if local else True,
            ssl=context,
        )
    except InvalidURI as error:
        raise ModelUnavailable(f"the model's address is none: {error.uri}") from error
    except InvalidStatus as error:
        raise LinkLost(Loss("refused", error.response.status_code)) from None
    except ssl.SSLCertVerificationError as error:
        raise LinkLost(Loss("refused", reason=f"its certificate is not trusted ({error.verify_message})")) from None
    except (OSError, EOFError, InvalidHandshake) as error:
        raise LinkLost(Loss("refused", reason=type(error).__name__)) from None


async def _drop(link: Link | None) -> None:
    if link is not None:
        link.abort()


@functools.cache
def _default_context() -> ssl.SSLContext:
    """Reading the certificates takes tens of milliseconds: done once, in a thread."""
    return ssl.create_default_context()


def _printable(reason: str) -> str:
    return re.sub(r"[^ -~]+", " ", reason)[:_MAX_REASON].strip()
