"""Run by `benchmarks.adk` with the interpreter of google-adk's environment: the turns a second of its Runner, as a JSON list.

python adk_turns.py EVENTS TURNS ROUNDS
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections.abc import AsyncGenerator
from importlib import import_module
from typing import Any

from google.genai import types


def _content(author: str, text: str) -> types.Content:
    return types.Content(role="user" if author == "user" else "model", parts=[types.Part(text=text)])


def _model(models: Any) -> Any:
    """A model that answers at once."""

    async def generate(self: object, llm_request: object, stream: bool = False) -> AsyncGenerator[Any, None]:
        yield models.LlmResponse(content=_content("bot", "word " * 20))

    return type("ScriptedModel", (models.BaseLlm,), {"generate_content_async": generate})(model="scripted")


async def _round(length: int, turns: int) -> float:
    adk = {name: import_module(f"google.adk.{name}") for name in ("agents", "events", "models", "runners", "sessions")}
    model = _model(adk["models"])
    service = adk["sessions"].InMemorySessionService()
    session = await service.create_session(app_name="bench", user_id="u", session_id="s")
    for index in range(length):
        author = "bot" if index % 2 else "user"
        await service.append_event(session, adk["events"].Event(author=author, content=_content(author, f"message {index} of some words")))
    agent = adk["agents"].LlmAgent(name="bot", model=model)
    runner = adk["runners"].Runner(app_name="bench", agent=agent, session_service=service)

    async def turn() -> None:
        async for _ in runner.run_async(user_id="u", session_id="s", new_message=_content("user", "a question of some words")):
            pass

    await turn()
    began = time.perf_counter()
    for _ in range(turns):
        await turn()
    return turns / (time.perf_counter() - began)


if __name__ == "__main__":
    logging.disable()  # a warning for each turn would be counted as theirs
    events, wanted, rounds = (int(argument) for argument in sys.argv[1:])
    print(json.dumps([asyncio.run(_round(events, wanted)) for _ in range(rounds)]))
