"""What an endpoint is, and how it becomes a route. The same table makes the routes and the document that describes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from live_gateway.server.rest.bodies import read_body
from live_gateway.server.rest.call import Call
from live_gateway.server.rest.problems import Refused, problem_response

Handler: TypeAlias = Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter or a header. schema: as JSON Schema."""

    place: str
    name: str
    schema: dict[str, Any]
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A method on a path.

    name: unique; the document's operationId. answers: the type of a 200's JSON, or None for the word `null`. media_type: of a 200.
    errors: the other statuses that it can have, beside those that all have.
    """

    method: str
    path: str
    name: str
    summary: str
    handler: Handler
    tag: str
    body: type[BaseModel] | None = None
    body_required: bool = True
    answers: Any = None
    media_type: str = "application/json"
    errors: tuple[int, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    deprecated: bool = False

    async def answer(self, request: Request) -> Response:
        """Check the request and handle it. Whatever goes wrong is an answer."""
        try:
            body = await read_body(request, self.body, required=self.body_required) if self.body is not None else None
            return await self.handler(Call(request, body))
        except ClientDisconnect:
            return Response(status_code=499)  # nobody is there to read it
        except Exception as error:  # the edge: every failure is an answer that tells no more than it may
            return problem_response(error)


def routes(operations: Sequence[Operation]) -> list[Route]:
    """One route for each path, in the order of the table."""
    paths: dict[str, dict[str, Operation]] = {}
    for path, group in groupby(operations, key=lambda operation: operation.path):
        paths.setdefault(path, {}).update((operation.method, operation) for operation in group)
    return [_route(path, methods) for path, methods in paths.items()]


def _route(path: str, methods: dict[str, Operation]) -> Route:
    if "GET" in methods:
        methods = {**methods, "HEAD": methods["GET"]}
    allow = ", ".join(sorted(methods))

    async def endpoint(request: Request) -> Response:
        operation = methods.get(request.method)
        if operation is None:
            return problem_response(Refused(405, "Method Not Allowed", "method_not_allowed", {"Allow": allow}))
        return await operation.answer(request)

    return Route(path, endpoint, methods=[*sorted(_METHODS | methods.keys())])


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY"})
"""All that a route is asked for, so that a method it does not have gets a JSON answer too."""
