"""`POST /run` and `POST /run_sse`: run an agent, get its events at once or as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from starlette.responses import Response

from live_gateway.agents.config import RunConfig
from live_gateway.confirmation import CONFIRM, questions_of
from live_gateway.errors import SessionNotFound, ToolResponseNotExpected
from live_gateway.events import USER, Event
from live_gateway.runner import Runner
from live_gateway.server.gateway import Gateway, SessionKey
from live_gateway.server.outgoing import notice
from live_gateway.server.rest.bodies import CallResponse, RunBody
from live_gateway.server.rest.call import Call
from live_gateway.server.rest.problems import Refused, problem_response
from live_gateway.server.rest.runs import Follower, Runs, ServedRun
from live_gateway.server.rest.sse import EventStream, watch
from live_gateway.server.rest.views import event_view
from live_gateway.sessions.base import Session

BEGIN_S = 10.0
"""How long the status of an answer may wait for the run to begin. After that the stream is opened, and what goes wrong is a frame of it."""
MAX_SEQ = 2**63 - 1
CANCEL = "cancel_on_disconnect"
"""Query parameter: whether a client that leaves ends its run."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call that waits for its answer, and the event that asked for it."""

    name: str
    event_id: str
    invocation_id: str


class RunApi:
    """The endpoints that run agents."""

    def __init__(self, gateway: Gateway, runs: Runs) -> None:
        self._gateway = gateway
        self._runs = runs

    async def run(self, call: Call) -> Response:
        """The events of a run, when it is over."""
        body, cancel = call.body_as(RunBody), call.flag(CANCEL)
        run = await self._start(body, streaming=False)
        follower = run.follow()
        async with watch(call.request.receive, run.cancel if cancel else _nothing):
            events = [msgspec.json.encode(event_view(event)) async for event in follower]
        if follower.problem is not None:
            return _failed(follower.problem, body)
        return Response(b"[" + b",".join(events) + b"]", media_type="application/json")

    async def run_sse(self, call: Call) -> Response:
        """The events of a run, as they come. With `Last-Event-ID`: those after that one, and no new run."""
        body, cancel = call.body_as(RunBody), call.flag(CANCEL)
        if (last := call.request.headers.get("last-event-id")) is not None:
            return await self._resume(body, _sequence_number(last), cancel)
        run = await self._start(body, streaming=body.streaming)
        follower = run.follow()
        try:
            async with asyncio.timeout(BEGIN_S):
                await run.begun.wait()
        except TimeoutError:
            pass
        if run.ended and run.problem is not None and not run.invocation_id:
            return _failed(run.problem, body)
        return self._stream(body, run, follower, cancel=cancel, first_id=run.first_seq)

    async def _start(self, body: RunBody, *, streaming: bool) -> ServedRun:
        if self._gateway.draining:
            raise Refused(503, "The server is going down.", "drain", {"Retry-After": "1"})
        runner = runner_of(self._gateway, body.app_name)
        key = (runner.app_name, body.user_id, body.session_id)
        message = body.new_message
        answers = message.answers if message is not None else []
        if not answers and (body.invocation_id or body.function_call_event_id):
            raise Refused(400, "invocationId and functionCallEventId go with the answer to a call.", "invalid_input")
        stream = runner.run(
            user_id=body.user_id,
            session_id=body.session_id,
            message=message.to_content() if message is not None else None,
            config=RunConfig(streaming_mode="sse" if streaming else "none"),
            state_delta=body.state_delta,
            yield_user_message=True,
        )
        opens = message is not None or bool(body.state_delta)
        claimed = self._runs.claim(key, [answer.id for answer in answers])
        try:
            if answers:
                await _check_answers(runner, key, answers, body)
            run = self._runs.start(key, stream, opens=opens, claimed=claimed)
        except BaseException:
            self._runs.release(key, claimed)
            raise
        self._gateway.announce(key, notice("info", "run_on_session"))
        return run

    async def _resume(self, body: RunBody, last: int, cancel: bool) -> Response:
        runner = runner_of(self._gateway, body.app_name)
        key = (runner.app_name, body.user_id, body.session_id)
        try:
            session = await _fetch(runner, key, last - 1)
        except SessionNotFound as error:
            return _failed(error, body)
        if not session.events or session.events[0].seq != last:
            raise Refused(404, f"No run of this session has an event {last}.", "event_not_found")
        invocation_id = session.events[0].invocation_id
        run = self._runs.find(key, invocation_id)
        follower = run.follow() if run is not None else None
        session = await _fetch(runner, key, last)  # what was stored before the run was followed is in here
        missed = [event for event in session.events if event.invocation_id == invocation_id and _shown(event)]
        return self._stream(body, run, follower, missed, cancel=cancel)

    def _stream(
        self,
        body: RunBody,
        run: ServedRun | None,
        follower: Follower | None,
        missed: Sequence[Event] = (),
        *,
        cancel: bool,
        first_id: int = 0,
    ) -> Response:
        return EventStream(
            follower,
            missed,
            send_s=self._gateway.config.send_s,
            first_id=first_id,
            whole=body.function_call_event_id is not None,
            on_gone=run.cancel if run is not None and cancel else _nothing,
        )


