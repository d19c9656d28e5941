"""The embedded memory: words, transcripts, and whose they are."""

from __future__ import annotations

from typing import Any

from live_gateway.content import Content, Part, Transcription, text_of, user_content
from live_gateway.events import Event
from live_gateway.memory.in_memory import InMemoryMemoryService

ME: dict[str, Any] = {"app_name": "app", "user_id": "u"}


async def found(memory: InMemoryMemoryService, query: str, **where: str) -> list[str]:
    return [text_of(entry.content) for entry in await memory.search(**{**ME, **where}, query=query)]


# case: K-LHIST-05
async def test_what_was_said_aloud_is_found() -> None:
    memory = InMemoryMemoryService()
    events = [
        Event(author="user", input_transcription=Transcription(text="My dog is called Bello.")),
        Event(author="bot", output_transcription=Transcription(text="A fine name")),
    ]
    await memory.add(**ME, session_id="s", events=events)
    assert await found(memory, "bello?") == ["My dog is called Bello."]
    (entry,) = await memory.search(**ME, query="FINE")
    assert (entry.author, entry.content.role, entry.session_id) == ("bot", "model", "s")


async def test_best_fit_comes_first_then_the_newest_and_the_limit_holds() -> None:
    memory = InMemoryMemoryService()
    texts = "red car", "red house", "red fast car", "blue"
    events = [Event(author="user", content=user_content(text), timestamp=float(at)) for at, text in enumerate(texts)]
    await memory.add(**ME, session_id="s", events=events)
    assert await found(memory, "fast red car") == ["red fast car", "red car", "red house"]
    assert len(await memory.search(**ME, query="red", limit=2)) == 2
    assert await found(memory, "") == []


async def test_a_session_added_again_replaces_itself() -> None:
    memory = InMemoryMemoryService()
    for text in ("old words", "new words"):
        await memory.add(**ME, session_id="s", events=[Event(author="user", content=user_content(text))])
    assert await found(memory, "words") == ["new words"]


async def test_only_the_users_own_sessions_of_the_app_are_searched_and_thoughts_and_pieces_are_left_out() -> None:
    memory = InMemoryMemoryService()
    thought = Content(role="model", parts=[Part(text="hidden word", thought=True), Part(text="said")])
    events = [
        Event(author="bot", content=thought),
        Event(author="bot", content=user_content("piece word"), partial=True),
        Event(author="bot"),
    ]
    await memory.add(**ME, session_id="s", events=events)
    assert await found(memory, "word") == []
    assert await found(memory, "said") == ["said"]
    assert await found(memory, "said", user_id="v") == []
    assert await found(memory, "said", app_name="other") == []
