"""Artifacts over HTTP."""

from __future__ import annotations

import pytest

from live_gateway.agents.llm import LlmAgent
from live_gateway.runner import Runner
from live_gateway.sessions.memory import InMemorySessionService
from tests.support.http_client import Answer, HttpClient
from tests.support.rest import SESSIONS, client_of, rest_runner

pytestmark = pytest.mark.virtual_time

ARTIFACTS = f"{SESSIONS}/s/artifacts"
PICTURE = {"inlineData": {"mimeType": "image/png", "data": "-_8="}}


async def saved(client: HttpClient, name: str, part: object) -> Answer:
    return await client.post(ARTIFACTS, {"filename": name, "artifact": part})


# case: K-REST-10
async def test_save_list_load_delete() -> None:
    async with client_of(rest_runner()) as client:
        await client.post(f"{SESSIONS}/s")
        made = await saved(client, "notes v1.txt", {"text": "first"})
        assert made.status == 200
        assert isinstance(made.json["createTime"], float)
        assert {name: made.json[name] for name in ("version", "canonicalUri", "customMetadata", "mimeType")} == {
            "version": 0,
            "canonicalUri": f"{ARTIFACTS}/notes%20v1.txt/versions/0",
            "customMetadata": {},
            "mimeType": "text/plain",
        }
        assert (await saved(client, "notes v1.txt", {"text": "second"})).json["version"] == 1
        assert (await saved(client, "user:me.png", {"inline_data": {"mime_type": "image/png", "data": "+/8"}})).json[
            "mimeType"
        ] == "image/png"
        assert (await client.get(ARTIFACTS)).json == ["notes v1.txt", "user:me.png"]
        notes = f"{ARTIFACTS}/notes%20v1.txt"
        assert (await client.get(notes)).json == {"text": "second"}
        assert (await client.get(f"{notes}?version=0")).json == {"text": "first"}
        assert (await client.get(f"{notes}/versions")).json == [0, 1]
        assert (await client.get(f"{notes}/versions/0")).json == {"text": "first"}
        assert (await client.get(f"{notes}/versions/latest")).json == {"text": "second"}
        assert (await client.get(f"{ARTIFACTS}/user:me.png")).json == PICTURE
        assert (await client.get(made.json["canonicalUri"])).json == {"text": "first"}
        deleted = await client.ask("DELETE", notes)
        assert (deleted.status, deleted.json) == (200, None)
        assert (await client.get(ARTIFACTS)).json == ["user:me.png"]


# case: K-REST-10
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/missing"),
        ("GET", "/missing/versions"),
        ("GET", "/there?version=7"),
        ("GET", "/there/versions/7"),
        ("DELETE", "/missing"),
    ],
)
async def test_unknown_artifact_or_version(method: str, path: str) -> None:
    async with client_of(rest_runner()) as client:
        await client.post(f"{SESSIONS}/s")
        await saved(client, "there", {"text": "x"})
        answer = await client.ask(method, f"{ARTIFACTS}{path}")
        assert (answer.status, answer.json["detail"]) == (404, "Artifact not found")


async def test_artifacts_belong_to_a_session_that_is_there() -> None:
    async with client_of(rest_runner()) as client:
        for answer in (await client.get(ARTIFACTS), await saved(client, "a", {"text": "x"})):
            assert (answer.status, answer.json["detail"]) == (404, "Session not found")


@pytest.mark.parametrize("name", ["..", "a\\b", "a\nb", "  "])
async def test_names_that_are_none(name: str) -> None:
    async with client_of(rest_runner()) as client:
        await client.post(f"{SESSIONS}/s")
        answer = await saved(client, name, {"text": "x"})
        assert (answer.status, answer.json["code"]) == (400, "invalid_input")


@pytest.mark.parametrize(
    "part", [{}, {"text": "x", **PICTURE}, {"inlineData": {"mimeType": "image/png", "data": "%"}}, {"inlineData": {"data": "AAAA"}}]
)
async def test_what_is_no_artifact(part: object) -> None:
    async with client_of(rest_runner()) as client:
        await client.post(f"{SESSIONS}/s")
        assert (await saved(client, "a", part)).status == 422
        assert (await client.get(ARTIFACTS)).json == []


@pytest.mark.parametrize("version", ["-1", "1.5", "x", "9" * 30])
async def test_what_is_no_version(version: str) -> None:
    async with client_of(rest_runner()) as client:
        await client.post(f"{SESSIONS}/s")
        assert (await client.get(f"{ARTIFACTS}/a/versions/{version}")).status == 422
        assert (await client.get(f"{ARTIFACTS}/a?version={version}")).status == 422


# contract: NEW-07
async def test_without_an_artifact_service_the_answer_says_so() -> None:
    runner = Runner(app_name="app", agent=LlmAgent(name="agent"), session_service=InMemorySessionService())
    async with client_of(runner) as client:
        await client.post(f"{SESSIONS}/s")
        answer = await client.get(ARTIFACTS)
        assert answer.status == 501
        assert "artifact service is not set" in answer.json["detail"]
