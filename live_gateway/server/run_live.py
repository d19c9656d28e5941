"""`WS /run_live`: a live session for clients that speak google-adk's protocol.

The upgrade is answered when the live session is open, so that what goes wrong before is an HTTP answer; a model that takes longer than a
few seconds (a local voice that is still loading) is waited for behind an open socket. One task always reads, one sends, one holds the
session; whoever finds a reason to end sets the ending, all are cancelled, the model's side is closed, and the client is told why.
"""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from live_gateway.errors import GatewayError, NotSupported, PublicError, RateLimited, SessionNotFound, SetupTimeout, public_error
from live_gateway.live.items import Notice
from live_gateway.runner import Runner
from live_gateway.server.downlink import FAREWELL_S, Downlink
from live_gateway.server.event_frames import EventFrames, error_frame, notice_frame
from live_gateway.server.gateway import GONE, Ending, Gateway
from live_gateway.server.limits import CONTROL_BURST, CONTROL_PER_S, AudioMeter, TokenBucket
from live_gateway.server.live_request import Audio, LiveRequest, RunLiveQuery, audio_of, parse_query, parse_request
from live_gateway.server.live_socket import FULL, TAKEN_OVER
from live_gateway.server.outgoing import Message, encode, error
from live_gateway.server.rest.problems import Refused, problem_response
from live_gateway.server.rest.run import runner_of, session_not_found
from live_gateway.server.run_live_input import RunLiveInput
from live_gateway.telemetry import get_logger

log = get_logger(__name__)

MAX_TEXT: Final = 4 * 2**20
LARGE: Final = 64 * 2**10
"""Characters beyond which a frame is parsed in a thread, so that one client's image holds up nobody's audio."""
OPEN_S: Final = 5.0
"""How long the answer to the upgrade may wait for the session."""
_LEAVING: Final = {
    "drain": "The server is going down; connect again.",
    TAKEN_OVER.code: TAKEN_OVER.message,
}
_QUIET: Final = frozenset({1000, 1009})
"""Close codes that nothing is said about before."""


