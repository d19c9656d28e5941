"""A text model that gives prepared answers, one for each request, and records what it was asked.

    model = ScriptedModel([FunctionCall(id="fc-1", name="move", args={}), pieces("All ", "done.")])

An answer is a text, a call, an exception (raised), a `ModelResponse`, or a sequence of these and of gates (`asyncio.Event`), which hold the
answer back until the test opens them. Partial responses are left out where the request does not want a stream. A request too many is an
`AssertionError`, as is, in `verify`, an answer that nobody asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Self, TypeAlias

from live_gateway.content import FunctionCall, Part, model_content, text_of
from live_gateway.models.base import ModelRequest, ModelResponse

Piece: TypeAlias = str | FunctionCall | ModelResponse | Exception | asyncio.Event
Answer: TypeAlias = Piece | Sequence[Piece]


def pieces(*texts: str) -> tuple[ModelResponse, ...]:
    """A text in pieces, then the whole of it."""
    partial = [ModelResponse(content=model_content([Part(text=text)]), partial=True) for text in texts]
    return (*partial, ModelResponse(content=model_content([Part(text="".join(texts))])))


def calls(*wanted: FunctionCall, text: str = "") -> ModelResponse:
    """Several calls in one answer, after some text where there is one."""
    parts = [Part(text=text)] if text else []
    return ModelResponse(content=model_content([*parts, *(Part(function_call=call) for call in wanted)]))


class ScriptedModel:
    """A `Model` with prepared answers. requests: what it was asked, oldest first."""

    def __init__(self, answers: Sequence[Answer], *, name: str = "scripted") -> None:
        self.name = name
        self.requests: list[ModelRequest] = []
        self._answers = tuple(answers)

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelResponse]:
        """The next answer."""
        self.requests.append(request)
        if len(self.requests) > len(self._answers):
            raise AssertionError(self._report())
        answer = self._answers[len(self.requests) - 1]
        for piece in answer if isinstance(answer, Sequence) and not isinstance(answer, str) else (answer,):
            if isinstance(piece, asyncio.Event):
                await piece.wait()
            elif isinstance(piece, Exception):
                raise piece
            else:
                response = _response(piece)
                if request.stream or not response.partial:
                    yield response

    def verify(self) -> None:
        """Raise `AssertionError` unless there was exactly one request for every answer."""
        if len(self.requests) != len(self._answers):
            raise AssertionError(self._report())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None or len(self.requests) > len(self._answers):
            self.verify()

    def _report(self) -> str:
        asked = [f"  asked {number}: ... {_last(request)}" for number, request in enumerate(self.requests, 1)]
        return "\n".join([f"{self.name}: {len(self._answers)} answers, {len(self.requests)} requests", *asked])


def _response(piece: str | FunctionCall | ModelResponse) -> ModelResponse:
    if isinstance(piece, ModelResponse):
        return piece
    part = Part(text=piece) if isinstance(piece, str) else Part(function_call=piece)
    return ModelResponse(content=model_content([part]))


def _last(request: ModelRequest) -> str:
    if not request.contents:
        return "nothing"
    last = request.contents[-1]
    return f"{last.role}: {text_of(last) or f'{len(last.parts or ())} parts without text'}"
