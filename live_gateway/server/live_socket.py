"""`WS /live`: one client, one live session, one task group.

One task always reads (a server that does not read cannot see a pong, or that the client has left), one sends, one holds the live session
and carries what the client says. Whoever finds a reason to end sets the ending; then all tasks are cancelled, the model's side is closed,
and the client is told why.
"""

from __future__ import annotations

import asyncio

from starlette.responses import JSONResponse
from starlette.websockets import WebSocket

from live_gateway.agents.config import LiveRunConfig
from live_gateway.errors import BadMessage, GatewayError, NotSupported, PublicError, RateLimited, SetupTimeout, public_error
from live_gateway.live.items import Notice
from live_gateway.live.session import LiveSession
from live_gateway.models.live import VoiceActivityConfig
from live_gateway.runner import Runner
from live_gateway.server.client_input import ClientInput
from live_gateway.server.downlink import Downlink
from live_gateway.server.duration import limited
from live_gateway.server.gateway import DONE, GONE, Ending, Gateway
from live_gateway.server.limits import CONTROL_BURST, CONTROL_PER_S, AudioMeter, TokenBucket
from live_gateway.server.messages import MAX_PARTS, Bye, ClientConfig, Hello, TranscriptionConfig, VadConfig, parse_message, subject_of
from live_gateway.server.outgoing import Message, Outgoing, ack, encode, error, notice, welcome
from live_gateway.server.wire import MAX_IMAGE, MAX_MESSAGE, MAX_PAYLOAD, SUBPROTOCOL, Kind, unpack_frame
from live_gateway.telemetry import get_logger

log = get_logger(__name__)

ANONYMOUS = "user"
"""Whose sessions these are when a client does not say who it is."""
FEATURES = ["playback", "events", "ptt", "images"]
NOT_OFFERED = ("ticket", "resume", "last_seq", "playing")
"""Fields of hello that are known and do nothing here, of which a client is told so."""
CHUNK_MS = 40
MAX_BAD_FRAMES = 10

TAKEN_OVER = PublicError("taken_over", "The session was opened by another connection.", retryable=False, close_code=4506, http_status=409)
FULL = PublicError("overload", "This server holds as many live sessions as it can.", retryable=True, close_code=1013, http_status=503)


