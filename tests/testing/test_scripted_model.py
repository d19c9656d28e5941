"""The scripted text model."""

from __future__ import annotations

import asyncio

import pytest

from live_gateway.content import FunctionCall, function_calls, text_of, user_content
from live_gateway.errors import UpstreamQuota
from live_gateway.models.base import Model, ModelRequest, ModelResponse
from live_gateway.testing import ScriptedModel
from live_gateway.testing.scripted_model import calls, pieces

pytestmark = pytest.mark.virtual_time


async def _ask(model: Model, text: str = "q", *, stream: bool = False) -> list[ModelResponse]:
    return [response async for response in model.generate(ModelRequest(contents=(user_content(text),), stream=stream))]


async def test_one_answer_for_each_request() -> None:
    with ScriptedModel(["one", FunctionCall(id="1", name="f", args={}), calls(FunctionCall(name="g"), text="and")]) as model:
        assert [text_of(response.content) for response in await _ask(model, "first")] == ["one"]
        assert [call.name for call in function_calls((await _ask(model))[0].content)] == ["f"]
        last = (await _ask(model))[0].content
    assert (text_of(last), [call.name for call in function_calls(last)]) == ("and", ["g"])
    assert text_of(model.requests[0].contents[-1]) == "first"


async def test_pieces_come_only_in_a_stream_and_the_whole_equals_them() -> None:
    model = ScriptedModel([pieces("Hel", "lo"), pieces("Hel", "lo")])
    streamed = await _ask(model, stream=True)
    assert [(text_of(response.content), response.partial) for response in streamed] == [("Hel", True), ("lo", True), ("Hello", False)]
    assert [text_of(response.content) for response in await _ask(model)] == ["Hello"]


async def test_errors_and_gates() -> None:
    gate = asyncio.Event()
    model = ScriptedModel([UpstreamQuota("enough"), [gate, "late"], [*pieces("a")[:1], UpstreamQuota("mid-stream")]])
    with pytest.raises(UpstreamQuota, match="enough"):
        await _ask(model)
    loop = asyncio.get_running_loop()
    loop.call_later(9, gate.set)
    start = loop.time()
    assert len(await _ask(model)) == 1
    assert loop.time() - start == pytest.approx(9)
    with pytest.raises(UpstreamQuota, match="mid-stream"):
        await _ask(model, stream=True)


async def test_a_request_too_many_and_an_answer_too_many_fail() -> None:
    model = ScriptedModel(["one"])
    with pytest.raises(AssertionError, match="1 answers, 0 requests"):
        model.verify()
    await _ask(model)
    model.verify()
    with pytest.raises(AssertionError, match=r"2 requests\n.*asked 1: ... user: q\n.*user: again"):
        await _ask(model, "again")
    with pytest.raises(AssertionError):
        model.verify()
