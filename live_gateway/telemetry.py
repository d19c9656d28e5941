"""Logs that never contain content.

A log line is an event name and fields. Only the field names listed here come out; a text, a transcript, tool arguments or a key that
somebody passes by mistake are dropped, and values that look like credentials are masked. One line is one JSON object, or readable text
on a terminal.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping
from typing import Any, TextIO

ALLOWED = frozenset(
    (
        *("agent", "app", "attempt", "bytes", "code", "count", "delay_ms", "dropped_ms", "duration_ms", "error", "error_type"),
        *("hook", "host", "level", "method", "model", "name", "path", "plugin", "port", "reason", "response", "seq", "session"),
        *("state", "status", "store", "tool", "turn", "url", "version"),
    )
)
_SECRET = re.compile(r"AIza[\w-]{10,}|ya29\.[\w.-]+|eyJ[\w-]+\.[\w.-]*|ticket\.[\w-]+|\bsk-[\w-]{8,}|(?<=key=)[^&\s]+")


class EventLogger:
    """Structured logging over the standard library: `log.info("session_opened", session=id, duration_ms=12)`."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, event: str, **fields: Any) -> None:
        self._emit(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self._emit(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._emit(logging.WARNING, event, fields)

    def error(self, event: str, exception: BaseException | None = None, **fields: Any) -> None:
        """A failure that a maintainer must see. The exception's type and place are logged, never its words: they may hold content."""
        if exception is not None:
            fields["error_type"] = type(exception).__name__
            fields["path"] = _place(exception)
        self._emit(logging.ERROR, event, fields)

    def _emit(self, level: int, event: str, fields: Mapping[str, Any]) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={"fields": redact(fields)})


def get_logger(name: str) -> EventLogger:
    """The logger of a module."""
    return EventLogger(name)


def redact(fields: Mapping[str, Any]) -> dict[str, str | int | float | bool]:
    """The fields that may be logged: known names, plain values, nothing that looks like a credential, texts cut at 200 characters."""
    kept: dict[str, str | int | float | bool] = {}
    for name, value in fields.items():
        if name not in ALLOWED or value is None:
            continue
        kept[name] = value if isinstance(value, int | float) else _SECRET.sub("***", str(value))[:200]
    return kept


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {"ts": round(record.created, 3), "level": record.levelname.lower(), "logger": record.name}
        line |= {"event": _SECRET.sub("***", record.getMessage()), **getattr(record, "fields", {})}
        return json.dumps(line, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """For a terminal: time, level, event, fields."""

    def format(self, record: logging.LogRecord) -> str:
        fields = " ".join(f"{name}={value}" for name, value in getattr(record, "fields", {}).items())
        head = f"{self.formatTime(record, '%H:%M:%S')} {record.levelname.lower():7}"
        return f"{head} {_SECRET.sub('***', record.getMessage())} {fields}".rstrip()


def configure(level: str = "info", *, as_json: bool | None = None, stream: TextIO | None = None) -> None:
    """Send this package's logs to a stream (standard error). JSON unless the stream is a terminal."""
    target = stream if stream is not None else sys.stderr
    handler = logging.StreamHandler(target)
    handler.setFormatter(JsonFormatter() if (not target.isatty() if as_json is None else as_json) else TextFormatter())
    root = logging.getLogger("live_gateway")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False


def _place(error: BaseException) -> str:
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return "" if last is None else f"{last.tb_frame.f_globals.get('__name__', '?')}:{last.tb_lineno}"
