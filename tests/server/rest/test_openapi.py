"""The OpenAPI document: it is one, and it says what the server does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from live_gateway.content import FunctionCall
from live_gateway.server.app import create_app
from live_gateway.server.gateway import Gateway
from live_gateway.server.rest import Rest
from live_gateway.server.rest.openapi import document
from live_gateway.testing.scripted_model import ScriptedModel
from tests.support.rest import SESSIONS, asking, client_of, rest_runner


def described() -> dict[str, Any]:
    rest = Rest(Gateway(rest_runner()))
    return document(rest.operations, ["app"])


def test_page_lists_every_endpoint_and_no_other() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "http-api.md").read_text()
    listed = re.findall(r"^\| `([A-Z]+) (/\S*)` \|", page, re.MULTILINE)
    there = [(method.upper(), path) for path, methods in described()["paths"].items() for method in methods]
    assert sorted(listed) == sorted(there)


def test_page_speaks_of_every_status() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "http-api.md").read_text()
    listed = {int(number) for row in re.findall(r"^\| ((?:\d{3}(?:, )?)+) \|", page, re.MULTILINE) for number in row.split(", ")}
    answers = [operation["responses"] for methods in described()["paths"].values() for operation in methods.values()]
    assert listed == {int(status) for responses in answers for status in responses if status != "200"} | {405}


def references(value: Any) -> set[str]:
    """All `$ref`s in it."""
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()


def test_document_is_valid_openapi() -> None:
    validator = pytest.importorskip("openapi_spec_validator")
    validator.validate(described())


def test_every_reference_leads_somewhere() -> None:
    found = described()
    assert references(found) <= {f"#/components/schemas/{name}" for name in found["components"]["schemas"]}


def test_names_of_operations_are_unique() -> None:
    names = [operation["operationId"] for methods in described()["paths"].values() for operation in methods.values()]
    assert len(names) == len(set(names)) == 17


def test_bodies_say_which_fields_they_need() -> None:
    schemas = described()["components"]["schemas"]
    assert schemas["RunBody"]["required"] == ["userId", "sessionId"]
    assert schemas["PatchSession"]["required"] == ["stateDelta"]
    assert {"author", "id", "invocationId", "actions", "inputTranscription"} <= set(schemas["Event"]["properties"])


async def test_document_is_served_and_every_path_of_it_is_there() -> None:
    async with client_of(rest_runner()) as client:
        served = (await client.get("/openapi.json")).json
        assert served == json.loads(json.dumps(described()))
        for path, methods in served["paths"].items():
            for method in methods:
                names = {"app_name": "app", "user_id": "u", "session_id": "none", "artifact_name": "none", "version_id": "0"}
                answer = await client.ask(method.upper(), path.format(**names))
                assert answer.status not in (405, 500)
                assert "detail" in answer.json or answer.status == 200


async def test_answers_are_what_the_document_says() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    found = described()
    model = ScriptedModel([FunctionCall(id="fc-1", name="get_weather", args={"city": "Oslo"}), "Sunny."])

    def get_weather(city: str) -> dict[str, str]:
        """Tell the weather."""
        return {"city": city}

    def check(name: str, value: Any) -> None:
        jsonschema.validate(value, {"$ref": f"#/components/schemas/{name}", "components": found["components"]})

    async with client_of(rest_runner(model, tools=[get_weather])) as client:
        await client.post(f"{SESSIONS}/s", {"a": 1})
        for event in (await client.post("/run", asking())).json:
            check("Event", event)
        check("SessionView", (await client.get(f"{SESSIONS}/s")).json)
        check("Problem", (await client.get(f"{SESSIONS}/none")).json)
        check("InvalidRequest", (await client.post("/run", {})).json)


def test_document_names_the_apps() -> None:
    app = create_app({"one": rest_runner(), "two": rest_runner()})
    found = document(Rest(app.state.gateway).operations, list(app.state.gateway.runners))
    parameter = found["paths"]["/apps/{app_name}/users/{user_id}/sessions"]["get"]["parameters"][0]
    assert parameter["schema"] == {"enum": ["one", "two"]}
