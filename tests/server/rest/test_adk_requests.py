"""Requests as google-adk's own clients send them, and the answers that its API server 2.13 gives: this server gives the same.

The vector was written down from what is known of that server, not recorded against it here. An answer of ours may hold more: `code` and
`retryable` beside a `detail`, `seq` in an event.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from live_gateway.agents.llm import LlmAgent
from live_gateway.content import FunctionCall
from live_gateway.runner import Runner
from live_gateway.testing.scripted_model import ScriptedModel
from tests.support.http_client import HttpClient
from tests.support.rest import client_of

VECTOR = json.loads((Path(__file__).parents[2] / "vectors" / "adk_rest.json").read_text())
ADDED = {"code", "retryable", "seq"}


def get_weather(city: str) -> dict[str, Any]:
    """Tell the weather."""
    return {"temp": 3}


def fits(found: Any, expected: Any) -> bool:
    """Whether an answer is the expected one; `<text>` and `<number>` stand for any."""
    if isinstance(expected, dict):
        return isinstance(found, dict) and set(found) - ADDED == set(expected) and all(fits(found[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(map(fits, found, expected))
    if expected == "<number>":
        return isinstance(found, int | float)
    if isinstance(expected, str) and expected.endswith("<text>"):
        return isinstance(found, str) and found.startswith(expected.removesuffix("<text>"))
    return bool(found == expected) and type(found) is type(expected)


async def answers(client: HttpClient) -> list[tuple[str, int, Any]]:
    """The answers to the requests of the vector, in their order."""
    found = []
    for step in VECTOR:
        method, path, *body = step["request"]
        answer = await client.ask(method, path, body[0] if body else None)
        found.append((step["what"], answer.status, answer.json))
    return found


async def test_answers_are_those_of_google_adk() -> None:
    model = ScriptedModel([FunctionCall(id="fc-1", name="get_weather", args={"city": "Oslo"}), "Three degrees."])
    in_memory = Runner.in_memory("fake", LlmAgent(name="fake", model=model, tools=[get_weather]))
    runner = Runner(
        app_name="fake", agent=in_memory.agent, session_service=in_memory.session_service, artifact_service=in_memory.artifact_service
    )
    async with client_of(runner) as client:
        wrong = [
            (what, status, found, step["adk"])
            for step, (what, status, found) in zip(VECTOR, await answers(client), strict=True)
            if not (status == step["adk"][0] and fits(found, step["adk"][1]))
        ]
    assert wrong == []


def test_the_comparison_sees_differences() -> None:
    assert fits({"a": 1, "code": "x"}, {"a": 1})
    assert not fits({"a": 1, "b": 2}, {"a": 1})
    assert not fits({}, {"a": 1})
    assert not fits([1], [1, 2])
    assert not fits(1, True)
    assert not fits("b", "a<text>")
