"""Answers the user: asks the text model, lets its calls be answered, speaks sentence by sentence."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from live_gateway.content import Content, FunctionCall, FunctionResponse, Part, function_calls, model_content, text_of
from live_gateway.errors import GatewayError, ModelError, facts
from live_gateway.models.base import Model, ModelRequest, ModelResponse
from live_gateway.models.cascade.history import PENDING, History
from live_gateway.models.cascade.limits import CascadeLimits
from live_gateway.models.cascade.outbox import Outbox
from live_gateway.models.live import (
    AudioOut,
    ConnectionNotice,
    ContentOut,
    GenerationComplete,
    Grounding,
    Interrupted,
    LiveSetup,
    TextOut,
    ToolCalls,
    ToolCallsCancelled,
    Transcript,
    TurnComplete,
    Usage,
)
from live_gateway.voice.base import OUTPUT_HZ
from live_gateway.voice.base import TextToSpeech
from live_gateway.voice.sentences import SentenceSplitter
from live_gateway.voice.workers import Workers

CHUNK_BYTES = OUTPUT_HZ // 1000 * 40 * 2
"""40 ms of audio."""
REMEMBERED_CHARS = 4_000
"""How much of what was spoken is kept to recognise its echo."""
UNABLE = "Sorry, I could not get an answer."
"""Said when the text model fails, so that a listener without a screen knows."""


@dataclass(slots=True)
class _Answer:
    """One turn of the model. `said`: what was spoken since the model was last asked. `samples`: how much was spoken in all."""

    number: int
    said: str = ""
    samples: int = 0
    transcript_open: bool = False
    calls: tuple[FunctionCall, ...] = ()
    responses: dict[str, FunctionResponse] = field(default_factory=dict)
    complete: asyncio.Event = field(default_factory=asyncio.Event)


class Answerer:
    """The answering half of one connection. One answer at a time; `group` holds its task."""

    def __init__(
        self, setup: LiveSetup, model: Model, tts: TextToSpeech, outbox: Outbox, workers: Workers, group: asyncio.TaskGroup, limits: CascadeLimits
    ) -> None:
        self._setup = setup
        self._model = model
        self._tts = tts
        self._outbox = outbox
        self._workers = workers
        self._group = group
        self._limits = limits
        self._history = History(limits.history)
        self._answer: _Answer | None = None
        self._task: asyncio.Task[None] | None = None
        self._queue: list[Content] = []
        self._late: dict[str, None] = {}
        self._spoken = ""
        self.playing = False

    @property
    def busy(self) -> bool:
        """Whether an answer is being made, or was made and not taken to its end."""
        return self._outbox.answering != 0

    @property
    def spoken(self) -> str:
        """What a listener may hear now, or has just heard: its echo is not the user."""
        return self._spoken

    async def ask(self, content: Content) -> None:
        """A message of the user. It stops the answer that is being made, unless nothing may interrupt: then it waits for its turn."""
        if self.busy and not self._setup.voice_activity.interrupts:
            self._queue.append(content)
            return
        await self.stop()
        self._history.add(content)
        self._begin()

    async def stop(self) -> None:
        """Stop the answer that is being made, if there is one. Calls without an answer are cancelled."""
        answer = self._answer
        if not self.busy:
            return
        self._outbox.discard()
        if self._task is not None:
            self._task.cancel()
        cancelled: list[str] = []
        if answer is not None:
            self._answer = None
            self._history.said(answer.said)
            if answer.calls:
                cancelled = [call.id or "" for call in answer.calls if call.id not in answer.responses]
                self._history.answered(answer.calls, answer.responses, {"error": "cancelled, because the user interrupted"})
        if cancelled:
            await self._outbox.put(ToolCallsCancelled(tuple(cancelled)))
        await self._outbox.put(Interrupted())
        if self._queue:
            self._next()

    async def respond(self, responses: Sequence[FunctionResponse]) -> None:
        """Answers to calls: of the answer that waits for them, or late ones. Anything else is nobody's and dropped."""
        answer = self._answer
        late = [response for response in responses if response.id in self._late]
        for response in responses:
            if answer is not None and any(call.id == response.id for call in answer.calls):
                answer.responses[response.id or ""] = response
        if answer is not None and answer.calls and len(answer.responses) == len(answer.calls):
            answer.complete.set()
        if late:
            for response in late:
                del self._late[response.id or ""]
            await self.stop()
            self._history.answered_late(late)
            self._begin()

    def _begin(self) -> None:
        if not self.playing:
            self._spoken = ""
        self._answer = answer = _Answer(self._outbox.begin_answer())
        self._task = self._group.create_task(self._run(answer), name="cascade answer")

    def _next(self) -> None:
        queue, self._queue = self._queue, []
        for content in queue:
            self._history.add(content)
        self._begin()

    async def _run(self, answer: _Answer) -> None:
        try:
            try:
                reason = await self._converse(answer)
            except ModelError as error:
                if not facts(error).retryable:
                    raise
                reason = await self._apologise(answer, error)
            await self._finish(answer, reason)
        except GatewayError as error:
            self._outbox.fail(error)
        except Exception as error:  # the edge of foreign models and synthesisers
            failure = ModelError(f"the answer could not be made ({type(error).__name__})")
            failure.__cause__ = error
            self._outbox.fail(failure)

    async def _converse(self, answer: _Answer) -> str | None:
        """Ask the model, and again after each round of calls. The reason for an unusual end of the turn."""
        for _ in range(self._limits.rounds):
            calls = await self._ask_model(answer)
            if not calls:
                return None
            if not await self._await_tools(answer, calls):
                return "tools_pending"
        return await self._apologise(answer, ModelError("the model called tools again and again"))

    async def _ask_model(self, answer: _Answer) -> tuple[FunctionCall, ...]:
        request = ModelRequest(
            contents=self._history.contents(),
            instruction=self._setup.instruction,
            tools=self._setup.tools,
            config=self._setup.config,
            stream=True,
        )
        splitter = SentenceSplitter()
        streamed, whole = False, None
        async with aclosing(self._pieces(request)) as pieces:
            async for response in pieces:
                text = text_of(response.content)
                if response.partial:
                    streamed = True
                    await self._say(answer, splitter, text, last=False)
                else:
                    whole = response.content
                    await self._say(answer, splitter, "" if streamed else text, last=True)
                    await self._report(answer, response)
        calls = tuple(_with_id(call) for call in function_calls(whole))
        parts = [Part(text=text) for text in [text_of(whole)] if text] + [Part(function_call=call) for call in calls]
        answer.said = ""
        if parts:
            self._history.add(model_content(parts))
        return calls

    async def _pieces(self, request: ModelRequest):  # type: ignore[no-untyped-def]  # noqa: ANN202
        raise NotImplementedError
        yield

    async def _report(self, answer: _Answer, response: ModelResponse) -> None:
        if response.usage is not None:
            await self._outbox.put(Usage(response.usage), answer.number)
        if response.grounding_metadata is not None:
            await self._outbox.put(Grounding(response.grounding_metadata), answer.number)
        rest = [part for part in (response.content.parts or () if response.content else ()) if part.inline_data or part.executable_code]
        if rest:
            await self._outbox.put(ContentOut(model_content(rest)), answer.number)