class RunLiveSocket:
    """One connection of one client."""

    def __init__(self, websocket: WebSocket, gateway: Gateway) -> None:
        now = gateway.clock.now()
        self.gone = asyncio.Event()
        self._websocket = websocket
        self._gateway = gateway
        self._clock = gateway.clock
        self._settled = asyncio.Event()
        self._ended = asyncio.Event()
        self._ending = GONE
        self._problem: BaseException | None = None
        self._accepted = False
        self._author = ""
        self._input: RunLiveInput
        self._downlink = Downlink(websocket, gateway.clock, gateway.config.send_s, self.end)
        self._control = TokenBucket(CONTROL_PER_S, CONTROL_BURST, now)
        self._audio = AudioMeter(now)

    async def serve(self) -> None:
        """The whole life of the connection. Raises nothing that the client did."""
        try:
            query = parse_query(self._websocket.query_params)
            runner = runner_of(self._gateway, query.app_name)
            if query.config.save_live_blob and runner.artifact_service is None:
                raise NotSupported("save_live_blob: this server has no place to keep files in; leave it out.")
            if self._gateway.draining or self._gateway.full:
                raise Refused(FULL.http_status, FULL.message, FULL.code)
        except GatewayError as problem:
            await self._deny(problem)
            return
        self._gateway.add(self)
        try:
            await self._run(runner, query)
        except Exception as problem:  # the edge: a defect of ours ends this connection, with a close frame
            log.error("run_live_failed", problem)
            self._fail(problem)
        finally:
            self._gateway.remove(self)
        await self._farewell(self._ending)

    def end(self, ending: Ending) -> None:
        """End the connection; the first ending counts."""
        if not self._ended.is_set():
            self._ending = ending
            self._ended.set()
            self._settled.set()

    def tell(self, message: Message) -> None:
        """Send the client a message: of what the native protocol says, notices only."""
        if message["type"] == "notice":
            self._notice(Notice(message["level"], message["code"], message["params"]))

    async def _run(self, runner: Runner, query: RunLiveQuery) -> None:
        self._author = runner.agent.name
        self._input = RunLiveInput(runner.session_service, self._refuse)
        await self._websocket.receive()  # the request to connect
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._read(), name="read"),
                group.create_task(self._converse(runner, query), name="converse"),
            ]
            await self._opened()
            if not self._ended.is_set():
                await self._websocket.accept()
                self._accepted = True
                tasks.append(group.create_task(self._downlink.run(), name="send"))
                tasks.append(group.create_task(self._downlink.watch(), name="watch sending"))
                await self._ended.wait()
            for task in tasks:
                task.cancel()

    async def _opened(self) -> None:
        """Wait until the session is open or cannot be opened, but not for long."""
        try:
            async with asyncio.timeout(OPEN_S):
                await self._settled.wait()
        except TimeoutError:
            return

    # The client's side.

    async def _read(self) -> None:
        while not self._ended.is_set():
            event = await self._websocket.receive()
            if event["type"] == "websocket.disconnect":
                self.end(GONE)
                return
            text, data = event.get("text"), event.get("bytes")
            if len(text or data or b"") > MAX_TEXT:
                self.end(Ending(1009, "message_too_big"))
                return
            try:
                self._take(await _parsed(text) if text is not None else LiveRequest(realtime=audio_of(data or b"")))
            except GatewayError as problem:  # what it was about is answered, and the next frame is read
                self._refuse(problem)

    def _take(self, request: LiveRequest) -> None:
        if not isinstance(request.realtime, Audio) or request.content is not None or request.state_delta is not None:
            if self._within_limit():
                self._input.take(request)
            return
        verdict = self._audio.take(len(request.realtime.pcm) // 2, self._clock.now())
        if verdict.over:
            self._fail(RateLimited("Audio has come faster than real time for too long."))
        elif verdict.announce:
            self._notice(Notice("warning", "rate_limited", {"what": "audio"}))
        if verdict.accepted or request.close:
            self._input.take(request)

    def _refuse(self, problem: Exception) -> None:
        """Answer what cannot be accepted, and go on, unless it has been too much."""
        if self._within_limit():
            self._downlink.relay(error_frame(public_error(problem), self._author))

    def _within_limit(self) -> bool:
        if within := self._control.take(1, self._clock.now()):
            return within
        self._fail(RateLimited(f"More than {CONTROL_PER_S:.0f} messages a second."))
        return False

    # The live session.

    async def _converse(self, runner: Runner, query: RunLiveQuery) -> None:
        try:
            await self._hold_session(runner, query)
        except Exception as problem:  # the edge: the session could not be opened, or ended in a way that nobody handled
            if not isinstance(problem, GatewayError):
                log.error("run_live_failed", problem)
            self._fail(session_not_found(query.session_id) if isinstance(problem, SessionNotFound) and not self._accepted else problem)

    async def _hold_session(self, runner: Runner, query: RunLiveQuery) -> None:
        key = (runner.app_name, query.user_id, query.session_id)
        await self._gateway.drive(key, self, Ending(TAKEN_OVER.close_code, TAKEN_OVER.code, encode(error(TAKEN_OVER, fatal=True))))
        config = self._gateway.recorded(query.config)
        live = runner.run_live(user_id=query.user_id, session_id=query.session_id, config=config, on_notice=self._notice)
        limit = asyncio.timeout(self._gateway.config.setup_s)
        try:
            async with limit, live:
                limit.reschedule(None)
                self._author = live.agent.name
                self._downlink.follow(live, EventFrames(live.agent.name, live.invocation_id, standard_base64=query.standard_base64))
                log.info("run_live_opened", session=query.session_id, app=runner.app_name, agent=live.agent.name, model=live.model_name)
                self._settled.set()
                await self._input.run(live)
                await live.close()
                await self._ended.wait()
        except TimeoutError:
            if not limit.expired():
                raise
            raise SetupTimeout(f"The model was not ready within {self._gateway.config.setup_s:.0f} seconds.") from None

    def _notice(self, item: Notice) -> None:
        self._downlink.relay(notice_frame(item.level, item.code, item.params, self._author))

    # The end.

    def _fail(self, problem: BaseException) -> None:
        while isinstance(problem, BaseExceptionGroup) and len(problem.exceptions) == 1:
            problem = problem.exceptions[0]
        public = public_error(problem)
        if not self._ended.is_set():
            self._problem = problem
        self.end(Ending(public.close_code, public.code, error_frame(public, self._author, fatal=True)))

    async def _deny(self, problem: BaseException) -> None:
        await self._websocket.send_denial_response(problem_response(problem))

    async def _farewell(self, ending: Ending) -> None:
        if self._accepted or not ending.polite:
            await self._downlink.farewell(ending, self._last_frame(ending))
            return
        try:
            async with asyncio.timeout(FAREWELL_S):
                await self._deny(self._problem or Refused(503, _LEAVING.get(ending.word, FULL.message), ending.word))
        except (TimeoutError, OSError, RuntimeError, WebSocketDisconnect):
            await self._downlink.farewell(GONE, None)

    def _last_frame(self, ending: Ending) -> str | None:
        """What is said before the close frame: ours, or in our form what another part of the server gave as the reason."""
        if self._problem is not None or ending.code in _QUIET:
            return ending.frame if self._problem is not None else None
        if ending.word not in _LEAVING:
            return None  # the session's own failure, which was said among its items
        leaving = PublicError(ending.word, _LEAVING[ending.word], ending.code < 4500, ending.code, 503)
        return error_frame(leaving, self._author, fatal=True)


async def _parsed(text: str) -> LiveRequest:
    return parse_request(text) if len(text) <= LARGE else await asyncio.to_thread(parse_request, text)
