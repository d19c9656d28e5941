"""How a command fails: with one sentence and an exit code, never with a traceback."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of every command."""

    OK = 0
    NO_ANSWER = 1
    USAGE = 2
    CANNOT_CONNECT = 3
    SERVER_ERROR = 4
    INTERRUPTED = 130


class CommandError(Exception):
    """The command cannot go on. The message is for the person at the terminal."""

    def __init__(self, message: str, code: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.code = code
