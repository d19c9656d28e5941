"""A chat-completions server through the openai client, against a server on the loopback; and the wire by itself."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from pydantic import BaseModel

from live_gateway.agents.config import RunConfig
from live_gateway.agents.llm import LlmAgent
from live_gateway.content import (
    Blob,
    Content,
    FileData,
    FinishReason,
    FunctionCall,
    FunctionDeclaration,
    FunctionResponse,
    GenerateContentConfig,
    Part,
    function_calls,
    model_content,
    text_of,
    user_content,
)
from live_gateway.errors import ModelError, ModelUnavailable, UpstreamLost, UpstreamPolicy, UpstreamQuota
from live_gateway.models.base import ModelRequest, ModelResponse
from live_gateway.models.openai import OpenAIModel
from live_gateway.models.openai_wire import body_of
from live_gateway.models.upstream import Patience
from live_gateway.runner import Runner
from tests.support.http_server import Reply, provider, refused_url
from tests.support.runs import run, short

QUICK = Patience(timeout_s=5, attempts=3, first_delay_s=0.001, max_delay_s=0.002)


def completion(finish: str = "stop", **message: Any) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": None, **message}}
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m-1", "choices": [choice], "usage": usage}


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m-1", "choices": [choice]}


def tool_call(call_id: str, name: str, arguments: str, **more: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


async def ask(url: str, patience: Patience = QUICK, **request: Any) -> list[ModelResponse]:
    model = OpenAIModel("m", base_url=f"{url}/v1", api_key="k", patience=patience)
    try:
        request.setdefault("contents", (user_content("hi"),))
        return [response async for response in model.generate(ModelRequest(**request))]
    finally:
        await model.aclose()


async def test_an_answer_with_what_came_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not for this server")
    async with provider(Reply(body=completion(content="hello", reasoning_content="hm"))) as server:
        (response,) = await ask(server.url, instruction="be brief")
    assert response.content is not None
    assert response.content.parts == [Part(text="hm", thought=True), Part(text="hello")]
    assert response.usage is not None
    assert (response.usage.total_token_count, response.finish_reason, response.model_version) == (3, FinishReason.STOP, "m-1")
    path, headers, body = server.asked[0]
    assert path == "/v1/chat/completions"
    assert headers["authorization"] == "Bearer k"
    assert body["messages"] == [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]


# contract: RUN-19
# case: K-FLOW-13
async def test_a_stream_gives_pieces_and_then_the_whole_with_calls_from_fragments() -> None:
    first = [tool_call("c1", "t", '{"a"', index=0), tool_call("c2", "u", "", index=1)]
    more = [{"index": 0, "function": {"arguments": ": 1}"}}]
    usage = chunk() | {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}
    chunks = [
        chunk(role="assistant", content=""),
        chunk(content="Hel"),
        chunk(content="lo"),
        chunk(tool_calls=first),
        chunk(tool_calls=more),
        chunk("tool_calls"),
        usage,
        "[DONE]",
    ]
    async with provider(Reply(chunks=chunks)) as server:
        *pieces, last = await ask(server.url, stream=True)
    assert [(text_of(piece.content), piece.partial) for piece in pieces] == [("Hel", True), ("lo", True)]
    assert text_of(last.content) == "Hello"
    assert [(call.id, call.name, call.args) for call in function_calls(last.content)] == [("c1", "t", {"a": 1}), ("c2", "u", {})]
    assert last.usage is not None
    assert server.asked[0][2]["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("arguments", ["{", "[1]", '{"x": NaN}', '{"x": 1e400}', '{"x": ' + "[" * 100_000])
async def test_arguments_that_do_not_parse_are_an_error_code(arguments: str) -> None:
    async with provider(Reply(body=completion("tool_calls", tool_calls=[tool_call("1", "t", arguments)]))) as server:
        (response,) = await ask(server.url)
    assert (response.content, response.error_code) == (None, "MALFORMED_FUNCTION_CALL")


async def test_half_of_a_surrogate_pair_in_arguments_becomes_a_question_mark() -> None:
    arguments = '{"x": "half \\ud83d", "y": "whole \\ud83d\\ude00"}'
    async with provider(Reply(body=completion("tool_calls", tool_calls=[tool_call("1", "t", arguments)]))) as server:
        (response,) = await ask(server.url)
    assert function_calls(response.content)[0].args == {"x": "half ?", "y": "whole 😀"}


async def test_a_filtered_answer_says_so() -> None:
    async with provider(Reply(body=completion("content_filter"))) as server:
        (response,) = await ask(server.url)
    assert (response.error_code, response.finish_reason) == ("SAFETY", FinishReason.SAFETY)


@pytest.mark.parametrize(
    ("status", "kind", "asked"),
    [(429, UpstreamQuota, 1), (401, UpstreamPolicy, 1), (404, UpstreamPolicy, 1), (400, UpstreamPolicy, 1), (503, UpstreamLost, 3)],
)
async def test_failures_are_typed_and_only_those_that_pass_are_tried_again(status: int, kind: type[ModelError], asked: int) -> None:
    reply = Reply(status, {"error": {"message": "the secret prompt", "code": "some_code"}})
    async with provider(*[reply] * 4) as server:
        with pytest.raises(kind) as caught:
            await ask(server.url)
    assert len(server.asked) == asked
    assert "secret" not in str(caught.value)


async def test_nobody_there_and_a_silent_server_are_upstream_lost() -> None:
    with pytest.raises(UpstreamLost):
        await ask(refused_url())
    async with provider(Reply(chunks=[], stall=True)) as server:
        with pytest.raises(UpstreamLost):
            await ask(server.url, Patience(timeout_s=0.2, attempts=1), stream=True)


def test_without_the_extra_the_model_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ModelUnavailable, match=r"live-gateway\[openai\]"):
        OpenAIModel("m", base_url="http://x/v1")


async def test_a_whole_run_with_a_tool() -> None:
    def weather(city: str) -> str:
        """The weather in a city."""
        return f"sunny in {city}"

    replies = [
        Reply(chunks=[chunk(tool_calls=[tool_call("", "weather", '{"city": "Rome"}', index=0)]), chunk("tool_calls"), "[DONE]"]),
        Reply(chunks=[chunk(content="It is "), chunk("stop", content="sunny."), "[DONE]"]),
    ]
    async with provider(*replies) as server:
        model = OpenAIModel("m", base_url=f"{server.url}/v1", patience=QUICK)
        runner = Runner.in_memory("app", LlmAgent(name="bot", model=model, tools=[weather]))
        events = await run(runner, config=RunConfig(streaming_mode="sse"))
        await model.aclose()
    assert short(events) == [
        "bot: FC(weather)",
        "bot: FR(weather:{'result': 'sunny in Rome'})",
        "bot~: It is ",
        "bot~: sunny.",
        "bot: It is sunny.",
    ]
    declared = server.asked[0][2]["tools"][0]["function"]
    assert declared["name"] == "weather"
    assert declared["parameters"]["required"] == ["city"]
    asked, answered = server.asked[1][2]["messages"][1:]
    assert asked["tool_calls"][0]["id"] == answered["tool_call_id"]
    assert json.loads(answered["content"]) == {"result": "sunny in Rome"}


def messages(*contents: Content) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = body_of("m", ModelRequest(contents=contents))["messages"]
    return written


def called(*names: str, ids: tuple[str | None, ...]) -> Content:
    pairs = zip(names, ids, strict=True)
    return model_content([Part(function_call=FunctionCall(name=name, id=call_id, args={})) for name, call_id in pairs])


def responded(*names: str, ids: tuple[str | None, ...]) -> Content:
    pairs = zip(names, ids, strict=True)
    parts = [Part(function_response=FunctionResponse(name=name, id=call_id, response={})) for name, call_id in pairs]
    return Content(role="user", parts=[*parts, Part(text="and a word")])


def test_calls_without_ids_get_one_and_are_paired_by_name_in_order() -> None:
    ids: tuple[str | None, ...] = (None, None, "own")
    asked, *answered, said = messages(called("a", "a", "b", ids=ids), responded("a", "a", "b", ids=ids))
    assert [call["id"] for call in asked["tool_calls"]] == ["made_1", "made_2", "own"]
    assert [message["tool_call_id"] for message in answered] == ["made_1", "made_2", "own"]
    assert said == {"role": "user", "content": "and a word"}
    with pytest.raises(ModelError, match="'a'"):
        messages(responded("a", ids=(None,)))


def test_images_and_sound_are_sent_thoughts_are_not_and_the_rest_is_refused() -> None:
    parts = [
        Part(text="look"),
        Part(inline_data=Blob(data=b"\x01", mime_type="image/png")),
        Part(inline_data=Blob(data=b"\x01", mime_type="audio/wav")),
        Part(file_data=FileData(file_uri="https://x/y.png")),
    ]
    (message,) = messages(Content(role="user", parts=parts))
    assert [each["type"] for each in message["content"]] == ["text", "image_url", "input_audio", "image_url"]
    assert message["content"][1]["image_url"]["url"] == "data:image/png;base64,AQ=="
    assert messages(model_content([Part(text="hm", thought=True)])) == []
    with pytest.raises(ModelError, match="video/mp4"):
        messages(Content(role="user", parts=[Part(inline_data=Blob(data=b"", mime_type="video/mp4"))]))


class Weather(BaseModel):
    celsius: int


def test_settings_are_translated() -> None:
    config = GenerateContentConfig(temperature=0.1, max_output_tokens=5, stop_sequences=["x"], seed=1, response_schema=Weather)
    body = body_of("m", ModelRequest(contents=(), config=config))
    assert {name: body[name] for name in ("temperature", "max_tokens", "stop", "seed")} == {
        "temperature": 0.1,
        "max_tokens": 5,
        "stop": ["x"],
        "seed": 1,
    }
    assert body["response_format"]["json_schema"]["name"] == "Weather"
    as_json = body_of("m", ModelRequest(contents=(), config=GenerateContentConfig(response_mime_type="application/json")))
    assert as_json["response_format"] == {"type": "json_object"}


def test_a_declaration_with_a_schema_object_is_translated() -> None:
    from google.genai.types import Schema, Type

    schema = Schema(type=Type.OBJECT, properties={"n": Schema(type=Type.INTEGER)}, required=["n"])
    tools = FunctionDeclaration(name="t", parameters=schema), FunctionDeclaration(name="u")
    first, second = body_of("m", ModelRequest(contents=(), tools=tools))["tools"]
    assert first["function"]["parameters"]["properties"]["n"]["type"] == "integer"
    assert second["function"]["parameters"] == {"type": "object", "properties": {}}
