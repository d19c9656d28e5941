"""Puts on record what a dead process left undone."""

from __future__ import annotations

import time
from contextlib import suppress

from live_gateway.confirmation import Questions, interruption
from live_gateway.errors import DuplicateEvent
from live_gateway.sessions.base import Session, SessionService


async def record_interrupted(sessions: SessionService, session: Session, questions: Questions) -> None:
    """Record the calls that were approved long ago and have no result, before a model is asked about anything else.

    Raises `SessionNotFound`, `StorageError`.
    """
    for question in questions.interrupted(time.time()):
        with suppress(DuplicateEvent):  # somebody else did it
            await sessions.append_event(session, interruption(question))
