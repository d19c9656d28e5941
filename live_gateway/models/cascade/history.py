"""What the text model is told of the conversation so far. Bounded, and every call in it has an answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from live_gateway.content import Content, FunctionCall, FunctionResponse, Part, function_calls, function_responses, model_content

PENDING = {"status": "pending"}
"""Stands for the answer to a call that is not there yet."""


class History:
    """The contents of one connection, oldest first. The oldest turns are forgotten beyond `limit` messages."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._contents: list[Content] = []

    def contents(self) -> tuple[Content, ...]:
        """The conversation as a text model wants it."""
        return tuple(self._contents)

    def add(self, content: Content) -> None:
        """One more message."""
        self._contents.append(content)
        if len(self._contents) > self._limit:
            self._forget()

    def said(self, text: str) -> None:
        """What the model said, if anything."""
        if text.strip():
            self.add(model_content([Part(text=text)]))

    def answered(self, calls: Sequence[FunctionCall], responses: Mapping[str, FunctionResponse], otherwise: dict[str, Any]) -> None:
        """The answers to these calls, in their order; `otherwise` for those that have none."""
        parts = []
        for call in calls:
            response = responses.get(call.id or "")
            payload = response.response if response is not None else otherwise
            parts.append(Part(function_response=FunctionResponse(id=call.id, name=call.name, response=payload)))
        self.add(Content(role="user", parts=parts))

    def answered_late(self, responses: Iterable[FunctionResponse]) -> None:
        """Answers to calls that were left pending, or more of them: calls and answers move to the end, to be spoken about now."""
        late = {response.id: response for response in responses}
        calls = [call for content in self._contents for call in function_calls(content) if call.id in late]
        known = {call.id for call in calls}
        calls += [FunctionCall(id=response.id, name=response.name, args={}) for response in late.values() if response.id not in known]
        self._contents = [kept for content in self._contents if (kept := _without(content, set(late)))]
        self.add(model_content(Part(function_call=call) for call in calls))
        self.answered(calls, {response.id or "": response for response in late.values()}, PENDING)

    def ended(self, response: FunctionResponse) -> None:
        """A call that was answered in pieces gives no more: the last of them says so too."""
        self._contents = [_with_end(content, response) for content in self._contents]

    def _forget(self) -> None:
        """Drop whole turns from the front: the first message left is the user's own."""
        begin = len(self._contents) - self._limit
        while begin < len(self._contents) - 1 and not _begins_turn(self._contents[begin]):
            begin += 1
        del self._contents[:begin]


def _begins_turn(content: Content) -> bool:
    return content.role == "user" and not function_responses(content)


def _without(content: Content, ids: set[str | None]) -> Content | None:
    """The content without the calls of these ids and without their answers; None when nothing is left."""
    parts = [
        part
        for part in content.parts or ()
        if (part.function_call is None or part.function_call.id not in ids)
        and (part.function_response is None or part.function_response.id not in ids)
    ]
    return Content(role=content.role, parts=parts) if parts else None


def with_end(piece: FunctionResponse, end: FunctionResponse) -> FunctionResponse:
    """The last piece of a call, which says that there are no more."""
    return piece.model_copy(update={"response": (piece.response or {}) | (end.response or {})})


def _with_end(content: Content, end: FunctionResponse) -> Content:
    if all(response.id != end.id for response in function_responses(content)):
        return content
    parts = [
        Part(function_response=with_end(part.function_response, end))
        if part.function_response is not None and part.function_response.id == end.id
        else part
        for part in content.parts or ()
    ]
    return Content(role=content.role, parts=parts)
