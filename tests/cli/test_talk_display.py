"""What a person or a program sees of a conversation."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from live_gateway.cli.problems import Exit
from live_gateway.cli.talk_client import Outcome
from live_gateway.cli.talk_display import JsonDisplay, TextDisplay


def transcript(text: str, *, final: bool, role: str = "user", item: str = "i") -> dict[str, Any]:
    return {"type": "transcript", "item": item, "role": role, "author": "guide", "text": text, "final": final}


def screen(written: str) -> list[str]:
    """What a terminal shows after these characters: a carriage return goes back to the beginning of the line."""
    lines = [""]
    for part in written.replace("\n", "\n\0").split("\n"):
        line = ""
        for piece in part.lstrip("\0").split("\r"):
            line = piece + line[len(piece) :]
        lines.append(line.rstrip())
    return lines[1:]


def test_a_forming_transcript_is_written_over_on_a_terminal() -> None:
    out = io.StringIO()
    display = TextDisplay(out, terminal=True)
    display.progress(0.5, 2.0)
    assert screen(out.getvalue()) == ["sending    [#####...............] 0.5 of 2.0 s"]
    display.message(transcript("go for it", final=False))
    assert screen(out.getvalue()) == ["you        go for it"]
    display.message(transcript("go on", final=False))
    assert screen(out.getvalue()) == ["you        go on"]
    display.message(transcript("go forward", final=True))
    assert screen(out.getvalue()) == ["you        go forward", "sending    [#####...............] 0.5 of 2.0 s"]
    display.finished(Outcome(code=Exit.OK), 0.0, None)
    assert screen(out.getvalue()) == ["you        go forward", ""]


def test_a_long_or_wide_forming_line_stays_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    out = io.StringIO()
    display = TextDisplay(out, terminal=True)
    display.message(transcript("word " * 30 + "end", final=False))
    assert len(screen(out.getvalue())[0]) == 39
    assert screen(out.getvalue())[0].endswith(" end")
    display.message(transcript("杭州" * 30, final=False))
    display.message(transcript("short", final=False))
    assert screen(out.getvalue())[0].strip() == "you        short"


def test_elsewhere_only_what_is_complete_is_written() -> None:
    out = io.StringIO()
    display = TextDisplay(out, terminal=False)
    display.progress(0.5, 2.0)
    display.message(transcript("go for", final=False))
    display.message(transcript("go forward", final=True))
    assert out.getvalue() == "you        go forward\n"


def test_a_conversation_reads_as_it_went() -> None:
    out = io.StringIO()
    display = TextDisplay(out, terminal=False)
    call = {"type": "tool.call", "call": "c", "name": "move", "args": {"direction": "forward", "distance_m": 10}}
    done = {"type": "tool.update", "call": "c", "status": "done", "result": {"moved": True}, "ms": 3}
    messages: list[dict[str, Any]] = [
        {"type": "welcome", "session": "s1", "model": "local-voice"},
        {"type": "notice", "level": "info", "code": "loading_voice", "params": {"s": 2}},
        {**call, "pending": True},
        transcript("go forward", final=True),
        {**done, "status": "running", "pending": True},
        {**done, "pending": True},
        {**call, "seq": 3},
        {**done, "seq": 4, "ms": None},
        {"type": "interrupted", "response": 1, "reason": "speech"},
        transcript("Moved.", final=True, role="model", item="o"),
        {**transcript("Moved.", final=True, role="model", item="o"), "revision": 2, "heard_chars": 2},
        {"type": "error", "code": "rate_limited", "message": "Too fast.", "fatal": False},
        {"type": "metrics", "turn": 1},
    ]
    for message in messages:
        display.message(message)
    display.finished(Outcome(code=Exit.OK, first_audio_s=0.512), 1.5, "answer.wav")
    assert out.getvalue().splitlines() == [
        "connected  session s1, model local-voice",
        "notice     loading_voice s=2",
        "you        go forward",
        'tool       move(direction="forward", distance_m=10)',
        'tool       move done in 3 ms: {"moved": true}',
        "stopped    the answer was interrupted",
        "guide      Moved.",
        "error      Too fast. (rate_limited)",
        "heard      1.5 s of answer, beginning 512 ms after the question",
        "written    answer.wav",
    ]


def test_a_running_tool_is_shown_at_once_on_a_terminal_and_stays_where_the_record_has_it() -> None:
    out = io.StringIO()
    display = TextDisplay(out, terminal=True)
    display.message({"type": "tool.call", "call": "c", "name": "move", "args": {}, "pending": True})
    assert screen(out.getvalue()) == ["tool       move()"]
    display.message(transcript("go", final=True))
    assert screen(out.getvalue()) == ["you        go", "tool       move()"]
    display.message({"type": "tool.call", "call": "c", "name": "move", "args": {}, "seq": 2})
    display.finished(Outcome(code=Exit.OK), 0.0, None)
    assert screen(out.getvalue()) == ["you        go", "tool       move()", ""]


def test_json_is_one_object_per_line_and_ends_with_the_result() -> None:
    out = io.StringIO()
    display = JsonDisplay(out)
    display.message(transcript("zwölf", final=True))
    display.progress(0.1, 0.2)
    outcome = Outcome(code=Exit.NO_ANSWER, problem="no answer came", session="s1", question="zwölf", first_audio_s=0.25)
    display.finished(outcome, 0.5, None)
    first, last = (json.loads(line) for line in out.getvalue().splitlines())
    assert first == transcript("zwölf", final=True)
    assert last == {
        "type": "talk.result",
        "exit_code": 1,
        "problem": "no answer came",
        "session": "s1",
        "question": "zwölf",
        "answer": "",
        "audio_ms": 500,
        "first_audio_ms": 250,
        "out": None,
    }
