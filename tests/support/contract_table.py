"""Make the lists of what is promised and the tests that prove it: docs/contract.md of docs/clauses.toml, docs/cases.md of docs/cases.toml.

Run: python -m tests.support.contract_table

A test names what it proves in comment lines right above it: `# contract: LIVE-10, LIVE-11`, `# case: K-LIVE-05`, `# report: A43`
(in JavaScript `// contract: ...`).
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

_MARK = re.compile(r"^\s*(?:#|//) (?P<kind>contract|case|report): ?(?P<ids>.+)$")
_TEST = re.compile(r"^\s*(?:async )?(?:def (?P<python>test_\w+)|class (?P<group>\w+)|(?:test|it)\(\s*['\"`](?P<script>.+?)['\"`],)")
_ID = re.compile(r"\bK-[A-Z]+-\d{2}\b|\b[A-Z]+-\d{2}\b|\b[AC]\d{2}\b")


@dataclass(frozen=True, slots=True)
class Table:
    """A list in docs/. name: of the page. source: of the file with what each entry says. kinds: the words in comments that name an entry.
    what: one entry is called."""

    name: str
    source: str
    kinds: frozenset[str]
    what: str
    header: str

    @property
    def path(self) -> Path:
        return ROOT / "docs" / self.name

    def entries(self) -> dict[str, dict[str, str]]:
        """What each entry says, by section and id."""
        sections: dict[str, dict[str, str]] = tomllib.loads((ROOT / "docs" / self.source).read_text(encoding="utf-8"))
        return sections

    def tests(self) -> dict[str, dict[str, list[str]]]:
        """The tests that name an entry: by id and file, in the order of the file."""
        found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for kind, entry, file, test in named():
            if kind in self.kinds and test not in (names := found[entry][file]):
                names.append(test)
        return found

    def unknown(self) -> set[str]:
        """What tests name and the list does not have."""
        return set(self.tests()) - {entry for section in self.entries().values() for entry in section}

    def text(self) -> str:
        """The text of the page."""
        tests = self.tests()
        known = {entry: text for section in self.entries().values() for entry, text in section.items()}
        proven = sum(entry in tests for entry in known)
        parts = [self.header, f"{proven} of {len(known)} {self.what}s are named by a test.\n"]
        for section, entries in self.entries().items():
            parts.append(f"## {section}\n\n| {self.what} | what | tests |\n|---|---|---|")
            parts += [f"| {entry} | {text} | {_cell(tests.get(entry, {}))} |" for entry, text in entries.items()]
            parts.append("")
        return "\n".join(parts)


CONTRACT = Table(
    "contract.md",
    "clauses.toml",
    frozenset({"contract"}),
    "clause",
    """# The contract, and the tests that prove it

One line for each clause, and the tests that name it. A clause without a test is not built yet, or not proven yet; nothing here claims
otherwise. This file is made by `python -m tests.support.contract_table`; a test checks that it is up to date.
""",
)
CASES = Table(
    "cases.md",
    "cases.toml",
    frozenset({"case", "report"}),
    "case",
    """# Reports and cases, and the tests that answer them

What users of voice agents have reported (`A..`, `C..`: the symptom; here it must not happen), and cases of behaviour with exact values
(`K-..`). An entry without a test is not built yet, or not proven yet. The [contract](contract.md) wins where the two differ. This file is
made by `python -m tests.support.contract_table`; a test checks that it is up to date.
""",
)
TABLES = (CONTRACT, CASES)


@cache
def named() -> tuple[tuple[str, str, str, str], ...]:
    """Everything that tests name: the kind, the id, the file and the test."""
    found: list[tuple[str, str, str, str]] = []
    for path in sorted((ROOT / "tests").rglob("*")):
        if path.suffix in {".py", ".js", ".mjs"} and "node_modules" not in path.parts and path != Path(__file__):
            file = path.relative_to(ROOT).as_posix()
            found += [(kind, entry, file, test) for kind, entry, test in _tests_in(path.read_text(encoding="utf-8"))]
    return tuple(found)


def _tests_in(text: str) -> Iterator[tuple[str, str, str]]:
    waiting: list[tuple[str, str]] = []
    for line in text.splitlines():
        if mark := _MARK.match(line):
            waiting += [(mark["kind"], entry) for entry in _ID.findall(mark["ids"])]
        elif waiting and (test := _TEST.match(line)):
            name = test["python"] or test["group"] or test["script"]
            yield from ((kind, entry, name) for kind, entry in waiting)
            waiting = []


def _cell(tests: dict[str, list[str]]) -> str:
    return "<br>".join(f"[{file.removeprefix('tests/')}](../{file}): {', '.join(map(_name, names))}" for file, names in tests.items())


def _name(test: str) -> str:
    return f"`{test}`" if test.isidentifier() else test.replace("|", "\\|")


if __name__ == "__main__":
    for table in TABLES:
        table.path.write_text(table.text(), encoding="utf-8")
