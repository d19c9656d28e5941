"""What a text turn costs beside the model: by the length of the session and by store, the prompt by itself, and streaming."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Callable
from typing import Literal

from benchmarks.store import LENGTHS, STORES
from benchmarks.table import show, spread
from live_gateway.agents.config import RunConfig
from live_gateway.agents.llm import LlmAgent
from live_gateway.content import Content, FunctionCall, FunctionResponse, Part, Transcription, model_content, user_content
from live_gateway.events import Event
from live_gateway.flow.contents import View, build_contents
from live_gateway.models.base import ModelRequest, ModelResponse
from live_gateway.runner import Runner
from live_gateway.sessions.base import SessionService

ROUNDS = 5
TURNS = 20
RUNS = 100
PIECES = 20
QUESTION = user_content("a question of some words")


class PromptModel:
    """Answers at once: in pieces where pieces are wanted."""

    name = "prompt"

    def __init__(self) -> None:
        piece = model_content([Part(text="word ")])
        self._pieces = [ModelResponse(content=piece, partial=True)] * PIECES
        self._whole = ModelResponse(content=model_content([Part(text="word " * PIECES)]))

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelResponse]:
        """The prepared answer."""
        for piece in self._pieces if request.stream else ():
            yield piece
        yield self._whole


def main() -> None:
    """Print the tables."""
    _prompts()
    asyncio.run(_turns("one turn, ms", "default"))
    asyncio.run(_turns("one turn of which the model sees the newest message alone, ms", "none"))
    asyncio.run(_streaming())


def _prompts() -> None:
    kinds: dict[str, Callable[[int], list[Event]]] = {"text": _texts, "tools": _tools, "speech": _speech}
    rows = []
    for name, make in kinds.items():
        cells = [name]
        for length in LENGTHS:
            events = make(length)
            build_contents(events, View(agent="bot"))
            cells.append(spread([_prompt(events) for _ in range(ROUNDS)], 3))
        rows.append(cells)
    show(["building a prompt, ms", *(f"{length} events" for length in LENGTHS)], rows)


def _prompt(events: list[Event]) -> float:
    began = time.perf_counter()
    for _ in range(TURNS):
        build_contents(events, View(agent="bot"))
    return (time.perf_counter() - began) * 1000 / TURNS


def _texts(length: int) -> list[Event]:
    return [_said("bot" if index % 2 else "user", f"message {index} of some words") for index in range(length)]


def _said(author: str, text: str) -> Event:
    return Event(author=author, content=Content(role="user" if author == "user" else "model", parts=[Part(text=text)]))


def _tools(length: int) -> list[Event]:
    events: list[Event] = []
    for index in range(length // 4):
        call = FunctionCall(name="look", id=f"adk-{index}", args={"index": index})
        response = FunctionResponse(name="look", id=f"adk-{index}", response={"result": index})
        events += [
            _said("user", "a question"),
            Event(author="bot", content=model_content([Part(function_call=call)])),
            Event(author="bot", content=Content(role="user", parts=[Part(function_response=response)])),
            _said("bot", "an answer"),
        ]
    return events


def _speech(length: int) -> list[Event]:
    spoken = Transcription(text="some words", finished=True)
    return [
        Event(author="bot", output_transcription=spoken.model_copy())
        if index % 2
        else Event(author="user", input_transcription=spoken.model_copy())
        for index in range(length)
    ]


async def _turns(title: str, contents: Literal["default", "none"]) -> None:
    rows = []
    for name, opened in STORES.items():
        medians = []
        cells = [name]
        for length in LENGTHS:
            async with opened() as service:
                runner = await _prepared(service, length, contents)
                times = [await _turn(runner) for _ in range(ROUNDS)]
            medians.append(statistics.median(times))
            cells.append(spread(times, 3))
        rows.append([*cells, f"{medians[-1] / medians[0]:.2f}"])
    show([title, *(f"{length} events" for length in LENGTHS), "longest to shortest"], rows)


async def _prepared(service: SessionService, length: int, contents: Literal["default", "none"] = "default") -> Runner:
    session = await service.create(app_name="bench", user_id="u", session_id="s")
    for event in _texts(length):
        await service.append_event(session, event)
    agent = LlmAgent(name="bot", model=PromptModel(), include_contents=contents)
    runner = Runner(app_name="bench", agent=agent, session_service=service)
    await _read(runner, RunConfig())
    return runner


async def _turn(runner: Runner) -> float:
    began = time.perf_counter()
    for _ in range(TURNS):
        await _read(runner, RunConfig())
    return (time.perf_counter() - began) * 1000 / TURNS


async def _streaming() -> None:
    rates: list[float] = []
    for _ in range(ROUNDS):
        async with STORES["memory"]() as service:
            runner = await _prepared(service, 10)
            began = time.perf_counter()
            events = sum([await _read(runner, RunConfig(streaming_mode="sse")) for _ in range(RUNS)])
            rates.append(events / (time.perf_counter() - began))
    show(["streaming into memory", f"events a second, {PIECES} pieces and a whole"], [["", spread(rates, 0)]])


async def _read(runner: Runner, config: RunConfig) -> int:
    return len([event async for event in runner.run(user_id="u", session_id="s", message=QUESTION, config=config)])
