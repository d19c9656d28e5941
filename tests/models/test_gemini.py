"""Gemini through its client, against a server on the loopback."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from live_gateway.content import Content, FinishReason, FunctionDeclaration, GenerateContentConfig, Part, text_of, user_content
from live_gateway.errors import ModelError, ModelUnavailable, UpstreamLost, UpstreamPolicy, UpstreamQuota, facts
from live_gateway.models.base import ModelRequest, ModelResponse
from live_gateway.models.gemini import GeminiModel
from live_gateway.models.upstream import Patience
from tests.support.http_server import Reply, provider, refused_url

QUICK = Patience(timeout_s=5, attempts=3, first_delay_s=0.001, max_delay_s=0.002)


def answer(*parts: dict[str, Any], reason: str | None = "STOP", **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}} if parts else {}
    return {"candidates": [candidate | ({"finishReason": reason} if reason else {})], "modelVersion": "g-1", **more}


def error(status: int, word: str) -> Reply:
    return Reply(status, {"error": {"code": status, "message": "the secret prompt", "status": word}})


async def ask(url: str, patience: Patience = QUICK, **request: Any) -> list[ModelResponse]:
    model = GeminiModel("gemini-x", api_key="k", base_url=url, patience=patience)
    try:
        request.setdefault("contents", (user_content("hi"),))
        return [response async for response in model.generate(ModelRequest(**request))]
    finally:
        await model.aclose()


async def test_an_answer_with_what_came_with_it() -> None:
    reply = answer({"text": "hello"}, usageMetadata={"totalTokenCount": 7})
    async with provider(Reply(body=reply)) as server:
        (response,) = await ask(
            server.url,
            instruction="be brief",
            tools=(FunctionDeclaration(name="t", parameters_json_schema={"type": "object"}),),
            config=GenerateContentConfig(temperature=0.5),
        )
    assert text_of(response.content) == "hello"
    assert not response.partial
    assert response.usage is not None
    assert (response.usage.total_token_count, response.finish_reason, response.model_version) == (7, FinishReason.STOP, "g-1")
    path, headers, body = server.asked[0]
    assert path.endswith("models/gemini-x:generateContent")
    assert headers["x-goog-api-key"] == "k"
    assert body["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]
    assert body["systemInstruction"]["parts"] == [{"text": "be brief"}]
    assert body["tools"][0]["functionDeclarations"][0]["name"] == "t"
    assert body["generationConfig"]["temperature"] == 0.5


# contract: RUN-19
# case: K-FLOW-13
async def test_a_stream_gives_pieces_and_then_the_whole() -> None:
    call = {"functionCall": {"name": "t", "args": {"a": 1}}}
    chunks = [answer({"text": "Hel"}, reason=None), answer({"text": "lo"}, reason=None), answer(call, usageMetadata={"totalTokenCount": 3})]
    async with provider(Reply(chunks=chunks)) as server:
        *pieces, last = await ask(server.url, stream=True)
    assert [(text_of(piece.content), piece.partial) for piece in pieces] == [("Hel", True), ("lo", True)]
    assert not last.partial
    assert last.content is not None
    assert [part.text for part in last.content.parts or ()] == ["Hello", None]
    assert last.usage is not None
    assert server.asked[0][0].endswith(":streamGenerateContent")


@pytest.mark.parametrize(
    ("reply", "code"),
    [(answer(reason="SAFETY"), "SAFETY"), ({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, "PROHIBITED_CONTENT")],
)
async def test_an_answer_that_was_withheld_says_why(reply: dict[str, Any], code: str) -> None:
    async with provider(Reply(body=reply)) as server:
        (response,) = await ask(server.url)
    assert (response.content, response.error_code) == (None, code)


# report: A12
@pytest.mark.parametrize(
    ("reply", "kind", "retryable"),
    [
        (error(429, "RESOURCE_EXHAUSTED"), UpstreamQuota, True),
        (error(400, "INVALID_ARGUMENT"), UpstreamPolicy, False),
        (error(403, "PERMISSION_DENIED"), UpstreamPolicy, False),
        (error(404, "NOT_FOUND"), UpstreamPolicy, False),
    ],
)
async def test_a_refusal_is_typed_never_tried_again_and_repeats_no_words_of_the_provider(
    reply: Reply, kind: type[ModelError], retryable: bool
) -> None:
    async with provider(reply) as server:
        with pytest.raises(kind) as caught:
            await ask(server.url)
    assert len(server.asked) == 1
    assert facts(caught.value).retryable is retryable
    assert str(reply.status) in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_failure_that_passes_is_tried_again(stream: bool) -> None:
    good = Reply(chunks=[answer({"text": "ok"})]) if stream else Reply(body=answer({"text": "ok"}))
    async with provider(error(503, "UNAVAILABLE"), error(500, "INTERNAL"), good) as server:
        responses = await ask(server.url, stream=stream)
    assert text_of(responses[-1].content) == "ok"
    assert len(server.asked) == 3


async def test_it_gives_up_after_so_many_attempts() -> None:
    async with provider(*[error(503, "UNAVAILABLE")] * 4) as server:
        with pytest.raises(UpstreamLost):
            await ask(server.url)
    assert len(server.asked) == 3


async def test_an_answer_that_has_begun_is_not_asked_for_again() -> None:
    broken = Reply(chunks=[answer({"text": "half"}, reason=None)], break_off=True)
    async with provider(broken) as server:
        model = GeminiModel("gemini-x", api_key="k", base_url=server.url, patience=QUICK)
        answers = aiter(model.generate(ModelRequest(contents=(user_content("hi"),), stream=True)))
        first = await anext(answers)
        with pytest.raises(UpstreamLost):
            await anext(answers)
        await model.aclose()
    assert text_of(first.content) == "half"
    assert len(server.asked) == 1


async def test_a_silent_provider_is_given_up() -> None:
    async with provider(Reply(chunks=[], stall=True)) as server:
        with pytest.raises(UpstreamLost):
            await ask(server.url, Patience(timeout_s=0.2, attempts=1), stream=True)


async def test_nobody_there_is_upstream_lost() -> None:
    with pytest.raises(UpstreamLost):
        await ask(refused_url())


async def test_without_a_key_the_model_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ModelUnavailable, match="GEMINI_API_KEY"):
        await anext(aiter(GeminiModel("gemini-x").generate(ModelRequest(contents=()))))


class Weather(BaseModel):
    celsius: int


async def test_a_request_changes_neither_its_config_nor_its_contents() -> None:
    config = GenerateContentConfig(response_schema=Weather, response_mime_type="application/json")
    content = Content(role="user", parts=[Part(text="hi")])
    before = config.model_copy(deep=True), content.model_copy(deep=True)
    async with provider(Reply(body=answer({"text": '{"celsius": 3}'}))) as server:
        await ask(server.url, contents=(content,), config=config, instruction="x")
    assert (config, content) == before
    assert server.asked[0][2]["generationConfig"]["responseMimeType"] == "application/json"
