"""What a client gets instead of an answer: JSON with a `detail`, as google-adk and FastAPI say it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from live_gateway.errors import GatewayError, public_error
from live_gateway.telemetry import get_logger

log = get_logger(__name__)

RETRY_AFTER_S = "1"


class Refused(GatewayError):
    """A request that cannot be answered, with its HTTP status."""

    code = "refused"

    def __init__(self, status: int, detail: str, code: str | None = None, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.word = code or self.code
        self.headers = dict(headers or {})


class Invalid(GatewayError):
    """A request whose parts are not what they should be. problems: as FastAPI lists them."""

    code = "invalid_request"

    def __init__(self, problems: Sequence[Mapping[str, Any]]) -> None:
        super().__init__("; ".join(str(problem["msg"]) for problem in problems))
        self.problems = problems

    @classmethod
    def at(cls, place: Sequence[str | int], message: str, kind: str = "value_error") -> Invalid:
        """One thing is wrong at one place (`("body", "state")`)."""
        return cls([{"type": kind, "loc": list(place), "msg": message}])

    @classmethod
    def of(cls, error: ValidationError) -> Invalid:
        """What pydantic found in a body, without what the client sent."""
        found = error.errors(include_url=False, include_context=False, include_input=False)
        return cls([{"type": one["type"], "loc": ["body", *one["loc"]], "msg": one["msg"]} for one in found])


class RunCancelled(GatewayError):
    """The run was ended before its end."""

    code = "cancelled"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong. code: the same word that the WebSocket uses. retryable: whether the same request may succeed later."""

    detail: str
    code: str
    retryable: bool


class InvalidField(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a request, and where."""

    type: str
    loc: list[str | int]
    msg: str


class InvalidRequest(msgspec.Struct, frozen=True, kw_only=True):
    """All that is wrong with a request."""

    detail: list[InvalidField]


class ErrorDetails(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of an error. error_type: the code word. timestamp: seconds since the epoch."""

    error_type: str
    error_message: str
    timestamp: float
    retryable: bool


class ErrorFrame(msgspec.Struct, frozen=True, kw_only=True):
    """The last frame of a stream of events that failed."""

    error: str
    error_details: ErrorDetails


def problem_response(error: BaseException) -> Response:
    """The answer to a request that failed. Of a foreign exception nothing is told; it is logged."""
    if isinstance(error, Invalid):
        return Response(msgspec.json.encode({"detail": error.problems}), 422, media_type="application/json")
    if isinstance(error, Refused):
        problem = Problem(detail=str(error), code=error.word, retryable=error.status in (408, 429, 503))
        return Response(msgspec.json.encode(problem), error.status, error.headers, "application/json")
    public = public_error(error)
    status = 503 if isinstance(error, RunCancelled) else public.http_status
    if status >= 500:
        log.error("request_failed", error, status=status, code=public.code)
    headers = {"Retry-After": RETRY_AFTER_S} if public.retryable else {}
    problem = Problem(detail=public.message, code=public.code, retryable=public.retryable)
    return Response(msgspec.json.encode(problem), status, headers, "application/json")


async def http_problem(_request: Request, error: Exception) -> Response:
    """The answer to a request that leads nowhere: starlette's own errors, in the shape of all others."""
    if not isinstance(error, HTTPException):
        return problem_response(error)
    code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "_")
    return problem_response(Refused(error.status_code, error.detail, code, error.headers))


def error_frame(error: BaseException) -> bytes:
    """The JSON of the frame that ends a stream of events which failed after it had begun."""
    public = public_error(error)
    details = ErrorDetails(error_type=public.code, error_message=public.message, timestamp=time.time(), retryable=public.retryable)
    return msgspec.json.encode(ErrorFrame(error=f"{public.code}: {public.message}", error_details=details))
