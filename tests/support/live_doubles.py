"""Plugins and tools for tests of live sessions."""

from __future__ import annotations

from typing import Any

from live_gateway.content import Content
from live_gateway.plugins.base import Plugin


class Recorder(Plugin):
    """Counts the run's beginning and end."""

    def __init__(self, answer: Content | None = None, error: Exception | None = None) -> None:
        super().__init__("recorder")
        self.calls: list[str] = []
        self.answer = answer
        self.error = error

    async def before_run(self, invocation: Any) -> Content | None:
        self.calls.append("before_run")
        if self.error is not None:
            raise self.error
        return self.answer

    async def after_run(self, invocation: Any) -> None:
        self.calls.append("after_run")
