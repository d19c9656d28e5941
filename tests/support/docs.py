"""The pages under `docs/`, and the code blocks in them.

A comment on the line before a block says what is to be done with it: `<!-- file: examples/x.py -->` (the block is that file),
`<!-- from: examples/x.py name -->` (the block is that function of it); before commands `needs the voice`, `cd examples`, or why nobody can
run them here (`needs a package registry`).
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
WITH_TESTS_OF_THEIR_OWN = frozenset({"architecture.md", "cases.md", "contract.md", "http-api.md"})

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!-- (.+) -->\n\Z")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. place: file and line. note: the comment before it."""

    page: Path
    line: int
    language: str
    text: str
    note: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """All pages, but for those that other tests look after."""
    return sorted(page for page in DOCS.rglob("*.md") if page.name not in WITH_TESTS_OF_THEIR_OWN)


def text_of(page: str) -> str:
    """The text of a page, by its path under `docs/`."""
    return (DOCS / page).read_text(encoding="utf-8")


def blocks(page: Path, *languages: str) -> list[Block]:
    """The page's blocks in these languages, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        comment = _COMMENT.search(text, 0, match.start())
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(page, line, match[1], match[2], comment[1] if comment else ""))
    return [block for block in found if block.language in languages]


def tables(text: str) -> list[list[str]]:
    """The rows of all tables in a text, cells stripped, without the headings' rules."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]
    return [row for row in cells if not all(set(cell) <= set("-:") and cell for cell in row)]


def words(cell: str) -> list[str]:
    """What stands in backticks."""
    return re.findall(r"`([^`]+)`", cell)


def section(text: str, heading: str) -> str:
    """What stands under a heading, down to the next of its level or above."""
    level = len(heading) - len(heading.lstrip("#"))
    begin = text.index(f"\n{heading}\n") + len(heading) + 2
    end = re.compile(rf"^#{{1,{level}}} ", re.MULTILINE).search(text, begin)
    return text[begin : end.start() if end else len(text)]


def source_of(path: str, name: str | None = None) -> str:
    """The text of a file of the repository, or of one function or class at its top level, decorators included."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if name is None:
        return text
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            return "\n".join(text.splitlines()[first - 1 : node.end_lineno]) + "\n"
    raise LookupError(f"{path} has no {name}")


_SHOWN = re.compile(r"(<!-- (?:file|from): (\S+)(?: (\w+))? -->\n)```python\n.*?^```$", re.MULTILINE | re.DOTALL)


def refresh() -> None:
    """Copy the examples into the blocks that show them."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        fresh = _SHOWN.sub(lambda match: f"{match[1]}```python\n{source_of(match[2], match[3]).rstrip()}\n```", text)
        if fresh != text:
            page.write_text(fresh, encoding="utf-8")


if __name__ == "__main__":
    refresh()
