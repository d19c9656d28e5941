"""Run by `benchmarks.adk` with the interpreter of google-adk's environment: the turns a second of its Runner, as a JSON list.

    python adk_turns.py EVENTS TURNS ROUNDS
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator
from typing import Any

from google.genai import types


def _content(author: str, text: str) -> types.Content:
    return types.Content(role="user" if author == "user" else "model", parts=[types.Part(text=text)])


async def _round(length: int, turns: int) -> float:
    from google.adk.agents import LlmAgent  # type: ignore[import-not-found]
    from google.adk.events import Event  # type: ignore[import-not-found]
    from google.adk.models import BaseLlm, LlmResponse  # type: ignore[import-not-found]
    from google.adk.runners import Runner  # type: ignore[import-not-found]
    from google.adk.sessions import InMemorySessionService  # type: ignore[import-not-found]

    class ScriptedModel(BaseLlm):  # type: ignore[misc]
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[Any, None]:
            yield LlmResponse(content=_content("bot", "word " * 20))

    service = InMemorySessionService()
    session = await service.create_session(app_name="bench", user_id="u", session_id="s")
    for index in range(length):
        author = "bot" if index % 2 else "user"
        await service.append_event(session, Event(author=author, content=_content(author, f"message {index} of some words")))
    runner = Runner(app_name="bench", agent=LlmAgent(name="bot", model=ScriptedModel(model="scripted")), session_service=service)

    async def turn() -> None:
        async for _ in runner.run_async(user_id="u", session_id="s", new_message=_content("user", "a question of some words")):
            pass

    await turn()
    began = time.perf_counter()
    for _ in range(turns):
        await turn()
    return turns / (time.perf_counter() - began)


if __name__ == "__main__":
    events, wanted, rounds = (int(argument) for argument in sys.argv[1:])
    print(json.dumps([asyncio.run(_round(events, wanted)) for _ in range(rounds)]))
