"""Ready-made scripts for a `FakeGemini`, to develop against without a key: `live-gateway fake-gemini talk`.

| script | what it does with whatever the user says or types |
|---|---|
| `echo` | says the user's own audio back |
| `talk` | tells in words and voice that it heard something |
| `tools` | calls the next of the agent's tools, and then says that it is done |
| `interruption` | speaks for ten seconds, and stops when the user speaks |
| `rotations` | as `talk`; each connection gives handles, announces its end, and is to be taken up by the next one |

A path instead of a name plays a recording (`testing.recording`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from live_gateway.errors import ConfigurationError
from live_gateway.testing.fake_gemini import FakeGemini
from live_gateway.testing.gemini_steps import (
    SentKind,
    Step,
    call_declared,
    echo,
    expect_utterance,
    go_away,
    handle,
    hear,
    repeat,
    say,
    say_until_interrupted,
    turn_complete,
)

_HEARD: Final = "something that you said"
_ANYTHING: Final[tuple[SentKind, ...]] = (
    "audio", "video", "text", "activity_start", "activity_end", "audio_end", "content", "tool_response",
)  # fmt: skip

SCRIPTS: Final[Mapping[str, Sequence[Step]]] = MappingProxyType(
    {
        "echo": (repeat(expect_utterance(), echo(), turn_complete()),),
        "talk": (repeat(expect_utterance(), hear(_HEARD), say("I heard you. I am only a script.", ms=2400)),),
        "tools": (repeat(expect_utterance(), hear(_HEARD), call_declared(), say("That is done.", ms=1200)),),
        "interruption": (
            repeat(expect_utterance(), hear(_HEARD), say_until_interrupted("I could go on like this for a long time, so stop me.")),
        ),
        "rotations": (
            handle("fake-1"),
            expect_utterance(),
            hear(_HEARD),
            say("This connection will end soon, and you will not notice.", ms=2400),
            handle("fake-2"),
            go_away(60),
            repeat(expect_utterance(), hear(_HEARD), say("Still the old one.", ms=1200), handle("fake-3")),
        ),
    }
)


def scripted_gemini(script: str, *, host: str = "127.0.0.1", port: int = 0) -> FakeGemini:
    """A server that plays a ready-made script, or a recording, to everybody who connects.

    Raises `ConfigurationError` for a name that is neither.
    """
    if script in SCRIPTS:
        scripts: Sequence[Sequence[Step]] = [SCRIPTS[script]]
    elif Path(script).is_file():
        from live_gateway.testing.recording import replay

        scripts = replay(Path(script))
    else:
        raise ConfigurationError(f"there is no script {script!r}; there are {', '.join(SCRIPTS)}, and recordings by their path")
    return FakeGemini(*scripts, allow=_ANYTHING, again=True, strict=False, host=host, port=port)


async def serve_script(script: str, *, host: str = "127.0.0.1", port: int = 0, ready: Callable[[str], None]) -> None:
    """Play a script to everybody who connects, until cancelled. ready: is given the base URL once the server listens.

    Raises `ConfigurationError` for a script that there is not.
    """
    async with scripted_gemini(script, host=host, port=port) as gemini:
        ready(gemini.base_url)
        await asyncio.Event().wait()
