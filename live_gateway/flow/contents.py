"""What a model is shown of a session: its contents, built from stored events by a pure function.

Contents are handed on by reference and nothing is copied, so a prompt costs one short look at each event. Events that must look different
to the model (another agent's, a transcript, a call with an id of our own) are rewritten once and remembered while they live (`memo`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from live_gateway.confirmation import original_call
from live_gateway.content import Content, is_reference, text_of, user_content
from live_gateway.events import USER, Event
from live_gateway.flow.memo import Memos
from live_gateway.flow.pairing import Placed, pair
from live_gateway.flow.rewriting import Shape, foreign, foreign_speech, shape, spoken, tools_as_text
from live_gateway.flow.summaries import apply_summaries

START = "Begin with what your instructions ask for."
CONTINUE = "Go on with what was asked before. If it is done, say so in a sentence."
"""What stands for the user where a run has no words of his to answer; providers want the last turn to be the user's."""

_shapes: Memos[Shape] = Memos(shape)
_foreign: Memos[Content | None] = Memos(foreign)
_in_words: Memos[Content] = Memos(tools_as_text)
_speech: Memos[Content] = Memos(lambda transcription, role: spoken(role, [transcription.text or ""]))
_foreign_speech: Memos[Content] = Memos(lambda transcription, author: foreign_speech(transcription.text or "", author))


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Whose eyes look at the session.

    agent: the agent whose model is asked; other agents' events become context. branch: events of sibling branches are hidden.
    scope: the isolation scope; only events of exactly this one are seen. current_turn_only: nothing before the newest message of the user
    or of another agent. live: for a live connection: no audio of any kind, and nothing invented that the model would answer.
    calls_as_text: calls and responses in words, for a wire that refuses them in a history.
    """

    agent: str
    branch: str | None = None
    scope: str | None = None
    current_turn_only: bool = False
    live: bool = False
    calls_as_text: bool = False


def build_contents(events: Sequence[Event], view: View) -> tuple[Content, ...]:
    """The conversation as this agent's model may see it, oldest first. The events and their contents are not changed.

    Raises `AgentError` where the newest event is a tool response whose call is not in the history (not in live).
    """
    collected = _Collector(view)
    collected.take(events)
    if collected.has_summaries:
        collected = _Collector(view)
        collected.take(apply_summaries(events, view.agent))
    contents = collected.finish()
    if not view.live and (not contents or contents[-1].role != USER):
        contents.append(user_content(CONTINUE if contents else START))
    return tuple(contents)


@dataclass(slots=True)
class _Collector:
    """Goes over the events once. `speeches`: texts of transcripts that follow each other, by the place of the first. `waiting`: calls that
    a person has not decided about yet, by the id of the question."""

    view: View
    contents: list[Content] = field(default_factory=list)
    tools: list[Placed] = field(default_factory=list)
    speeches: dict[int, list[str]] = field(default_factory=dict)
    has_summaries: bool = False
    waiting: dict[str, str] = field(default_factory=dict)
    _spoken_at: int = -1
    _spoken_role: str = ""

    def take(self, events: Sequence[Event]) -> None:
        """Collect what is visible. The first lines of the loop are all that most events cost."""
        view = self.view
        agent, scope, branches = view.agent, view.scope or None, _visible_branches(view.branch)
        append = self.contents.append
        for event in events[_turn_start(events, view) :] if view.current_turn_only else events:
            if (branches is not None and event.branch not in branches) or (event.isolation_scope or None) != scope:
                continue
            content, author = event.content, event.author
            if content is None:
                self._without_content(event)
            elif author != agent and author != USER:
                if (told := _foreign.under(author, view.live).get(content, author, view.live)) is not None:
                    append(told)
            elif content.parts and content.role and len(content.parts) == 1 and (part := content.parts[0]).text and not part.thought:
                append(content)
            else:
                self._own(event, content)

    def finish(self) -> list[Content]:
        """The contents with speech joined and calls paired."""
        if not self.speeches and not self.tools:
            return self.contents
        for index, texts in self.speeches.items():
            first = self.contents[index]
            self.contents[index] = spoken(first.role or USER, texts)
        return pair(self.contents, self.tools, live=self.view.live, waiting=set(self.waiting.values()))

    def _own(self, event: Event, content: Content) -> None:
        view, role = self.view, USER if event.author == USER else "model"
        found = _shapes.under(role, view.live).get(content, role, view.live)
        if found.shown is None and not found.same:
            self._follow_questions(event)
            return
        if found.calls or found.answers:
            if view.calls_as_text:
                self.contents.append(_in_words.under(view.agent).get(content, view.agent))
                return
            self.tools.append((len(self.contents), event, found))
        self.contents.append(content if found.shown is None else found.shown)

    def _follow_questions(self, event: Event) -> None:
        """No model sees what a person is asked, only that a call waits."""
        for call in event.function_calls:
            if (original := original_call(call)) is not None:
                self.waiting[call.id or ""] = original.id or ""
        for response in event.function_responses:
            self.waiting.pop(response.id or "", None)

    def _without_content(self, event: Event) -> None:
        heard = event.input_transcription
        transcription = heard or event.output_transcription
        if transcription is None or not transcription.text:
            self.has_summaries = self.has_summaries or event.actions.compaction is not None
            return
        author = event.author
        if author != self.view.agent and author != USER:
            self.contents.append(_foreign_speech.under(author).get(transcription, author))
            return
        role = USER if heard is not None else "model"
        if self._spoken_role == role and self._spoken_at == len(self.contents) - 1:
            first = self.contents[self._spoken_at]
            texts = self.speeches.setdefault(self._spoken_at, [text_of(first)])
            texts.append(transcription.text)
            return
        self._spoken_at, self._spoken_role = len(self.contents), role
        self.contents.append(_speech.under(role).get(transcription, role))


def _visible_branches(branch: str | None) -> frozenset[str | None] | None:
    """The branches that this one sees: itself, what it stems from, and the trunk; None means all."""
    if not branch:
        return None
    names = branch.split(".")
    return frozenset([None, "", *(".".join(names[:length]) for length in range(1, len(names) + 1))])


def _turn_start(events: Sequence[Event], view: View) -> int:
    """Where the current turn begins: the newest message that this agent has to answer. An answer to a call belongs to the call's turn."""
    branches, scope = _visible_branches(view.branch), view.scope or None
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        if event.author == view.agent or event.actions.compaction is not None or event.function_responses:
            continue
        seen = (branches is None or event.branch in branches) and (event.isolation_scope or None) == scope
        if seen and (event.content is not None or event.transcription is not None) and not is_reference(event.content):
            return index
    return 0
