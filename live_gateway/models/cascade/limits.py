"""How long a cascade waits and how much it holds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadeLimits:
    """Bounds of one connection. Seconds, where not said otherwise.

    setup_s: for the models to be loaded. model_s: for each piece of the text model's answer. tools_s: for the answers to its calls; after
    it the turn ends, and an answer that comes later is spoken then. rounds: how often the text model may be asked in one turn.
    input_s: how much audio may wait to be heard; beyond, the oldest is dropped and counted. room_s: how long a sender waits for room before
    that happens. output_messages: how much of an answer is made ahead (a message of audio has 40 ms). history: messages remembered.
    """

    setup_s: float = 30.0
    model_s: float = 30.0
    tools_s: float = 60.0
    rounds: int = 8
    input_s: float = 5.0
    room_s: float = 1.0
    output_messages: int = 64
    history: int = 200
