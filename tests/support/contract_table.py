"""Make docs/contract.md: each clause of the contract and the tests that prove it. Run: python -m tests.support.contract_table

A test names its clauses in a comment line right above it: `# contract: LIVE-10, LIVE-11` (in JavaScript `// contract: ...`).
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
CLAUSES = ROOT / "docs" / "clauses.toml"
TABLE = ROOT / "docs" / "contract.md"

_MARK = re.compile(r"^\s*(?:#|//) contract: ?(?P<ids>.+)$")
_TEST = re.compile(r"^\s*(?:async )?(?:def (?P<python>test_\w+)|class (?P<group>\w+)|(?:test|it)\(\s*['\"`](?P<script>.+?)['\"`],)")
_ID = re.compile(r"\b[A-Z]+-\d{2}\b")

HEADER = """# The contract, and the tests that prove it

One line for each clause, and the tests that name it. A clause without a test is not built yet, or not proven yet; nothing here claims
otherwise. This file is made by `python -m tests.support.contract_table`; a test checks that it is up to date.
"""


def clauses() -> dict[str, dict[str, str]]:
    """What each clause says, by section and id."""
    sections: dict[str, dict[str, str]] = tomllib.loads(CLAUSES.read_text(encoding="utf-8"))
    return sections


def named_tests() -> dict[str, dict[str, list[str]]]:
    """The tests that name a clause: by clause and file, in the order of the file."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted((ROOT / "tests").rglob("*")):
        if path.suffix in {".py", ".js", ".mjs"} and "node_modules" not in path.parts and path != Path(__file__):
            for clause, test in _tests_in(path.read_text(encoding="utf-8")):
                names = found[clause][path.relative_to(ROOT).as_posix()]
                if test not in names:
                    names.append(test)
    return found


def _tests_in(text: str) -> Iterator[tuple[str, str]]:
    waiting: list[str] = []
    for line in text.splitlines():
        if mark := _MARK.match(line):
            waiting += _ID.findall(mark["ids"])
        elif waiting and (test := _TEST.match(line)):
            name = test["python"] or test["group"] or test["script"]
            yield from ((clause, name) for clause in waiting)
            waiting = []


def table() -> str:
    """The text of docs/contract.md."""
    tests = named_tests()
    known = {clause: text for section in clauses().values() for clause, text in section.items()}
    proven = sum(clause in tests for clause in known)
    parts = [HEADER, f"{proven} of {len(known)} clauses are named by a test.\n"]
    for section, entries in clauses().items():
        parts.append(f"## {section}\n\n| clause | what | tests |\n|---|---|---|")
        parts += [f"| {clause} | {text} | {_cell(tests.get(clause, {}))} |" for clause, text in entries.items()]
        parts.append("")
    return "\n".join(parts)


def _cell(tests: dict[str, list[str]]) -> str:
    return "<br>".join(f"[{file.removeprefix('tests/')}](../{file}): {', '.join(map(_name, names))}" for file, names in tests.items())


def _name(test: str) -> str:
    return f"`{test}`" if test.isidentifier() else test.replace("|", "\\|")


def unknown_clauses() -> set[str]:
    """What tests name and the contract does not have."""
    return set(named_tests()) - {clause for section in clauses().values() for clause in section}


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")
