"""Tools, callbacks and content in live sessions on Gemini Live, over real sockets, by the checks of what users reported."""

from __future__ import annotations

import asyncio
from typing import Any

from live_gateway.agents.llm import LlmAgent
from live_gateway.content import Blob, Content, FunctionCall, Part, model_content, user_content
from live_gateway.live.items import Stored, ToolStarted
from live_gateway.models.base import ModelResponse
from live_gateway.plugins.base import Plugin
from live_gateway.runner import Runner
from live_gateway.testing.fake_gemini import FakeGemini
from live_gateway.testing.gemini_steps import (
    Step,
    call,
    content,
    expect_content,
    expect_text,
    expect_tool_response,
    expect_video,
    interrupted,
    pause,
    send,
    turn_complete,
    write,
)
from live_gateway.testing.scripted_model import ScriptedModel
from tests.support.gemini import gemini_model
from tests.support.live import go_live, in_short, live_runner, stored, until


# report: A29
async def test_a_call_in_a_long_answer_runs_and_is_announced_at_once_and_recorded_after_the_words() -> None:
    ran: list[float] = []
    loop = asyncio.get_running_loop()

    def act() -> str:
        """Do something."""
        ran.append(loop.time())
        return "done"

    words: list[Step] = []
    for number in range(20):
        words += [content(outputTranscription={"text": f"{number} "}), pause(0.05)]
    script = [*words[:4], call("act", id="c1"), *words[4:], turn_complete()]
    async with FakeGemini(script, allow={"tool_response"}) as gemini:
        runner = live_runner(gemini_model(gemini), tools=[act])
        async with go_live(runner) as live:
            announced = recorded = spoken = 0.0
            async for item in live.items():
                if isinstance(item, ToolStarted):
                    announced = loop.time()
                elif isinstance(item, Stored) and item.event.output_transcription is not None:
                    spoken = loop.time()
                elif isinstance(item, Stored) and item.event.function_calls:
                    recorded = loop.time()
                elif isinstance(item, Stored) and item.event.turn_complete:
                    break
        kept = in_short(await stored(runner))
    assert abs(ran[0] - announced) < 0.1
    assert spoken - announced > 0.5, "the words went on long after the call"
    assert recorded >= spoken
    assert [line.split(" ")[0] for line in kept] == ["OUT", "call", "resp", "done"]


class _Noting(Plugin):
    def __init__(self, seen: list[str]) -> None:
        self.name = "noting"
        self._seen = seen

    async def before_tool(self, *_: Any) -> None:
        self._seen.append("plugin before")

    async def after_tool(self, *_: Any) -> None:
        self._seen.append("plugin after")


# report: A31
async def test_a_tool_meets_the_same_callbacks_in_text_and_in_live() -> None:
    seen: list[str] = []

    def own(word: str) -> Any:
        async def callback(*_: Any) -> None:
            seen.append(word)

        return callback

    def act() -> str:
        """Do something."""
        seen.append("tool")
        return "done"

    async with FakeGemini([call("act", id="c1"), expect_tool_response("c1"), write("ok")]) as gemini:
        agent = LlmAgent(
            name="agent",
            model=ScriptedModel([FunctionCall(id="c1", name="act", args={}), "ok"]),
            live_model=gemini_model(gemini),
            tools=[act],
            before_tool=own("agent before"),
            after_tool=own("agent after"),
        )
        runner = Runner.in_memory("app", agent, plugins=[_Noting(seen)])
        async with runner.run(user_id="u", session_id="text", message=user_content("go")) as events:
            async for _ in events:
                pass
        in_text = list(seen)
        seen.clear()
        async with go_live(runner) as live:
            await until(live, lambda event: bool(event.turn_complete))
    assert in_text == seen == ["plugin before", "agent before", "tool", "plugin after", "agent after"]


# report: A41
async def test_a_call_whose_arguments_were_cut_off_is_neither_run_nor_recorded() -> None:
    ran: list[str] = []

    def act(a: str) -> None:
        """Do something."""
        ran.append(a)

    piece = {"id": "c1", "name": "act", "willContinue": True, "partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}]}
    script = [send({"toolCall": {"functionCalls": [piece]}}), interrupted(), turn_complete(), write("still here")]
    async with FakeGemini(script) as gemini:
        runner = live_runner(gemini_model(gemini), tools=[act])
        async with go_live(runner) as live:
            await until(live, lambda event: event.text == "still here")
    assert ran == []
    assert not [event for event in await stored(runner) if event.function_calls or event.function_responses]


# report: A45
async def test_text_and_image_of_one_message_go_up_in_its_order_as_realtime_input() -> None:
    png = b"\x89PNG"
    message = Content(role="user", parts=[Part(inline_data=Blob(data=png, mime_type="image/png")), Part(text="what is this?")])
    async with FakeGemini([expect_video(), expect_text("what is this?"), write("a picture")]) as gemini:
        runner = live_runner(gemini_model(gemini, name="gemini-3.1-flash-live"))
        async with go_live(runner) as live:
            await live.send(message)
            await until(live, lambda event: bool(event.turn_complete))
        assert [sent.kind for sent in gemini.connections[0].sent] == ["setup", "video", "text"]


# report: A59
async def test_a_message_that_a_callback_answers_is_not_sent() -> None:
    async def block(_context: object, request: Any) -> ModelResponse | None:
        asked = any(part.text == "forbidden" for each in request.contents for part in each.parts or ())
        return ModelResponse(content=model_content([Part(text="blocked")])) if asked else None

    async with FakeGemini([expect_content(), write("fine")]) as gemini:
        runner = live_runner(gemini_model(gemini), before_model=block)
        async with go_live(runner) as live:
            await live.send(user_content("forbidden"))
            (blocked,) = await until(live, lambda event: bool(event.turn_complete))
            assert (blocked.text, blocked.turn_complete) == ("blocked", True)
            assert [sent.kind for sent in gemini.connections[0].sent] == ["setup"]
            assert in_short(await stored(runner)) == ['user "forbidden"', 'agent "blocked"']
            await live.send(user_content("hello"))
            await until(live, lambda event: event.text == "fine")
