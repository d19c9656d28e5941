"""What a person sees while the recording is sent and answered, or what a program reads (`--json`)."""

from __future__ import annotations

import json
import shutil
import unicodedata
from collections.abc import Mapping
from typing import Any, Protocol, TextIO

from live_gateway.cli.talk_client import TOOL_OVER, Outcome

_BAR = 20


class Display(Protocol):
    """Where `talk` shows what happens."""

    def message(self, message: Mapping[str, Any]) -> None:
        """A message of the server."""
        ...

    def progress(self, sent_s: float, length_s: float) -> None:
        """How much of the recording has been sent."""
        ...

    def finished(self, outcome: Outcome, audio_s: float, out: str | None) -> None:
        """The conversation is over; `audio_s` seconds of answer were heard and written to `out`, if that was asked for."""
        ...


class JsonDisplay:
    """One JSON object per line: the server's messages as they came, at the end one of type `talk.result`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def message(self, message: Mapping[str, Any]) -> None:
        self._line(message)

    def progress(self, sent_s: float, length_s: float) -> None:
        """Nothing: a program knows how long its recording is."""

    def finished(self, outcome: Outcome, audio_s: float, out: str | None) -> None:
        result = {
            "type": "talk.result",
            "exit_code": int(outcome.code or 0),
            "problem": outcome.problem,
            "session": outcome.session,
            "question": outcome.question,
            "answer": outcome.answer,
            "audio_ms": round(audio_s * 1000),
            "first_audio_ms": None if outcome.first_audio_s is None else round(outcome.first_audio_s * 1000),
            "out": out,
        }
        self._line(result)

    def _line(self, message: Mapping[str, Any]) -> None:
        self._stream.write(json.dumps(message, ensure_ascii=False) + "\n")
        self._stream.flush()


class TextDisplay:
    """Readable lines. On a terminal the last one shows what is still forming and is written over; elsewhere only what is complete comes."""

    def __init__(self, stream: TextIO, *, terminal: bool) -> None:
        self._stream = stream
        self._terminal = terminal
        self._open = ""
        self._forming: dict[str, str] = {}
        self._printed: set[str] = set()
        self._names: dict[str, str] = {}
        self._took: dict[str, str] = {}
        self._bar = ""

    def message(self, message: Mapping[str, Any]) -> None:
        match message["type"]:
            case "welcome":
                self._print(f"connected  session {message.get('session')}, model {message.get('model')}")
            case "transcript":
                self._transcript(message)
            case "tool.call":
                self._tool_call(message)
            case "tool.update":
                self._tool_update(message)
            case "interrupted":
                self._print("stopped    the answer was interrupted")
            case "notice":
                self._print(f"notice     {_notice(message)}")
            case "error":
                self._print(f"error      {message.get('message')} ({message.get('code')})")
            case "goaway":
                self._print(f"notice     the server is going away ({message.get('reason')})")

    def progress(self, sent_s: float, length_s: float) -> None:
        filled = round(_BAR * sent_s / length_s) if length_s else _BAR
        self._bar = f"sending    [{'#' * filled}{'.' * (_BAR - filled)}] {sent_s:.1f} of {length_s:.1f} s" if sent_s < length_s else ""
        self._refresh()

    def finished(self, outcome: Outcome, audio_s: float, out: str | None) -> None:
        self._bar = ""
        self._forming.clear()
        if outcome.first_audio_s is not None:
            self._print(f"heard      {audio_s:.1f} s of answer, beginning {outcome.first_audio_s * 1000:.0f} ms after the question")
        if out is not None:
            self._print(f"written    {out}")
        self._refresh()

    def _transcript(self, message: Mapping[str, Any]) -> None:
        item = str(message.get("item"))
        who = "you" if message.get("role") == "user" else str(message.get("author") or "agent")
        line = f"{who[:10]:10} {message.get('text', '')}"
        if not message.get("final"):
            self._forming[item] = line
            self._refresh()
            return
        self._forming.pop(item, None)
        if item not in self._printed:  # what was heard of an interrupted answer comes as a second, equal text
            self._printed.add(item)
            self._print(line)

    def _tool_call(self, message: Mapping[str, Any]) -> None:
        call = str(message.get("call"))
        self._names[call] = str(message.get("name"))
        args = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in (message.get("args") or {}).items())
        if message.get("needs_confirm"):
            self._tool(message, f"tool       {message.get('name')}({args}) waits for an approval, which is not given here")
            return
        self._tool(message, f"tool       {message.get('name')}({args})")

    def _tool_update(self, message: Mapping[str, Any]) -> None:
        call, status = str(message.get("call")), str(message.get("status"))
        if status not in TOOL_OVER:
            return
        if message.get("ms") is not None:
            self._took[call] = f" in {message['ms']} ms"
        result = message.get("error") or json.dumps(message.get("result"), ensure_ascii=False)
        self._tool(message, f"tool       {self._names.get(call, 'tool')} {status}{self._took.get(call, '')}: {result}")

    def _tool(self, message: Mapping[str, Any], line: str) -> None:
        """It comes twice: at once, which is shown as what forms, and in the order of the record, which stays."""
        call = str(message.get("call"))
        if message.get("pending"):
            self._forming[call] = line
            self._refresh()
        else:
            self._forming.pop(call, None)
            self._print(line)

    def _print(self, line: str) -> None:
        self._clear()
        self._stream.write(f"{line}\n")
        self._refresh()

    def _refresh(self) -> None:
        if self._terminal:
            line = next(reversed(self._forming.values()), "") or self._bar
            fitted = _fit(line, shutil.get_terminal_size().columns - 1)
            if fitted != self._open:
                self._clear()
                self._stream.write(fitted)
                self._open = fitted
        self._stream.flush()

    def _clear(self) -> None:
        if self._open:
            self._stream.write("\r" + " " * _width(self._open) + "\r")
            self._open = ""


def _notice(message: Mapping[str, Any]) -> str:
    params = " ".join(f"{name}={value}" for name, value in (message.get("params") or {}).items())
    return f"{message.get('code')} {params}".rstrip()


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _fit(text: str, columns: int) -> str:
    """The end of a text that is too long: there it is still growing."""
    head, tail = text[:11], text[11:]
    while tail and _width(head + tail) > columns:
        tail = tail[1:]
    return head + tail
