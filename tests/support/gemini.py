"""Models and connections over a `FakeGemini` for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from live_gateway.content import Content, user_content
from live_gateway.models.gemini_connection import GeminiConnection
from live_gateway.models.gemini_live import GeminiLiveModel
from live_gateway.models.gemini_options import GeminiOptions
from live_gateway.models.live import AudioOut, ConnectionNotice, History, LiveMessage, LiveSetup, TextOut, Transcript
from live_gateway.testing.fake_gemini import FakeGemini

PATIENCE_S = 10.0


def gemini_model(gemini: FakeGemini | None = None, *, port: int = 0, name: str = "gemini-live", **options: Any) -> GeminiLiveModel:
    """A model whose service is the fake, or whatever listens at a port of this machine. Waits are not spread."""
    url = gemini.base_url if gemini is not None else f"http://127.0.0.1:{port}"
    return GeminiLiveModel(name, api_key="test-key", base_url=url, options=GeminiOptions(jitter=False, **options))


@asynccontextmanager
async def connected(model: GeminiLiveModel, setup: LiveSetup | None = None) -> AsyncIterator[GeminiConnection]:
    """A connection of the model."""
    async with model.connect(setup or LiveSetup()) as connection:
        yield connection


async def take(connection: GeminiConnection, done: Callable[[LiveMessage], bool]) -> list[LiveMessage]:
    """The messages up to and including the first for which `done` is true; fails the test at the end, or after ten seconds."""
    taken: list[LiveMessage] = []
    async with asyncio.timeout(PATIENCE_S):
        while (message := await connection.receive()) is not None:
            taken.append(message)
            if done(message):
                return taken
    raise AssertionError(f"the connection ended before that; it gave {brief(taken)}")


async def rest(connection: GeminiConnection) -> list[LiveMessage]:
    """Everything until the model ends the session."""
    taken: list[LiveMessage] = []
    async with asyncio.timeout(PATIENCE_S):
        while (message := await connection.receive()) is not None:
            taken.append(message)
    return taken


def notice(code: str) -> Callable[[LiveMessage], bool]:
    """Whether a message is this notice."""
    return lambda message: isinstance(message, ConnectionNotice) and message.code == code


def kind(wanted: type[Any]) -> Callable[[LiveMessage], bool]:
    """Whether a message is of this kind."""
    return lambda message: isinstance(message, wanted)


def written(words: str) -> Callable[[LiveMessage], bool]:
    """Whether a message is this text."""
    return lambda message: isinstance(message, TextOut) and message.text == words


def brief(messages: Sequence[LiveMessage]) -> list[str]:
    """Messages in a word each; audio that follows audio is left out."""
    words: list[str] = []
    for message in messages:
        word = type(message).__name__
        if isinstance(message, ConnectionNotice):
            word = message.code
        elif isinstance(message, TextOut):
            word = f"text {message.text}"
        elif isinstance(message, Transcript):
            word = f"{'in' if message.role == 'user' else 'out'} {message.text}"
        if not (isinstance(message, AudioOut) and words[-1:] == ["AudioOut"]):
            words.append(word)
    return words


def told(*contents: Content | str, unanswered: bool = False) -> LiveSetup:
    """A set-up with this history; texts alternate between user and model."""

    async def history() -> History:
        return History(
            [
                content if isinstance(content, Content) else user_content(content) if index % 2 == 0 else _model(content)
                for index, content in enumerate(contents)
            ],
            unanswered=unanswered,
        )

    return LiveSetup(history=history)


def _model(text: str) -> Content:
    content = user_content(text)
    return content.model_copy(update={"role": "model"})
