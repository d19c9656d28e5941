"""Finding the agent that a command names; every way to name it wrongly gives one sentence."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from live_gateway.cli.load import load_agent, split_reference
from live_gateway.cli.problems import CommandError, Exit

GOOD = "from live_gateway.agents.llm import LlmAgent\nagent = LlmAgent(name='echo')\nother = LlmAgent(name='other')\nnumber = 3\n"


@pytest.fixture(autouse=True)
def restored_imports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    yield
    for name in set(sys.modules) - before:
        if name.startswith(("agent_file_", "somewhere")):
            del sys.modules[name]


def failure(reference: str) -> str:
    with pytest.raises(CommandError) as caught:
        load_agent(reference)
    assert caught.value.code is Exit.USAGE
    message = str(caught.value)
    assert "\n" not in message
    assert "Traceback" not in message
    return message


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        ("package.module:thing", ("package.module", "thing")),
        ("package.module", ("package.module", "agent")),
        ("dir/file.py:thing", ("dir/file.py", "thing")),
        ("dir/file.py", ("dir/file.py", "agent")),
        (r"C:\dir\file.py", (r"C:\dir\file.py", "agent")),
        (r"C:\dir\file.py:thing", (r"C:\dir\file.py", "thing")),
    ],
)
def test_module_and_attribute(reference: str, parts: tuple[str, str]) -> None:
    assert split_reference(reference) == parts


def test_a_file_by_path(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("NAME = 'from the helper'\n")
    (tmp_path / "mine.py").write_text("import helper\n" + GOOD)
    assert load_agent("mine.py").name == "echo"
    assert load_agent(f"{tmp_path / 'mine.py'}:other").name == "other"


def test_a_module_of_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "somewhere.py").write_text(GOOD)
    assert load_agent("somewhere:other").name == "other"


def test_a_file_named_like_a_library_does_not_replace_it(tmp_path: Path) -> None:
    import json

    (tmp_path / "json.py").write_text(GOOD)
    assert load_agent("json.py").name == "echo"
    assert sys.modules["json"] is json


@pytest.mark.parametrize("reference", ["", ":agent", "module:", "module:not a name", "module:1x"])
def test_no_reference_at_all(reference: str) -> None:
    assert "names no agent" in failure(reference)


def test_missing_module_and_missing_file(tmp_path: Path) -> None:
    assert failure("nowhere_at_all:agent").startswith("there is no module 'nowhere_at_all'")
    assert failure("nowhere_at_all.deeper:agent").startswith("there is no module 'nowhere_at_all.deeper'")
    assert failure("nowhere.py:agent") == "there is no file 'nowhere.py'"
    assert "is not the name of a module" in failure("dir/file:agent")


def test_a_module_that_lacks_a_library_says_which(tmp_path: Path) -> None:
    (tmp_path / "somewhere.py").write_text("\nimport no_such_library\n")
    message = failure("somewhere:agent")
    assert message == "somewhere cannot be imported: ModuleNotFoundError: No module named 'no_such_library' (somewhere.py, line 2)"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = 1\ny = x / 0\n", "broken.py cannot be imported: ZeroDivisionError: division by zero (broken.py, line 2)"),
        ("def f(:\n", "broken.py is not valid Python: "),
        ("raise SystemExit('no')\n", "broken.py cannot be imported: SystemExit: no (broken.py, line 1)"),
        (GOOD.replace("'echo'", "'user'"), "broken.py cannot be imported: ConfigurationError: "),
    ],
)
def test_code_that_fails_while_imported(tmp_path: Path, source: str, expected: str) -> None:
    (tmp_path / "broken.py").write_text(source)
    message = failure("broken.py:agent")
    assert message.startswith(expected)
    assert "(broken.py, line " in message or "(line " in message, "the line of the user's file and not of ours"
    assert "agent_file_broken" not in sys.modules


def test_missing_attribute_names_the_agents_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(GOOD)
    assert failure("mine.py:missing") == "mine.py has no attribute 'missing'; it has the agents agent and other"


def test_an_attribute_of_the_wrong_type(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(GOOD)
    assert failure("mine.py:number") == "mine.py:number is a value of type int, neither an LlmAgent nor a SequentialAgent"
    assert failure("mine.py:LlmAgent") == "mine.py:LlmAgent is the class LlmAgent, neither an LlmAgent nor a SequentialAgent"


def test_a_sequence_is_an_agent_too(tmp_path: Path) -> None:
    more = "from live_gateway.agents.sequential import SequentialAgent\nsteps = SequentialAgent(name='steps', sub_agents=[agent, other])\n"
    (tmp_path / "mine.py").write_text(GOOD + more)
    assert load_agent("mine.py:steps").name == "steps"