def runner_of(gateway: Gateway, app: str | None) -> Runner:
    """The runner of an app. Raises `Refused` (404)."""
    try:
        return gateway.runner(app)
    except SessionNotFound:
        raise Refused(404, f"Agent not found: {app!r}. Apps here: {', '.join(gateway.runners)}.", "app_not_found") from None


def waiting_calls(events: Sequence[Event]) -> dict[str, Waiting]:
    """The calls that wait for an answer from outside: long-running ones that the user did not answer, and questions about calls that a
    person is to approve. A first result of the tool itself, a ticket number perhaps, is no such answer; a failure is. A long-running call
    that is to be approved waits for no answer before it was."""
    waiting: dict[str, Waiting] = {}
    for event in events:
        if event.long_running_tool_ids:
            for function_call in event.function_calls:
                if function_call.id in event.long_running_tool_ids and function_call.name != CONFIRM:
                    waiting[function_call.id] = Waiting(function_call.name or "", event.id, event.invocation_id)
        for response in event.function_responses:
            if event.author == USER or "error" in (response.response or {}):
                waiting.pop(response.id or "", None)
    for question in questions_of(events).open():
        waiting.pop(question.call.id or "", None)
        waiting[question.id] = Waiting(CONFIRM, question.event_id, question.invocation_id)
    return waiting


async def _check_answers(runner: Runner, key: SessionKey, answers: list[CallResponse], body: RunBody) -> None:
    """Raise unless every one of these calls waits for its answer; `Refused` (404) where there is no such session."""
    try:
        session = await _fetch(runner, key)
    except SessionNotFound:
        raise session_not_found(body.session_id) from None
    if len({answer.id for answer in answers}) < len(answers):
        raise ToolResponseNotExpected("A call is answered once.")
    waiting = waiting_calls(session.events)
    for answer in answers:
        asked = waiting.get(answer.id)
        if asked is None or asked.name != answer.name:
            raise ToolResponseNotExpected("No call of that id and name waits for an answer.")
        if body.function_call_event_id not in (None, asked.event_id) or body.invocation_id not in (None, asked.invocation_id):
            raise ToolResponseNotExpected("The call was made in another event or another invocation.")


async def _fetch(runner: Runner, key: SessionKey, after_seq: int | None = None) -> Session:
    app_name, user_id, session_id = key
    return await runner.session_service.get(app_name=app_name, user_id=user_id, session_id=session_id, after_seq=after_seq)


def session_not_found(session_id: str) -> Refused:
    """The answer about a session that is not there."""
    return Refused(404, f"Session not found: {session_id}", "session_not_found")


def _nothing() -> None:
    """What happens to a run whose client leaves."""


def _failed(problem: BaseException, body: RunBody) -> Response:
    return problem_response(session_not_found(body.session_id) if isinstance(problem, SessionNotFound) else problem)


def _shown(event: Event) -> bool:
    """Whether a run shows this stored event: not what the user said, and no summary."""
    return event.author != USER and event.actions.compaction is None


def _sequence_number(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:20]) <= MAX_SEQ:
        raise Refused(400, "Last-Event-ID is the id of an event that was received: a whole number.", "bad_message")
    return int(text)
