"""One open connection of a cascade: a listener, an answerer, and the two boxes between them and the outside."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from live_gateway.clock import Clock
from live_gateway.content import Blob, Content, FunctionResponse, Part, function_responses
from live_gateway.errors import BadAudioFrame, GatewayError, ModelError, SetupTimeout, UpstreamLost
from live_gateway.models.base import Model
from live_gateway.models.cascade.answerer import Answerer
from live_gateway.models.cascade.inbox import EndOfAudio, Inbox, Playing
from live_gateway.models.cascade.limits import CascadeLimits
from live_gateway.models.cascade.listener import Listener
from live_gateway.models.cascade.outbox import Outbox
from live_gateway.models.cascade.speaker import Speaker
from live_gateway.models.live import Activity, ConnectionNotice, LiveMessage, LiveSetup
from live_gateway.voice.local import LocalVoice
from live_gateway.voice.workers import Workers


class CascadeConnection:
    """Entered, it is a `LiveConnection`; left, it has no task any more. Made by `CascadeLiveModel.connect`."""

    def __init__(self, setup: LiveSetup, model: Model, voice: LocalVoice, workers: Workers, limits: CascadeLimits, clock: Clock) -> None:
        self._setup = setup
        self._model = model
        self._voice = voice
        self._workers = workers
        self._limits = limits
        self._clock = clock
        self._outbox = Outbox(limits.output_messages)
        self._inbox = Inbox(limits.input_s, limits.room_s)
        self._group = asyncio.TaskGroup()
        self._listening: asyncio.Task[None] | None = None
        self._answerer: Answerer
        self._listener: Listener

    async def __aenter__(self) -> Self:
        if not self._voice.loaded and self._setup.notify is not None:
            self._setup.notify(ConnectionNotice("loading_voice"))
        try:
            async with asyncio.timeout(self._limits.setup_s):
                voice = await self._voice.get()
                vad = await self._workers.light(voice.vad)
        except TimeoutError:
            raise SetupTimeout(f"the local voice was not loaded within {self._limits.setup_s:g} s; try again in a moment") from None
        past = await self._setup.history() if self._setup.history is not None else None
        await self._group.__aenter__()
        speaker = Speaker(self._setup, voice.tts, self._outbox, self._workers)
        self._answerer = Answerer(self._setup, self._model, speaker, self._outbox, self._group, self._limits)
        self._listener = Listener(self._setup, voice, vad, self._outbox, self._answerer, self._workers, self._clock)
        if past is not None:
            await self._answerer.remember(past)
        self._listening = self._group.create_task(self._listen(), name="cascade listener")
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._outbox.close()
        if self._listening is not None:
            self._listening.cancel()
        self._answerer.cancel()
        await self._group.__aexit__(None, None, None)

    async def _listen(self) -> None:
        try:
            await self._listener.run(self._inbox)
        except GatewayError as error:
            self._outbox.fail(error)
        except Exception as error:  # the edge of foreign detectors and recognisers
            failure = ModelError(f"the voice could not be heard ({type(error).__name__})")
            failure.__cause__ = error
            self._outbox.fail(failure)

    async def receive(self) -> LiveMessage | None:
        return await self._outbox.get()

    async def send_audio(self, pcm: bytes) -> None:
        if len(pcm) % 2:
            raise BadAudioFrame(f"{len(pcm)} bytes are no whole number of 16-bit samples")
        self._check_open()
        await self._inbox.put_audio(pcm)

    async def send_image(self, data: bytes, mime_type: str) -> None:
        self._check_open()
        self._listener.show(Part(inline_data=Blob(data=data, mime_type=mime_type)))

    async def send_content(self, content: Content) -> None:
        self._check_open()
        responses = function_responses(content)
        if responses:
            await self._answerer.respond(responses)
        if len(responses) < len(content.parts or ()):
            await self._answerer.ask(content)

    async def send_activity(self, activity: Activity) -> None:
        self._check_open()
        self._inbox.put_mark(activity)

    async def end_audio(self) -> None:
        self._check_open()
        self._inbox.put_mark(EndOfAudio())

    async def send_tool_responses(self, responses: Sequence[FunctionResponse]) -> None:
        self._check_open()
        await self._answerer.respond(responses)

    async def send_tool_update(self, response: FunctionResponse) -> None:
        self._check_open()
        await self._answerer.update(response)

    async def interrupt(self) -> None:
        await self._answerer.stop()

    def set_playing(self, playing: bool) -> None:
        self._answerer.playing = playing
        if not self._outbox.closed:
            self._inbox.put_mark(Playing(playing))

    def _check_open(self) -> None:
        if self._outbox.closed:
            raise UpstreamLost("the connection to the voice model has ended")
