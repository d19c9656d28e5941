"""Commands as a person types them: help is quick, every mistake is one sentence and an exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import soundfile

from live_gateway import __version__
from live_gateway.cli.main import main

QUESTION = str(Path(__file__).parents[2] / "examples" / "question.wav")
HEAVY = ["asyncio", "google", "numpy", "onnxruntime", "pydantic", "soundfile", "soxr", "sqlalchemy", "starlette", "uvicorn", "websockets"]


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(arguments)
    errors = capsys.readouterr().err
    assert errors.startswith("live-gateway: ")
    assert errors.count("\n") == 1
    assert "Traceback" not in errors
    return code, errors.removeprefix("live-gateway: ").rstrip()


@pytest.mark.parametrize("arguments", [["--help"], ["serve", "--help"], ["talk", "--help"], ["record", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys\nfrom live_gateway.cli.main import main\n"
        f"try: main({arguments!r})\nexcept SystemExit as end: assert end.code == 0\n"
        f"print('heavy:', *[name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "heavy:"


def test_python_m_live_gateway() -> None:
    done = subprocess.run([sys.executable, "-m", "live_gateway", "--version"], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"live-gateway {__version__}\n"


def test_the_exit_codes_are_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["talk", "--help"])
    text = capsys.readouterr().out
    for line in (
        "0  the recording was answered",
        "1  no answer",
        "2  wrong usage",
        "3  the server cannot be reached",
        "4  the server reported",
    ):
        assert line in text


@pytest.mark.parametrize(
    "arguments",
    [[], ["nonsense"], ["talk"], ["talk", "a.wav", "--text", "hello"], ["talk", "a.wav", "--wait", "-1"], ["serve", "--port", "x"]],
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: " in capsys.readouterr().err


def test_talk_with_a_file_that_cannot_be_used(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "words.wav").write_text("not sound at all, just words")
    assert fails(capsys, "talk", str(tmp_path / "missing.wav"))[0] == 2
    code, message = fails(capsys, "talk", str(tmp_path / "words.wav"))
    assert code == 2
    assert "is not a sound file" in message
    code, message = fails(capsys, "talk", QUESTION, "--out", str(tmp_path / "nowhere" / "answer.wav"))
    assert code == 2
    assert "there is no directory" in message


@pytest.mark.parametrize("url", ["", "here", "ftp://127.0.0.1/live", "ws://", "ws://127.0.0.1:99999/live"])
def test_talk_to_what_is_no_address(capsys: pytest.CaptureFixture[str], url: str) -> None:
    code, message = fails(capsys, "talk", QUESTION, "--url", url)
    assert code == 2
    assert "is not the address of a gateway" in message


def test_talk_to_nobody(capsys: pytest.CaptureFixture[str], unused_port: int) -> None:
    url = f"ws://127.0.0.1:{unused_port}/live"
    assert fails(capsys, "talk", QUESTION, "--url", url) == (
        3,
        f"cannot connect to {url}: nothing listens there; is the gateway running (live-gateway serve)?",
    )


def test_talk_to_nobody_as_json(capsys: pytest.CaptureFixture[str], unused_port: int) -> None:
    assert main(["talk", QUESTION, "--json", "--url", f"ws://127.0.0.1:{unused_port}/live"]) == 3
    (line,) = capsys.readouterr().out.splitlines()
    assert (json.loads(line)["type"], json.loads(line)["exit_code"]) == ("talk.result", 3)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["serve", "no_such_module_here:agent"], "there is no module"),
        (["serve", "no/such/file.py:agent"], "there is no file"),
        (["serve", "live_gateway.demo:INSTRUCTION"], "is a value of type str, neither an LlmAgent nor a SequentialAgent"),
        (["serve", "live_gateway.demo:nothing"], "has no attribute 'nothing'; it has the agent agent"),
        (["serve", "--store", "mysql://here"], "session stores are memory://, sqlite:///file and postgresql://..."),
        (["serve", "--port", "70000"], "--port: input should be less than or equal to 65535"),
        (["serve", "--live-model", "gemini-live", "--store", "memory://"], "live model 'gemini-live' needs a key: set GEMINI_API_KEY"),
        (
            ["serve", "--record-calls", "no/such/directory", "--store", "memory://"],
            "calls cannot be recorded: 'no/such/directory' is no directory",
        ),
        (["serve", "--record-calls", QUESTION, "--store", "memory://"], "is no directory"),
        (["fake-gemini", "nonsense"], "there is no script 'nonsense'; there are echo, talk, tools, interruption, rotations"),
        (["record", QUESTION], "a recording does not overwrite one"),
        (["record", "no/such/directory/file.jsonl", "--port", "0"], "cannot be used: No such file or directory"),
        (["serve", "--host", "not.an.address.invalid", "--store", "memory://"], "not.an.address.invalid"),
    ],
)
@pytest.mark.usefixtures("no_voice", "no_key")
def test_what_cannot_be_served(capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str) -> None:
    code, message = fails(capsys, *arguments)
    assert code == 2
    assert expected in message


@pytest.mark.usefixtures("no_voice")
def test_a_port_in_use(capsys: pytest.CaptureFixture[str], used_port: int) -> None:
    code, message = fails(capsys, "serve", "--port", str(used_port), "--store", "memory://")
    assert (code, message) == (2, f"port {used_port} of 127.0.0.1 is already in use")


@pytest.mark.usefixtures("no_voice")
def test_a_store_that_cannot_be_opened(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "words.sqlite3").write_text("these words are no database, and there are enough of them to see that" * 20)
    code, message = fails(capsys, "serve", "--port", "0", "--store", f"sqlite:///{tmp_path / 'words.sqlite3'}")
    assert code == 2
    assert "cannot open" in message


def test_the_examples_are_sound_files() -> None:
    for file in ("question.wav", "weather.wav"):
        info = soundfile.info(Path(QUESTION).parent / file)
        assert (info.samplerate, info.channels) == (16_000, 1)
        assert 1 < info.duration < 5