class LiveSocket:
    """One connection of one client."""

    def __init__(self, websocket: WebSocket, gateway: Gateway) -> None:
        now = gateway.clock.now()
        self.gone = asyncio.Event()
        self._websocket = websocket
        self._gateway = gateway
        self._clock = gateway.clock
        self._ended = asyncio.Event()
        self._ending = GONE
        self._greeted = asyncio.Event()
        self._hello: Hello | None = None
        self._input: ClientInput | None = None
        self._downlink = Downlink(websocket, gateway.clock, gateway.config.send_s, self.end)
        self._control = TokenBucket(CONTROL_PER_S, CONTROL_BURST, now)
        self._audio = AudioMeter(now)
        self._bad_frames = 0

    async def serve(self) -> None:
        """The whole life of the connection. Raises nothing that the client did."""
        if not await self._accept():
            return
        self._gateway.add(self)
        try:
            await self._run()
        except Exception as problem:  # the edge: a defect of ours ends this connection, with a close frame
            log.error("live_socket_failed", problem)
            self._ending = _failed(problem)
        finally:
            self._gateway.remove(self)
        await self._downlink.farewell(self._ending, self._ending.frame)

    def end(self, ending: Ending) -> None:
        """End the connection; the first ending counts."""
        if not self._ended.is_set():
            self._ending = ending
            self._ended.set()

    def tell(self, message: Message) -> None:
        """Send the client a message."""
        self._downlink.say(message)

    async def _accept(self) -> bool:
        offered = self._websocket.scope.get("subprotocols") or []
        if offered and SUBPROTOCOL not in offered:
            problem = PublicError("subprotocol_unsupported", f"This endpoint speaks {SUBPROTOCOL}.", False, 4512, 400)
        elif self._gateway.draining or self._gateway.full:
            problem = FULL
        else:
            await self._websocket.accept(SUBPROTOCOL if offered else None)
            return True
        body = {"error": {"code": problem.code, "message": problem.message}}
        await self._websocket.send_denial_response(JSONResponse(body, problem.http_status))
        return False

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._read(), name="read"),
                group.create_task(self._downlink.run(), name="send"),
                group.create_task(self._downlink.watch(), name="watch sending"),
                group.create_task(self._converse(), name="converse"),
            ]
            await self._ended.wait()
            for task in tasks:
                task.cancel()

    # The client's side.

    async def _read(self) -> None:
        while not self._ended.is_set():
            event = await self._websocket.receive()
            if event["type"] == "websocket.disconnect":
                self.end(GONE)
                return
            text, data = event.get("text"), event.get("bytes")
            if len(text or data or b"") > MAX_MESSAGE:
                self.end(Ending(1009, "message_too_big"))
                return
            try:
                if text is not None:
                    self._text(text)
                elif data is not None:
                    self._binary(data)
            except GatewayError as problem:  # what it was about is answered, and the next message is read
                self._refuse(problem, text)

    def _text(self, text: str) -> None:
        if not self._control.take(1, self._clock.now()):
            raise RateLimited(f"More than {CONTROL_PER_S:.0f} messages a second.")
        message = parse_message(text)
        if isinstance(message, Bye) and not self._downlink.welcomed:
            self.end(DONE)
        elif self._input is not None:
            self._input.message(message)
        elif isinstance(message, Hello):
            self._input = ClientInput(self._downlink.say, self._clock, message.input)
            self._hello = message
            if unused := [name for name in NOT_OFFERED if getattr(message, name) is not None]:
                self._downlink.say(error(public_error(NotSupported(f"hello: this server does not carry out {', '.join(unused)}."))))
            self._greeted.set()
        else:
            raise BadMessage("The first message is hello.")

    def _binary(self, data: bytes) -> None:
        frame = unpack_frame(data)
        if self._input is None:
            raise BadMessage("The first message is hello.")
        samples = len(frame.payload) // 2 if frame.kind is Kind.AUDIO_UP else 0
        verdict = self._audio.take(samples, self._clock.now())
        if verdict.accepted:
            self._bad_frames = 0
            self._input.frame(frame)
        elif verdict.over:
            raise RateLimited("Audio has come faster than real time for too long.")
        elif verdict.announce:
            self._downlink.say(notice("warning", "rate_limited", {"what": "audio"}))

    def _refuse(self, problem: GatewayError, text: str | None) -> None:
        """Answer what cannot be accepted, and go on, unless it was the hello or it has been too much."""
        subject, message_id = subject_of(text) if text is not None else (None, None)
        fatal = isinstance(problem, RateLimited) or (subject == "hello" and self._input is None)
        if text is None:
            self._bad_frames += 1
            fatal = fatal or self._bad_frames >= MAX_BAD_FRAMES
        if fatal:
            self.end(_failed(problem))
            return
        self._downlink.say(error(public_error(problem), ref=message_id))
        if message_id is not None:
            self._downlink.say(ack(message_id, "not_delivered"))

    # The live session.

    async def _converse(self) -> None:
        try:
            await self._hold_session()
        except Exception as problem:  # the edge: the session could not be opened, or ended in a way that nobody handled
            if not isinstance(problem, GatewayError):
                log.error("live_failed", problem)
            self.end(_failed(problem))

    async def _hold_session(self) -> None:
        hello = await self._await_hello()
        assert self._input is not None
        runner = self._gateway.runner(hello.app)
        user = hello.user or ANONYMOUS
        session_id = hello.session or await _new_session(runner, user)
        taken_over = Ending(TAKEN_OVER.close_code, TAKEN_OVER.code, encode(error(TAKEN_OVER, fatal=True)))
        await self._gateway.drive((runner.app_name, user, session_id), self, taken_over)
        live = runner.run_live(
            user_id=user,
            session_id=session_id,
            config=self._gateway.recorded(run_config(hello)),
            yield_user_message=True,
            on_notice=self._notice,
        )
        limit = asyncio.timeout(self._gateway.config.setup_s)
        try:
            async with limit, live:
                limit.reschedule(None)
                self._welcome(hello, live)
                with limited(self, self._gateway.config.duration_s):
                    await self._input.run(live)
                    await live.last_words()
                await live.close()
                await self._ended.wait()
        except TimeoutError:
            if not limit.expired():
                raise
            raise SetupTimeout(f"The model was not ready within {self._gateway.config.setup_s:.0f} seconds.") from None

    async def _await_hello(self) -> Hello:
        try:
            async with asyncio.timeout(self._gateway.config.hello_s):
                await self._greeted.wait()
        except TimeoutError:
            raise SetupTimeout(f"hello was due within {self._gateway.config.hello_s:.0f} seconds.") from None
        assert self._hello is not None
        return self._hello

    def _welcome(self, hello: Hello, live: LiveSession) -> None:
        session = live.session
        self._downlink.say(
            welcome(
                session=session.id,
                model=live.model_name,
                head_seq=session.head_seq,
                acks=[ack(message_id, "unknown") for message_id in hello.pending],
                limits=_LIMITS,
                features=FEATURES,
            )
        )
        self._downlink.follow(live, Outgoing(session.id, live.effects, events="events" in hello.caps))
        log.info("live_opened", session=session.id, app=session.app_name, agent=live.agent.name, model=live.model_name)

    def _notice(self, item: Notice) -> None:
        self._downlink.say(notice(item.level, item.code, item.params))


async def _new_session(runner: Runner, user: str) -> str:
    session = await runner.session_service.create(app_name=runner.app_name, user_id=user)
    return session.id


def run_config(hello: Hello) -> LiveRunConfig:
    """What the client asked for in its hello, as the runner takes it."""
    asked = hello.config or ClientConfig()
    vad = asked.vad or VadConfig()
    transcription = asked.transcription or TranscriptionConfig()
    return LiveRunConfig(
        modality=asked.modalities[0] if asked.modalities else "AUDIO",
        voice=asked.voice,
        language=asked.language or hello.lang,
        voice_activity=VoiceActivityConfig(
            automatic=hello.input == "hands_free",
            silence_duration_ms=_usual.silence_duration_ms if vad.silence_ms is None else vad.silence_ms,
            prefix_padding_ms=_usual.prefix_padding_ms if vad.prefix_ms is None else vad.prefix_ms,
            interrupts=_usual.interrupts if vad.interrupts is None else vad.interrupts,
        ),
        input_transcription=transcription.input,
        output_transcription=transcription.output,
        playback_marks="playback" in hello.caps,
    )


def _failed(problem: BaseException) -> Ending:
    """The ending that an error deserves: an error frame, and the close code of the table."""
    while isinstance(problem, BaseExceptionGroup) and len(problem.exceptions) == 1:
        problem = problem.exceptions[0]
    public = public_error(problem)
    return Ending(public.close_code, public.code, encode(error(public, fatal=True)))


_usual = VoiceActivityConfig()
_LIMITS = {
    "text_bytes": MAX_MESSAGE,
    "frame_bytes": MAX_PAYLOAD,
    "image_bytes": MAX_IMAGE,
    "parts": MAX_PARTS,
    "chunk_ms": CHUNK_MS,
    "control_per_s": int(CONTROL_PER_S),
    "control_burst": int(CONTROL_BURST),
}
