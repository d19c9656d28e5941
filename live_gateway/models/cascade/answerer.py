"""Answers the user: asks the text model, lets its calls be answered, and has what it says spoken."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence

from live_gateway.content import (
    Content,
    FunctionCall,
    FunctionResponse,
    FunctionResponseScheduling,
    Part,
    function_calls,
    model_content,
    text_of,
)
from live_gateway.errors import GatewayError, ModelError, facts
from live_gateway.models.base import Model, ModelRequest, ModelResponse
from live_gateway.models.cascade.history import History
from live_gateway.models.cascade.late import LateAnswers
from live_gateway.models.cascade.limits import CascadeLimits
from live_gateway.models.cascade.outbox import Outbox
from live_gateway.models.cascade.speaker import Answer, Speaker
from live_gateway.models.live import (
    ConnectionNotice,
    ContentOut,
    GenerationComplete,
    Grounding,
    Interrupted,
    LiveSetup,
    SpeechStarted,
    ToolCalls,
    TurnComplete,
    Usage,
)
from live_gateway.models.live import History as Past
from live_gateway.voice.reference import EchoReference

UNABLE = "Sorry, I could not get an answer."
"""Said when the text model fails, so that a listener without a screen knows."""


class Answerer:
    """The answering half of one connection. One answer at a time; `group` holds its task."""

    def __init__(
        self, setup: LiveSetup, model: Model, speaker: Speaker, outbox: Outbox, group: asyncio.TaskGroup, limits: CascadeLimits
    ) -> None:
        self._setup = setup
        self._model = model
        self._speaker = speaker
        self._outbox = outbox
        self._group = group
        self._limits = limits
        self._history = History(limits.history)
        self._answer: Answer | None = None
        self._task: asyncio.Task[None] | None = None
        self._queue: list[Content] = []
        self._late = LateAnswers(self._history)
        self._user_speaks = False
        self.playing = False

    @property
    def busy(self) -> bool:
        """Whether an answer is being made, or was made and not taken to its end."""
        return self._outbox.answering != 0

    @property
    def spoken(self) -> str:
        """What the user may hear now, or has just heard: its echo is not the user's speech."""
        return self._speaker.spoken

    @property
    def reference(self) -> EchoReference:
        """What that sounds like."""
        return self._speaker.reference

    async def ask(self, content: Content) -> None:
        """A message of the user. It stops the answer that is being made; where nothing may interrupt, it waits for its turn instead."""
        self._user_speaks = False
        if self.busy and not self._setup.voice_activity.interrupts:
            self._queue.append(content)
            return
        while self.busy:  # again, where something else made another begin meanwhile
            await self._halt()
        self._history.add(content)
        self._begin()

    async def remember(self, past: Past) -> None:
        """What was said before this connection. The model speaks by itself only where the user's last message has no answer."""
        contents = list(past.contents)
        asked = contents.pop() if past.unanswered and contents else None
        for content in contents:
            self._history.add(content)
        if asked is not None:
            await self.ask(asked)

    async def speech_began(self) -> None:
        """The user speaks, and that may interrupt: say so. What waits of an answer is thrown away first, so that nothing holds it up."""
        self._user_speaks = True
        if self.busy:
            await self._halt(SpeechStarted())
        else:
            await self._outbox.put(SpeechStarted())

    def nothing_said(self) -> None:
        """What the user spoke was nothing that is asked about."""
        self._user_speaks = False
        self._next()

    async def stop(self) -> None:
        """Stop the answer that is being made, if there is one. Calls that have no answer yet go on."""
        await self._halt()
        if self._queue:
            self._next()

    async def respond(self, responses: Sequence[FunctionResponse]) -> None:
        """Answers to calls: those that are waited for, or late ones, which are spoken about once nobody speaks. Any others are dropped."""
        answer = self._answer
        wanted = {call.id for call in answer.calls} if answer is not None else set()
        for response in responses:
            if answer is not None and response.id in wanted:
                answer.responses[response.id or ""] = response
            else:
                self._late.answer(response)
        if answer is not None and wanted and len(answer.responses) == len(wanted):
            answer.complete.set()
        self._next()

    async def update(self, response: FunctionResponse) -> None:
        """More of a call that was answered already: spoken about like a late answer, of several the newest, or at once if it says so."""
        answer = self._answer
        if answer is not None and response.id in {call.id for call in answer.calls}:
            answer.responses[response.id or ""] = response  # beside other calls of its message, which are waited for
            return
        self._late.add(response)
        if response.scheduling == FunctionResponseScheduling.INTERRUPT and not self._user_speaks:
            await self._halt()
        self._next()

    def cancel(self) -> None:
        """The connection ends: no more answers."""
        self._queue.clear()
        if self._task is not None:
            self._task.cancel()

    async def _halt(self, reason: SpeechStarted | None = None) -> None:
        """Stop the answer, and begin nothing. `reason` is said first."""
        if not self.busy:
            return
        if self._task is not None:
            self._task.cancel()
        answer, self._answer = self._answer, None
        await self._outbox.discard()
        if reason is not None:
            await self._outbox.put(reason)
        if answer is not None:
            self._history.said(answer.said)
            self._leave_calls(answer)
        await self._outbox.put(Interrupted())

    def _begin(self) -> None:
        if not self.playing:
            self._speaker.forget()
        self._answer = answer = Answer(self._outbox.begin_answer())
        self._task = self._group.create_task(self._run(answer), name="cascade answer")

    def _next(self) -> None:
        """Where nobody speaks: answer what the user said while nothing could interrupt, else speak about answers that came late."""
        if self._answer is not None or self._user_speaks:
            return
        queue, self._queue = self._queue, []
        for content in queue:
            self._history.add(content)
        if queue or self._late.tell():
            self._begin()

    async def _run(self, answer: Answer) -> None:
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

    async def _converse(self, answer: Answer) -> str | None:
        """Ask the model, and again after each round of calls. The reason of an unusual end of the turn."""
        for _ in range(self._limits.rounds):
            answer.calls = await self._ask_model(answer)
            if not answer.calls:
                return None
            if not await self._tools_answered(answer):
                return "tools_pending"
        return await self._apologise(answer, ModelError(f"the model called tools {self._limits.rounds} times in one turn"))

    async def _finish(self, answer: Answer, reason: str | None) -> None:
        await self._outbox.put(GenerationComplete(), answer.number)
        await self._outbox.put(TurnComplete(reason), answer.number)
        if self._answer is answer:
            self._answer = None
            self._next()

    async def _ask_model(self, answer: Answer) -> tuple[FunctionCall, ...]:
        """One answer of the model, spoken while it comes. Its calls."""
        request = ModelRequest(
            contents=self._history.contents(),
            instruction=self._setup.instruction,
            tools=self._setup.tools,
            config=self._setup.config,
            stream=True,
        )
        responses = self._model.generate(request)
        streamed, whole = "", None
        try:
            while (response := await self._next_response(responses)) is not None:
                if response.error_code:
                    raise ModelError(response.error_message or response.error_code)
                text = text_of(response.content)
                if response.partial:
                    streamed += text
                    await self._speaker.say(answer, text)
                else:
                    whole = response
                    await self._speaker.say(answer, "" if streamed else text)
        finally:
            await _aclose(responses)
        await self._speaker.flush(answer)
        return await self._record(answer, whole, streamed)

    async def _next_response(self, responses: AsyncIterator[ModelResponse]) -> ModelResponse | None:
        try:
            async with asyncio.timeout(self._limits.model_s):
                return await anext(responses, None)
        except TimeoutError:
            raise ModelError(f"the model {self._model.name} gave no answer within {self._limits.model_s:g} s") from None

    async def _record(self, answer: Answer, whole: ModelResponse | None, streamed: str) -> tuple[FunctionCall, ...]:
        """Keep what the model said for the next question, and pass on what goes beyond words."""
        content = whole.content if whole is not None else None
        calls = tuple(_with_id(call) for call in function_calls(content))
        text = streamed or text_of(content)
        answer.said = ""
        parts = [Part(text=text)] if text else []
        if parts or calls:
            self._history.add(model_content(parts + [Part(function_call=call) for call in calls]))
        if whole is not None and whole.usage is not None:
            await self._outbox.put(Usage(whole.usage), answer.number)
        if whole is not None and whole.grounding_metadata is not None:
            await self._outbox.put(Grounding(whole.grounding_metadata), answer.number)
        others = [part for part in (content.parts if content else None) or () if part.inline_data or part.executable_code]
        if others:
            await self._outbox.put(ContentOut(model_content(others)), answer.number)
        return calls

    async def _tools_answered(self, answer: Answer) -> bool:
        """Have the calls answered. False when that takes too long: the turn then ends, and the answers are spoken about when they come."""
        answer.responses, answer.complete = {}, asyncio.Event()
        await self._outbox.put(ToolCalls(answer.calls), answer.number)
        in_time = True
        try:
            async with asyncio.timeout(self._limits.tools_s):
                await answer.complete.wait()
        except TimeoutError:
            in_time = False
        self._leave_calls(answer)
        return in_time

    def _leave_calls(self, answer: Answer) -> None:
        if answer.calls:
            self._late.leave(answer.calls, answer.responses)
            answer.calls = ()

    async def _apologise(self, answer: Answer, error: ModelError) -> str:
        """The model failed, the conversation goes on: say so."""
        await self._outbox.put(ConnectionNotice("model_stalled", {"code": error.code}), answer.number)
        await self._speaker.say(answer, UNABLE)
        await self._speaker.flush(answer)
        self._history.said(answer.said)
        answer.said = ""
        return error.code


def _with_id(call: FunctionCall) -> FunctionCall:
    return call if call.id else call.model_copy(update={"id": f"call-{uuid.uuid4().hex}"})


async def _aclose(responses: AsyncIterator[ModelResponse]) -> None:
    aclose = getattr(responses, "aclose", None)
    if aclose is not None:
        await aclose()
