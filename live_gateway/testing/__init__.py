"""What tests of an agent need; part of the package, and strict about what they are told.

- `ScriptedLiveModel` plays a live model from a script: what it expects to be sent, and what it says (the steps are in `testing.steps`).
- `FakeGemini` is a Gemini Live server on this machine that plays a script (its steps are in `testing.gemini_steps`); `Recorder` records a
  real one, for it to play again.
- `ScriptedModel` plays a text model from a list of answers, and records what it was asked.
- `FaultySessionService` wraps a store and makes it fail, wait or take long.
- `VirtualTimeLoop` is an event loop whose time jumps, `VirtualClock` the clock that goes with it, `run` runs a coroutine on it.

    with ScriptedLiveModel([steps.expect_content("hello"), steps.say("Hi!")]) as model:
        ...  # leaving the block fails the test if the model was sent something else, or if a step is left
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from live_gateway.testing import gemini_steps, steps
    from live_gateway.testing.fake_gemini import FakeGemini
    from live_gateway.testing.recording import Recorder
    from live_gateway.testing.scripted_live import ScriptedLiveModel
    from live_gateway.testing.scripted_model import ScriptedModel
    from live_gateway.testing.sessions import FaultySessionService
    from live_gateway.testing.virtual_time import DeadlockError, VirtualClock, VirtualTimeLoop, run

__all__ = [
    "DeadlockError",
    "FakeGemini",
    "FaultySessionService",
    "Recorder",
    "ScriptedLiveModel",
    "ScriptedModel",
    "VirtualClock",
    "VirtualTimeLoop",
    "gemini_steps",
    "run",
    "steps",
]

_HOME = {
    "DeadlockError": "virtual_time",
    "FakeGemini": "fake_gemini",
    "FaultySessionService": "sessions",
    "Recorder": "recording",
    "ScriptedLiveModel": "scripted_live",
    "ScriptedModel": "scripted_model",
    "VirtualClock": "virtual_time",
    "VirtualTimeLoop": "virtual_time",
    "run": "virtual_time",
}


def __getattr__(name: str) -> Any:
    """Import a double when it is first asked for; a program that uses one pays for that one only."""
    if name in ("steps", "gemini_steps"):
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
