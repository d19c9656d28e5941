"""The agent's answer of a turn, for its `output_key`.

An answer may be spoken in several transcriptions, with tools in between. It is whole when the model calls its turn complete, so it rides on
the event that records this: one event of the agent for each turn, stored like every other. Rules:

* The words are those of the complete transcriptions and texts, as the plugins left them; thoughts are left out. A word that a plugin took
  out is not in the state.
* A model may call its turn complete while tools that it called in this turn still run, and speak on when it has their results. The answer
  is then not whole yet and goes on in the next turn; a tool that runs on beyond that holds nothing up.
* Words before an interruption belong to another answer than those after it.
* A turn without words sets nothing, nor does a session that ends before its turn is complete.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

import msgspec

from live_gateway.agents.llm import LlmAgent
from live_gateway.content import text_of
from live_gateway.events import Event, replace


class TurnOutput:
    """Feed it every event of a live session in order, after the plugins; it gives back the event to record."""

    def __init__(self, agent: LlmAgent) -> None:
        self._agent = agent.name
        self._key = agent.output_key
        self._words: list[str] = []
        self._interrupted = False
        self._calls: set[str] = set()

    def apply(self, event: Event) -> Event:
        """The event, with the whole answer of the turn in its state delta if it is the one that completes it."""
        if self._key is None or event.partial or event.author != self._agent:
            return event
        self._follow_tools(event)
        if words := _words(event):
            self._take(words)
        if event.interrupted:
            self._interrupted = True
        return self._completed(event, self._key) if event.turn_complete else event

    def _follow_tools(self, event: Event) -> None:
        later = set(event.long_running_tool_ids)
        self._calls |= {call.id for call in event.function_calls if call.id and call.id not in later}
        self._calls -= {response.id for response in event.function_responses if response.id}

    def _take(self, words: str) -> None:
        if self._interrupted:
            self._words.clear()
            self._interrupted = False
        self._words.append(words)

    def _completed(self, event: Event, key: str) -> Event:
        if self._calls:
            self._calls.clear()
            return event
        answer, self._words = joined(self._words), []
        self._interrupted = False
        if not answer.strip():
            return event
        delta = {**event.actions.state_delta, key: answer}
        return replace(event, actions=msgspec.structs.replace(event.actions, state_delta=delta))


def joined(pieces: Iterable[str]) -> str:
    """Whole utterances as one text: with a space where one ends and the next begins without any, in scripts that put spaces."""
    text = ""
    for piece in pieces:
        glued = bool(text and piece) and not text[-1].isspace() and not piece[0].isspace()
        if glued and not _is_wide(text[-1]) and not _is_wide(piece[0]):
            text += " "
        text += piece
    return text


def _words(event: Event) -> str:
    if event.output_transcription is not None:
        return event.output_transcription.text or ""
    return "" if event.function_calls or event.function_responses else text_of(event.content)


def _is_wide(character: str) -> bool:
    return unicodedata.east_asian_width(character) in "WF"
