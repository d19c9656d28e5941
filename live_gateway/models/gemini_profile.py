"""What differs from one Gemini Live model to the next, as one table. The first row whose pattern is found in a model's name describes it.

Rows come from vendor documentation and public reports; a model that no row knows is taken for a 2.5 model, the widest of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiProfile:
    """One model's ways.

    typed_text_is_realtime: typed text and images go as realtime input; as client content they end the connection with 1007.
    seeds_by_flag: earlier contents are taken only if the set-up announces them, and then without an answer; the set-up's announcement is
    closed by the content's own end of turn. one_input_transcription: what the user said comes once, whole, and never marked finished.
    scheduling: a tool's answer may say when the model is to speak about it. behavior: which functions it takes: blocking ones and
    others, others only (and no word about it in the declaration), or no word about it. updates: a call that was answered may be answered
    further (will_continue); else what a tool gives later is told in words. thinking_level: thinking may be set by level.
    """

    typed_text_is_realtime: bool = False
    seeds_by_flag: bool = False
    one_input_transcription: bool = False
    scheduling: bool = True
    behavior: Literal["any", "unsaid"] = "any"
    updates: bool = True
    thinking_level: bool = True


_TABLE: tuple[tuple[re.Pattern[str], GeminiProfile], ...] = (
    (
        re.compile(r"gemini-3\.8.*thinking"),
        GeminiProfile(
            typed_text_is_realtime=True,
            seeds_by_flag=True,
            one_input_transcription=True,
            scheduling=False,
            behavior="unsaid",
            updates=False,
        ),
    ),
    (
        re.compile(r"gemini-3\.8"),
        GeminiProfile(typed_text_is_realtime=True, seeds_by_flag=True, one_input_transcription=True, thinking_level=False),
    ),
    (re.compile(r"gemini-3"), GeminiProfile(typed_text_is_realtime=True, seeds_by_flag=True, one_input_transcription=True, updates=False)),
)


def profile_of(model: str) -> GeminiProfile:
    """The profile of a model by its name, with or without the path in front of it."""
    name = model.rpartition("/")[2].lower()
    return next((profile for pattern, profile in _TABLE if pattern.search(name)), GeminiProfile())
