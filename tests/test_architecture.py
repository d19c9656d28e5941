"""The shape of the code: small pieces, floors, no forbidden constructs, and the checks that machines do better than reviewers.

Only the tails are limited: the one class of 4,500 lines makes a code base unreadable, not the median.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import live_gateway

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "live_gateway"

FILE_LINES = 500
FUNCTION_LINES = 60
CLASS_LINES = 250
PARAMETERS = 8
INHERITANCE = 2
PUBLIC_NAMES = 45

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def sources(*directories: str) -> list[Path]:
    return sorted(path for directory in directories for path in (ROOT / directory).rglob("*.py"))


def nodes(*directories: str) -> Iterator[tuple[str, ast.AST]]:
    for path in sources(*directories):
        for node in ast.walk(parsed(path)):
            yield f"{path.relative_to(ROOT).as_posix()}:{getattr(node, 'lineno', 0)}", node


def lines_of(node: ast.AST) -> int:
    return int(getattr(node, "end_lineno", 0)) - int(getattr(node, "lineno", 0)) + 1


def test_no_file_is_long() -> None:
    files = [*sources("live_gateway", "tests", "benchmarks", "examples"), *(ROOT / "static").rglob("*.js")]
    assert [f"{path.relative_to(ROOT)}" for path in files if path.read_text(encoding="utf-8").count("\n") > FILE_LINES] == []


def test_no_function_and_no_class_is_long() -> None:
    limits = {ast.FunctionDef: FUNCTION_LINES, ast.AsyncFunctionDef: FUNCTION_LINES, ast.ClassDef: CLASS_LINES}
    long = [
        f"{place} {lines_of(node)} lines" for place, node in nodes("live_gateway") if lines_of(node) > limits.get(type(node), FILE_LINES)
    ]
    assert long == []


def test_no_function_takes_many_parameters() -> None:
    assert [place for place, node in nodes("live_gateway") if isinstance(node, Function) and parameters(node) > PARAMETERS] == []


def parameters(function: Function) -> int:
    arguments = function.args
    names = [entry.arg for entry in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def test_inheritance_is_shallow() -> None:
    """Steps between a class and its farthest ancestor in this package."""
    bases = {node.name: [name_of(base) for base in node.bases] for _, node in nodes("live_gateway") if isinstance(node, ast.ClassDef)}

    def depth(name: str) -> int:
        return max((1 + depth(base) for base in bases[name] if base in bases and base != name), default=0)

    assert [name for name in bases if depth(name) > INHERITANCE] == []


def name_of(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def test_every_task_belongs_to_a_group() -> None:
    """Ruff bans `asyncio.create_task`; a loop's or anybody else's `create_task` is found here."""

    def in_a_group(call: ast.Attribute) -> bool:
        return name_of(call.value).lower().endswith("group")

    calls = [(place, node) for place, node in nodes("live_gateway") if isinstance(node, ast.Attribute) and node.attr == "create_task"]
    outside = [place for place, node in calls if not in_a_group(node)]
    assert [place.partition(":")[0] for place in outside] == ["live_gateway/runner/stream.py"]  # RUN-03 allows one


def test_no_generator_yields_inside_a_task_group_or_a_timeout() -> None:
    """Such a yield lets the caller run inside a scope that cancels the wrong task. A context manager is left by the one who entered it."""

    def scoped(function: ast.AsyncFunctionDef) -> bool:
        scopes = [node for node in ast.walk(function) if isinstance(node, ast.AsyncWith) and opens_scope(node)]
        return any(isinstance(inner, ast.Yield) for scope in scopes for inner in ast.walk(scope))

    functions = [(place, node) for place, node in nodes("live_gateway") if isinstance(node, ast.AsyncFunctionDef)]
    managers = {"asynccontextmanager"}
    assert [place for place, node in functions if scoped(node) and not managers & {name_of(d) for d in node.decorator_list}] == []


def opens_scope(node: ast.AsyncWith) -> bool:
    calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
    return any(name_of(call.func) in {"TaskGroup", "timeout", "timeout_at"} for call in calls)


def test_no_sleep_stands_for_synchronisation() -> None:
    """`sleep(0)` waits for something that it does not name."""

    def sleeps_for_nothing(node: ast.AST) -> bool:
        if not (isinstance(node, ast.Call) and name_of(node.func) == "sleep" and node.args):
            return False
        return isinstance(node.args[0], ast.Constant) and node.args[0].value == 0

    assert [place for place, node in nodes("live_gateway") if sleeps_for_nothing(node)] == []


def test_only_the_command_line_prints() -> None:
    def prints(place: str, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and name_of(node.func) == "print" and not place.startswith("live_gateway/cli")

    assert [place for place, node in nodes("live_gateway") if prints(place, node)] == []


def test_nothing_is_left_to_be_done() -> None:
    words = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
    files = [*sources("live_gateway", "tests", "benchmarks"), *(ROOT / "static").rglob("*.js")]
    assert [str(path.relative_to(ROOT)) for path in files if words.search(path.read_text(encoding="utf-8"))] == []


def test_the_public_names_are_few_and_each_is_where_it_is_said_to_be() -> None:
    public = [name for name in live_gateway.__all__ if name != "__version__"]
    assert len(public) <= PUBLIC_NAMES
    assert set(public) == set(live_gateway._HOME) == set(typed_names())
    for name, module in typed_names().items():
        assert getattr(live_gateway, name) is getattr(import_module(module), name)
        assert module == f"live_gateway.{live_gateway._HOME[name]}"


def _reads_the_calendar(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).endswith((".wall", "time.time", "datetime.now", "datetime.utcnow"))


# report: A53
def test_no_duration_is_measured_with_the_calendar() -> None:
    """A clock that is set back by an hour must not change what is waited for, counted or compared."""
    used = [
        f"{where}:{node.lineno}"
        for where, node in nodes("live_gateway")
        if isinstance(node, ast.BinOp | ast.Compare | ast.AugAssign)
        and any(_reads_the_calendar(part) for part in ast.iter_child_nodes(node))
        and not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult))  # into other units
    ]
    assert [place.partition(":")[0] for place in used] == ["live_gateway/cli/talk.py"], used  # where the epoch begins, once


def typed_names() -> dict[str, str]:
    """The names that type checkers see, and the module that each comes from."""
    checking = [node for node in parsed(PACKAGE / "__init__.py").body if isinstance(node, ast.If)]
    imports = [node for block in checking for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def test_importing_the_package_imports_nothing_else() -> None:
    program = "import sys, live_gateway; print(*[name for name in sys.modules if name.startswith('live_gateway')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True, cwd=ROOT)
    assert done.stdout.split() == ["live_gateway"]


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = live_gateway.nothing
    assert "Runner" in dir(live_gateway)


@pytest.mark.parametrize(
    "command",
    [
        ["-m", "ruff", "check", "."],
        ["-m", "ruff", "format", "--check", "."],
        ["-c", "from importlinter.cli import lint_imports_command as run; run()"],
        pytest.param(["-m", "mypy"], marks=pytest.mark.slow),
    ],
    ids=["ruff-check", "ruff-format", "import-linter", "mypy"],
)
def test_the_checkers_find_nothing(command: list[str]) -> None:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=600, check=False, cwd=ROOT)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.slow
def test_the_pages_pass_their_own_checks() -> None:
    """Types, linter and tests of the JavaScript in `static/`."""
    npm = shutil.which("npm")
    if npm is None or not (ROOT / "node_modules").is_dir():
        pytest.skip("the page's tools are not installed: run npm ci")
    done = subprocess.run([npm, "run", "check"], capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
