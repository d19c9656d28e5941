"""What a program sends in words: to the model first, and only then to the record.

Forwarding and recording are one step of the uplink. Once it has begun it is carried to its end, whether or not whoever sent the message
still waits for it: what the model has got is in the record, or somebody is told that it is not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from live_gateway.confirmation import Decision, ToolConfirmation
from live_gateway.content import Content, function_responses
from live_gateway.errors import (
    DeliveredNotPersisted,
    DeliveryUnknown,
    DuplicateEvent,
    GatewayError,
    LiveSessionClosed,
    NotDelivered,
    ToolResponseNotExpected,
    public_error,
)
from live_gateway.events import Event, replace
from live_gateway.live.conversation import Conversation
from live_gateway.live.hooks import is_answer
from live_gateway.live.items import SendResult
from live_gateway.live.legs import Legs
from live_gateway.live.pipeline import EventPipeline
from live_gateway.live.start import LiveStart
from live_gateway.live.uplink import COMMAND_DEADLINE_S, Action, Uplink
from live_gateway.sessions.writer import Slot, Storing


@dataclass(slots=True)
class _Delivery:
    """One step of the uplink. reserve: takes the place in the stored order, if there is to be one. record: called as soon as the model has
    it; it does not wait and does not raise."""

    reserve: Callable[[], Slot | None]
    send: Callable[[], Awaitable[None]]
    record: Callable[[Slot | None], None]

    async def __call__(self) -> None:
        slot = self.reserve()
        try:
            await self.send()
        except BaseException:
            if slot is not None:
                slot.release()
            raise
        self.record(slot)


class Sender:
    """See `LiveSession.send`. Events of messages that it sent are its own business: `owns` and `tells` say which and to whom."""

    def __init__(self, start: LiveStart, legs: Legs, conversation: Conversation, pipeline: EventPipeline, uplink: Uplink) -> None:
        self._invocation = start.invocation
        self._chain = start.chain
        self._legs = legs
        self._conversation = conversation
        self._pipeline = pipeline
        self._uplink = uplink
        self._sent: set[str] = set()
        self._waited_for: set[str] = set()

    async def send(self, content: Content) -> SendResult:
        """A message of the user, or answers to calls."""
        if function_responses(content):
            return await self._answer(content)
        await self._legs.settled()
        content, said = await self._shown_to_hooks(content)
        if self._uplink.closed:
            raise LiveSessionClosed("the live session is closed")
        event = self._conversation.user_message(content)
        if said is not None and is_answer(said):
            return await self._answered(event, said)
        if said is not None:
            self._pipeline.record(said)
        recorded: list[Storing | Exception] = []

        def record(slot: Slot | None) -> None:
            assert slot is not None
            try:
                recorded.append(slot.fill(event))
                self._sent.add(event.id)
            except GatewayError as error:
                recorded.append(error)

        self._waited_for.add(event.id)
        try:
            await self._forward(_Delivery(self._pipeline.reserve, lambda: self._legs.now.connection.send_content(content), record))
            return SendResult("persisted", await _seq(recorded[0]))
        finally:
            self._waited_for.discard(event.id)

    async def hand_over(self, action: Action) -> None:
        """Have something done that is not recorded (an image, a mark of push to talk). A refusal of the model passes as it is; after any
        other failure nobody knows whether it has it: `DeliveryUnknown`."""
        try:
            await self._uplink.perform(action)
        except (NotDelivered, GatewayError):
            raise
        except Exception as error:
            raise _unknown(error) from error

    def owns(self, event_id: str) -> bool:
        """Whether this event, which was stored, is a message that was sent. Asked once."""
        owned = event_id in self._sent
        self._sent.discard(event_id)
        return owned

    def tells(self, event_id: str) -> bool:
        """Whether this event, which was not stored, is a message whose sender is told so. Asked once."""
        return self.owns(event_id) and event_id in self._waited_for

    async def _shown_to_hooks(self, content: Content) -> tuple[Content, Event | None]:
        """The message as the plugins want it, and what those who stand before the model make of it."""
        try:
            replaced: Content | None = await self._chain.first("on_user_message", self._invocation, content)
            content = replaced if replaced is not None else content
            return content, await self._legs.now.hooks.before_message(content)
        except Exception as error:  # the edge to callbacks of the agent's author
            raise NotDelivered(public_error(error).message) from error

    async def _answered(self, event: Event, answer: Event) -> SendResult:
        """Somebody answered instead of the model: message and answer are recorded, and nothing is sent."""
        self._conversation.answered_elsewhere()
        self._waited_for.add(event.id)
        try:
            storing = self._pipeline.reserve().fill(event)
            self._sent.add(event.id)
            live = {"turn": self._conversation.turns.turn, "source": "text"}
            self._pipeline.record(replace(answer, custom_metadata={"live": live}))
            return SendResult("persisted", (await storing).seq)
        except Exception as error:
            raise NotDelivered(public_error(error).message) from error
        finally:
            self._waited_for.discard(event.id)

    async def confirm(self, call_id: str, *, approve: bool, shown: str) -> SendResult:
        """A person's decision about a call. shown: digest of the arguments that were shown."""
        question = self._legs.now.tools.approvals.waiting(call_id, shown)
        return await self._decide([Decision(question, ToolConfirmation(confirmed=approve))])

    async def _decide(self, decisions: Sequence[Decision]) -> SendResult:
        """Decisions take effect when the store has them, whether or not whoever made them still waits for that."""
        approvals = self._legs.now.tools.approvals
        approvals.take(decisions)
        events = [decision.event(self._invocation.invocation_id) for decision in decisions]
        ids = {event.id for event in events}
        slots: list[Slot] = []
        self._waited_for |= ids
        try:
            async with asyncio.timeout(COMMAND_DEADLINE_S):
                await self._pipeline.hasten()
            slots.extend(self._pipeline.reserve() for _ in events)
            approvals.hand_in(decisions)
            self._sent |= ids
            storing = [slot.fill(event) for slot, event in zip(slots, events, strict=True)]
            return SendResult("persisted", await _newest(storing))
        except ToolResponseNotExpected:
            raise
        except Exception as error:
            raise NotDelivered(f"the decision was not recorded and counts for nothing: {public_error(error).message}") from error
        finally:
            for slot in slots:
                slot.release()
            self._waited_for -= ids
            approvals.give_back(decisions)

    async def _answer(self, content: Content) -> SendResult:
        """Final answers of long-running calls: they are recorded as the tools' responses, at the place where they went to the model.
        Decisions about calls that wait for one are recorded as what the user said."""
        leg = self._legs.now
        if leg.tools.approvals.concerns(content):
            return await self._decide(leg.tools.approvals.answered(content))
        responses = function_responses(content)
        if len(responses) != len(content.parts or ()):
            raise ToolResponseNotExpected("answers to calls and other content are sent in messages of their own")
        calls = leg.tools.claim(responses)
        try:
            answers = tuple(answer.model_copy(update={"name": call.name}) for answer, call in zip(responses, calls, strict=True))
            event = self._conversation.outside_answers(answers)
            deliver = _Delivery(
                self._pipeline.reserve_response, partial(leg.answer, answers), lambda slot: self._pipeline.record(event, slot=slot)
            )
            await self._forward(deliver)
        except (NotDelivered, GatewayError):
            leg.give_back(calls)
            raise
        return SendResult("delivered")

    async def _forward(self, delivery: _Delivery) -> None:
        """Have it done by the uplink. A model says with an error of our tree that it took nothing; after any other nobody knows."""
        try:
            await self._uplink.perform(delivery)
        except (NotDelivered, LiveSessionClosed):
            raise
        except GatewayError as error:
            raise NotDelivered(str(error)) from error
        except Exception as error:
            raise _unknown(error) from error


def _unknown(error: Exception) -> DeliveryUnknown:
    if isinstance(error, TimeoutError):
        return DeliveryUnknown(
            "the connection to the model broke or stood still while this was being sent; nobody knows whether it arrived"
        )
    return DeliveryUnknown(f"sending it failed ({type(error).__name__}); whether it arrived is not known")


async def _newest(storing: Sequence[Storing]) -> int:
    """The number of the last decision that the store took. Raises `ToolResponseNotExpected` where it took none as the first."""
    seqs: list[int] = []
    for one in storing:
        with suppress(DuplicateEvent):
            seqs.append((await one).seq)
    if not seqs:
        raise ToolResponseNotExpected("the call was decided about already")
    return seqs[-1]


async def _seq(recorded: Storing | Exception) -> int:
    """The number under which the message is in the store."""
    try:
        if isinstance(recorded, Exception):
            raise recorded
        return (await recorded).seq
    except Exception as error:
        reason = public_error(error).message
        raise DeliveredNotPersisted(f"the model has the message, the store does not: {reason}") from error
