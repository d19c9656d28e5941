"""Requests made up from the OpenAPI document, against a real server: no 5xx, and every answer is one that the document announces."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from live_gateway.agents.llm import LlmAgent
from live_gateway.content import Part, model_content, text_of
from live_gateway.models.base import ModelRequest, ModelResponse
from live_gateway.runner import Runner
from live_gateway.server.app import create_app
from live_gateway.server.gateway import Gateway
from live_gateway.server.rest import Rest
from live_gateway.server.rest.openapi import document
from tests.support.threaded_server import ThreadedServer

schemathesis = pytest.importorskip("schemathesis")
from schemathesis.checks import not_a_server_error  # noqa: E402 - it may be missing
from schemathesis.specs.openapi.checks import (  # noqa: E402
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CASES = 12
"""Of each of the 17 operations."""
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


class Echo:
    """A model that says what it was told."""

    name = "echo"

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelResponse]:
        text = text_of(request.contents[-1]) if request.contents else ""
        for partial in (True, False) if request.stream else (False,):
            yield ModelResponse(content=model_content([Part(text=text or "nothing")]), partial=partial)


def runner() -> Runner:
    return Runner.in_memory("app", LlmAgent(name="agent", model=Echo()))


schema = schemathesis.openapi.from_dict(document(Rest(Gateway(runner())).operations, ["app"]))


@pytest.fixture(scope="module")
def server() -> Iterator[ThreadedServer]:
    with ThreadedServer(create_app(runner())) as server:
        yield server


@schema.parametrize()  # type: ignore[untyped-decorator]
@settings(
    max_examples=CASES, phases=[Phase.generate], derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
def test_made_up_requests(case: Any, server: ThreadedServer) -> None:
    for name, value in (("user_id", "u"), ("session_id", "s")):
        if name in case.path_parameters and len(case.path_parameters[name]) % 2:  # half of them meet a session that others made
            case.path_parameters[name] = value
    case.call_and_validate(base_url=server.url, checks=CHECKS, timeout=10)
