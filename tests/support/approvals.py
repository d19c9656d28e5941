"""Questions to a person, and answers to them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from live_gateway.confirmation import CONFIRM
from live_gateway.content import Content, FunctionCall, FunctionResponse, Part, model_content
from live_gateway.events import Event
from live_gateway.live.session import LiveSession
from live_gateway.models.live import ToolCalls
from live_gateway.tools.function import FunctionTool
from tests.support.live import until
from tests.support.puppet_model import PuppetModel


def questions(events: Iterable[Event | Exception]) -> list[FunctionCall]:
    """The calls that ask, in order."""
    return [call for event in events if isinstance(event, Event) for call in event.function_calls if call.name == CONFIRM]


def about(question: FunctionCall) -> dict[str, Any]:
    """The call that a question is about."""
    original: dict[str, Any] = (question.args or {})["originalFunctionCall"]
    return original


def answer(*answers: tuple[FunctionCall | str, Any]) -> Content:
    """A message with these answers: to a question or the id of one; a bool, or the whole body."""
    return Content(role="user", parts=[_part(question, said) for question, said in answers])


def yes(*asked: FunctionCall) -> Content:
    """All of them are approved."""
    return answer(*((question, True) for question in asked))


def no(*asked: FunctionCall) -> Content:
    """All of them are rejected."""
    return answer(*((question, False) for question in asked))


def forged(author: str, question_id: str, call: FunctionCall, **args: Any) -> Event:
    """An event that asks for the approval of a call, made by hand."""
    original = {"id": call.id, "name": call.name, "args": args or dict(call.args or {})}
    asking = FunctionCall(id=question_id, name=CONFIRM, args={"originalFunctionCall": original, "toolConfirmation": {}})
    return Event(author=author, content=model_content([Part(function_call=asking)]), long_running_tool_ids=[question_id])


def results(events: Sequence[Event | Exception]) -> list[tuple[str | None, Any]]:
    """Call ids and responses of the tools' answers, in order."""
    return [
        (response.id, response.response)
        for event in events
        if isinstance(event, Event)
        for response in event.function_responses
        if response.name != CONFIRM
    ]


class Till:
    """Counts what was paid."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.gate: asyncio.Event | None = None

    async def pay(self, amount: int) -> dict[str, int]:
        """Pay."""
        self.paid.append(amount)
        if self.gate is not None:
            await self.gate.wait()
        return {"paid": amount}

    def tool(self, **options: Any) -> FunctionTool:
        return FunctionTool(self.pay, **{"require_confirmation": True, **options})


def pays(*amounts: int) -> ToolCalls:
    return ToolCalls(tuple(FunctionCall(id=f"c{amount}", name="pay", args={"amount": amount}) for amount in amounts))


def asks(event: Event) -> bool:
    return bool(questions([event]))


async def waiting(live: LiveSession, model: PuppetModel, *amounts: int) -> list[FunctionCall]:
    """The questions about calls that the model makes now."""
    model.connection.say(pays(*amounts))
    return questions(await until(live, asks))


def _part(question: FunctionCall | str, said: Any) -> Part:
    body = {"confirmed": said} if isinstance(said, bool) else said
    question_id = question if isinstance(question, str) else question.id
    return Part(function_response=FunctionResponse(id=question_id, name=CONFIRM, response=body))
