"""What follows from a message of the model: items to show at once, events to record, things to ask of the model.

The one place where transcripts, turns and tools meet. No I/O and no waiting: a message comes in, its effects go to the stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, assert_never

from live_gateway.agents.config import LiveRunConfig
from live_gateway.clock import Clock
from live_gateway.content import (
    Content,
    FunctionCall,
    FunctionResponse,
    GenerateContentResponseUsageMetadata,
    GroundingMetadata,
    Part,
    model_content,
)
from live_gateway.errors import public_error
from live_gateway.events import USER, Event, EventActions, new_event_id
from live_gateway.live.heard import Spoken, heard
from live_gateway.live.items import (
    AudioChunk,
    Failure,
    LiveItem,
    Notice,
    PlaybackMark,
    ResponseEnded,
    ResponseStarted,
    TranscriptUpdate,
    TurnMetrics,
)
from live_gateway.live.text_answer import TextAnswer
from live_gateway.live.tools import ToolsAnswered
from live_gateway.live.transcript import TranscriptBuilder
from live_gateway.live.turns import InterruptionMark, PlayingChanged, StopModel, Turns
from live_gateway.models.live import (
    OUTPUT_HZ,
    AudioOut,
    ConnectionNotice,
    ContentOut,
    Fault,
    GenerationComplete,
    Grounding,
    Interrupted,
    LiveMessage,
    SpeechEnded,
    SpeechStarted,
    TextOut,
    ToolCalls,
    ToolCallsCancelled,
    Transcript,
    TurnComplete,
    Usage,
)


class Stage(Protocol):
    """Where the effects go; all of these return at once."""

    def show(self, item: LiveItem) -> None:
        """Hand an item to the listener."""
        ...

    def record(self, event: Event, update: TranscriptUpdate | None = None) -> None:
        """Take an event to the plugins, the order and the store, and then to the listener."""
        ...

    def stop_model(self) -> None:
        """Ask the model to stop its answer."""
        ...

    def playing_changed(self, playing: bool) -> None:
        """Tell the model whether the user hears an answer."""
        ...

    def run_tools(self, calls: tuple[FunctionCall, ...]) -> None:
        """Start these calls."""
        ...

    def cancel_tools(self, ids: tuple[str, ...]) -> None:
        """Cancel these calls."""
        ...

    def interrupt_tools(self) -> None:
        """The user interrupts: cancel the calls that are not to outlast that."""
        ...

    def arm(self, deadline: float | None) -> None:
        """Call `tick` at this time, and at no other."""
        ...


class Conversation:
    """One live session's messages, made into items and events."""

    def __init__(self, agent: str, invocation_id: str, config: LiveRunConfig, stage: Stage, clock: Clock) -> None:
        self._agent = agent
        self._invocation_id = invocation_id
        self._stage = stage
        self._now = clock.now
        self._wall = clock.wall
        self._speech_interrupts = config.voice_activity.interrupts
        self.turns = Turns(marks=config.playback_marks, interrupts=config.voice_activity.interrupts)
        self._transcripts = TranscriptBuilder(agent=agent, invocation_id=invocation_id, new_id=new_event_id, wall=clock.wall)
        self._text: TextAnswer | None = None
        self._usage: GenerateContentResponseUsageMetadata | None = None
        self._grounding: GroundingMetadata | None = None
        self._spoken = Spoken()

    def message(self, message: LiveMessage) -> None:  # noqa: C901 - one branch for each kind of message is the clearest form
        """The model said something."""
        now = self._now()
        match message:
            case AudioOut(pcm):
                self._audio(pcm, now)
            case Transcript():
                self._transcript(message)
            case TextOut():
                self._text_piece(message, now)
            case ContentOut(content):
                self._record(content=content)
            case ToolCalls(calls):
                self._stage.run_tools(calls)
            case ToolCallsCancelled(ids):
                self._stage.cancel_tools(ids)
            case SpeechStarted():
                self._speech_started(now)
            case SpeechEnded(silence_ms):
                self.turns.speech_ended(silence_ms, now)
                self.settle()
            case Interrupted():
                self._stage.interrupt_tools()
                self.turns.model_interrupted(now)
                self.settle()
            case GenerationComplete():
                self._generation_complete(now)
            case TurnComplete(reason):
                self._turn_complete(reason, now)
            case Usage(usage):
                self._usage = usage
            case Grounding(grounding):
                self._grounding = grounding
            case ConnectionNotice(code, params):
                self._stage.show(Notice("warning" if code == "model_stalled" else "info", code, params))
            case Fault(error):
                self._stage.show(Failure(public_error(error), error))
            case _:
                assert_never(message)

    def calls_started(self, calls: tuple[FunctionCall, ...], long_running: list[str]) -> None:
        """These calls were accepted and are about to run: record them."""
        self.turns.tools_started(len(calls), self._now())
        content = model_content(Part(function_call=call) for call in calls)
        self._record(content=content, long_running_tool_ids=long_running)
        self.settle()

    def tools_answered(self, answered: ToolsAnswered) -> Event | None:
        """All calls of one message are done: record their responses, then what a person is asked. The event of the responses; None where
        there is nothing to record."""
        responses: Event | None = None
        if answered.actions.transfer_to_agent is not None or answered.actions.end_of_agent:
            self._complete_words(self._transcripts.turn_complete())  # the agent has said its last: nothing holds up the response
        if answered.content is not None or answered.actions != EventActions():
            responses = self._event(content=answered.content, actions=answered.actions, id=answered.event_id or new_event_id())
            self._stage.record(responses)
        if answered.asking:
            ids = [part.function_call.id or "" for part in answered.asking if part.function_call is not None]
            self._record(content=model_content(answered.asking), actions=answered.asking_actions, long_running_tool_ids=ids)
        for _ in range(answered.count):
            self.turns.tool_finished(self._now(), answered=bool(answered.answers))
        self.settle()
        return responses

    def call_resumed(self) -> None:
        """A call that waited for a person is carried out."""
        self.turns.tools_started(1, self._now())
        self.settle()

    def outside_answers(self, answers: Sequence[FunctionResponse]) -> Event:
        """Answers that come later than those of the calls' message, from outside or from a stream: the event that records them."""
        return self._event(content=Content(role="user", parts=[Part(function_response=answer) for answer in answers]))

    def user_message(self, content: Content) -> Event:
        """The user sends a message: what plays is interrupted, a turn begins. The event that will record it."""
        self._stage.interrupt_tools()
        self.turns.typed(self._now())
        self.settle()
        return Event(
            author=USER,
            invocation_id=self._invocation_id,
            timestamp=self._wall(),
            content=content,
            custom_metadata={"live": {"turn": self.turns.turn, "source": "typed"}},
        )

    def cancel(self) -> None:
        """The user stopped the answer."""
        self._stage.interrupt_tools()
        self.turns.cancel(self._now())
        self.settle()

    def answered_elsewhere(self) -> None:
        """The user's message does not go to the model, so no answer of it is to come."""
        self.turns.answered_elsewhere()
        self.settle()

    def activity(self, *, started: bool) -> None:
        """Push to talk: the user begins or ends to speak."""
        if started:
            self._speech_started(self._now())
        else:
            self.turns.speech_ended(0, self._now())
            self.settle()

    def playback(self, mark: PlaybackMark) -> None:
        """The listener reports what it played."""
        self.turns.playback(mark, self._now())
        self.settle()

    def tick(self) -> None:
        """A deadline of the turn protocol has come."""
        self.turns.tick(self._now())
        self.settle()

    def left(self, *, talking: bool) -> None:
        """The agent has handed the conversation over: what it was saying is closed. talking: the user holds the button to talk."""
        self._complete_words(self._transcripts.end(), incomplete=True)
        self._usage = self._grounding = None
        self.turns.handed_over(self._now(), talking=talking)
        self.settle()

    def taken_over(self, agent: str) -> None:
        """From here on the words are this agent's."""
        self._agent = self._transcripts.agent = agent
        self._stage.playing_changed(self.turns.playing)

    def end(self, *, failed: bool) -> None:
        """No more messages: close what is open, marked incomplete, and end the responses."""
        self._complete_words(self._transcripts.end(), incomplete=True)
        if failed:
            self.turns.fail(self._now())
        else:
            self.turns.close(self._now())
        self.settle()

    def settle(self) -> None:
        """Carry out what the turn protocol decided."""
        for effect in self.turns.take():
            match effect:
                case StopModel():
                    self._stage.stop_model()
                case PlayingChanged(playing):
                    self._stage.playing_changed(playing)
                case InterruptionMark():
                    self._interrupted()
                case ResponseStarted(response):
                    self._spoken.response_started(response)
                    self._stage.show(effect)
                case ResponseEnded():
                    self._stage.show(effect)
                    self._record_heard(effect)
                case _:
                    self._stage.show(effect)
        self._stage.arm(self.turns.deadline())

    def _speech_started(self, now: float) -> None:
        if self._speech_interrupts:
            self._stage.interrupt_tools()
        self.turns.speech_started(now)
        self.settle()

    def _audio(self, pcm: bytes, now: float) -> None:
        place = self.turns.audio(len(pcm) // 2, now)
        if place is None:
            return
        if place[1] == 0:
            self.settle()
        self._spoken.samples(place[0], len(pcm) // 2)
        self._stage.show(AudioChunk(place[0], place[1], pcm, self._agent))

    def _transcript(self, piece: Transcript) -> None:
        if piece.role == "model" and self.turns.dropping:
            return
        turn = self.turns.words_of_user() if piece.role == "user" else max(1, self.turns.turn)
        for event, update in self._transcripts.feed(piece, turn):
            if event.output_transcription is not None:
                text = update.text if update is not None else event.output_transcription.text or ""
                self._spoken.words(event.id, text, self.turns.making)
            self._stage.record(event, update)
        self.settle()

    def _text_piece(self, piece: TextOut, now: float) -> None:
        if not piece.text or not self.turns.text(now):
            return
        self.settle()
        if self._text is None:
            self._text = TextAnswer(self.turns.turn, self._agent)
        content, update = self._text.add(piece)
        self._record(update=update, id=self._text.event_id, partial=True, content=content)

    def _complete_words(self, spoken: Iterable[tuple[Event, TranscriptUpdate | None]], *, incomplete: bool = False) -> None:
        """Record what was growing: these transcriptions, and the text."""
        for event, update in spoken:
            self._stage.record(event, update)
        answer, self._text = self._text, None
        if answer is not None:
            self._record(id=answer.event_id, content=answer.whole(), custom_metadata=answer.metadata(incomplete=incomplete))

    def _generation_complete(self, now: float) -> None:
        self._complete_words(self._transcripts.generation_complete())
        self.turns.generation_complete(now)
        self.settle()

    def _turn_complete(self, reason: str | None, now: float) -> None:
        self._complete_words(self._transcripts.turn_complete())
        self.turns.turn_complete(now)
        self.settle()
        tokens = self._usage.total_token_count if self._usage is not None else None
        if tokens:
            self._stage.show(TurnMetrics(self.turns.turn, tokens=tokens))
        live = {"turn": self.turns.turn} | ({"reason": reason} if reason else {})
        self._record(turn_complete=True, usage_metadata=self._usage, grounding_metadata=self._grounding, custom_metadata={"live": live})
        self._usage = self._grounding = None

    def _interrupted(self) -> None:
        self._complete_words(self._transcripts.interrupted())
        self._record(interrupted=True)

    def _record_heard(self, ended: ResponseEnded) -> None:
        words = self._spoken.take(ended.response)
        if ended.status == "completed" or words is None:
            return
        share = heard(words, ended.heard_ms * OUTPUT_HZ // 1000)
        if share is not None:
            self._record(custom_metadata={"heard": share | {"ms": ended.heard_ms}})

    def _record(self, *, update: TranscriptUpdate | None = None, **fields: Any) -> None:
        self._stage.record(self._event(**fields), update)

    def _event(self, **fields: Any) -> Event:
        return Event(author=self._agent, invocation_id=self._invocation_id, timestamp=self._wall(), **fields)
