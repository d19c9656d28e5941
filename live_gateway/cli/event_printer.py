"""A run as lines of text: pieces as they come, and nothing twice. Whether a text was shown already is told by partial and whole events."""

from __future__ import annotations

import json
from typing import Any, TextIO

from live_gateway.confirmation import CONFIRM
from live_gateway.content import Part
from live_gateway.events import Event

WIDEST = 500
_LABEL = 11


class EventPrinter:
    """Writes what a person should see of the events of a run, one line each: texts, calls, responses, side effects, control."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._line_of: str | None = None
        self._in_pieces: set[str] = set()

    def show(self, event: Event) -> None:
        """Show an event."""
        if event.partial:
            self._piece(event.author, event.text)
            return
        if event.text and event.author not in self._in_pieces:
            self.line(event.author, event.text)
        self._in_pieces.discard(event.author)
        self._end_line()
        for part in event.content.parts or () if event.content is not None else ():
            self._part(part)
        self._effects(event)

    def line(self, label: str, text: str) -> None:
        """Write a line of one's own."""
        self._end_line()
        self._stream.write(f"{printable(label)[: _LABEL - 1]:{_LABEL}}{printable(text)}\n")
        self._stream.flush()

    def note(self, text: str) -> None:
        """Write a line without a label, below what the person typed."""
        self._end_line()
        self._stream.write(f"\n{printable(text)}\n")
        self._stream.flush()

    def finish(self) -> None:
        """The run is over, or was stopped: what was begun stays as it is."""
        self._end_line()
        self._in_pieces.clear()

    def _piece(self, author: str, text: str) -> None:
        if not text:
            return
        if self._line_of != author:
            self._end_line()
            self._stream.write(f"{printable(author)[: _LABEL - 1]:{_LABEL}}")
            self._line_of = author
        self._in_pieces.add(author)
        self._stream.write(printable(text))
        self._stream.flush()

    def _part(self, part: Part) -> None:
        if (call := part.function_call) is not None and call.name == CONFIRM:
            return  # whoever shows this asks the person in words
        if call is not None:
            args = ", ".join(f"{name}={_short(value)}" for name, value in (call.args or {}).items())
            self.line("call", f"{call.name}({args})")
        elif (response := part.function_response) is not None:
            self.line("result", f"{response.name}: {_short(response.response)}")
        elif (data := part.inline_data) is not None:
            self.line("file", f"{data.mime_type}, {len(data.data or b'')} bytes")
        elif part.executable_code is not None or part.code_execution_result is not None:
            self.line("code", _short(part.model_dump(mode="json", exclude_none=True)))

    def _effects(self, event: Event) -> None:
        actions = event.actions
        if actions.state_delta:
            self.line("state", ", ".join(f"{key}={_short(value)}" for key, value in actions.state_delta.items()))
        for name, version in actions.artifact_delta.items():
            self.line("artifact", f"{name}, version {version}")
        if actions.transfer_to_agent:
            self.line("transfer", f"to {actions.transfer_to_agent}")
        if actions.escalate:
            self.line("escalate", event.author)
        if event.error_code or event.error_message:
            self.line("error", f"{event.error_message or ''} ({event.error_code})".strip())

    def _end_line(self) -> None:
        if self._line_of is not None:
            self._line_of = None
            self._stream.write("\n")
            self._stream.flush()


def printable(text: str) -> str:
    """The text without what would steer the terminal."""
    return "".join(char if char in "\n\t" or char.isprintable() else "\ufffd" for char in text)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= WIDEST else f"{text[:WIDEST]}..."
