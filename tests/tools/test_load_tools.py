"""The tools that read memory and artifacts, in a run."""

from __future__ import annotations

from typing import Any

from live_gateway.artifacts.memory import InMemoryArtifactService
from live_gateway.content import Blob, Part, user_content
from live_gateway.events import Event
from live_gateway.memory.in_memory import InMemoryMemoryService
from live_gateway.runner import Runner
from live_gateway.sessions.memory import InMemorySessionService
from live_gateway.tools.load_artifacts import MAX_TEXT, load_artifacts
from live_gateway.tools.load_memory import load_memory
from tests.support.runs import WHO, bot, call, run


async def answered(*calls: Any, tools: list[Any], **services: Any) -> list[Any]:
    """What the tools answered in one run."""
    agent = bot(*calls, "done", tools=tools)
    runner = Runner(app_name="app", agent=agent, session_service=InMemorySessionService(), auto_create_session=True, **services)
    return [each.response for event in await run(runner) for each in event.function_responses]


async def test_a_model_finds_what_was_said_before() -> None:
    memory = InMemoryMemoryService()
    said = Event(author="user", content=user_content("my cat is Mia"), timestamp=0.0)
    await memory.add(app_name="app", user_id="u", session_id="old", events=[said])
    (found,) = await answered(call("load_memory", query="cat"), tools=[load_memory], memory_service=memory)
    assert found == {"memories": [{"author": "user", "text": "my cat is Mia", "time": "1970-01-01T00:00:00+00:00"}]}
    assert list((load_memory.declaration.parameters_json_schema or {})["properties"]) == ["query"]


async def test_a_model_reads_artifacts_as_text_where_they_are_text() -> None:
    artifacts = InMemoryArtifactService()
    parts = {
        "note": Part(text="hello"),
        "long": Part(text="x" * (MAX_TEXT + 1)),
        "user:data": Part(inline_data=Blob(data=b'{"a": 1}', mime_type="application/json")),
        "image": Part(inline_data=Blob(data=b"\x00\x01", mime_type="image/png")),
    }
    for name, part in parts.items():
        await artifacts.save(app_name="app", **WHO, name=name, part=part)
    names, read = await answered(
        call("load_artifacts", names=[]),
        call("load_artifacts", names=[*parts, "missing"]),
        tools=[load_artifacts],
        artifact_service=artifacts,
    )
    assert names == {"names": ["image", "long", "note", "user:data"]}
    shown = read["artifacts"]
    assert shown["note"] == {"text": "hello"}
    assert (len(shown["long"]["text"]), shown["long"]["cut"]) == (MAX_TEXT, True)
    assert shown["user:data"] == {"text": '{"a": 1}'}
    assert shown["image"] == {"mimeType": "image/png", "bytes": 2, "note": "this is no text"}
    assert "error" in shown["missing"]
