"""The pages themselves: links lead somewhere, names exist, Python blocks are files of `examples/` or run as they are."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from live_gateway.content import FunctionCall, FunctionResponse, Part, Transcription, model_content
from live_gateway.events import Event
from live_gateway.live.ordering import ChronologicalRelease
from tests.support.docs import DOCS, ROOT, Block, blocks, pages, section, source_of, tables, text_of, words

_LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_PATH = re.compile(r"`((?:live_gateway|examples|docs|tests|static)/[\w./-]+)`")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in _HEADING.findall(text)}


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(DOCS))) for page in pages()])
def test_links_lead_somewhere(page: Path) -> None:
    lost = []
    for link in _LINK.findall(page.read_text(encoding="utf-8")):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.is_file() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    assert lost == []


def test_every_page_can_be_reached_from_the_index() -> None:
    reached, open_pages = set(), [DOCS / "index.md"]
    while open_pages:
        page = open_pages.pop()
        if page in reached or not page.is_file():
            continue
        reached.add(page)
        links = [link.partition("#")[0] for link in _LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
        open_pages += [(page.parent / link).resolve() for link in links if link.endswith(".md")]
    assert [page for page in pages() if page not in reached] == []


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(DOCS))) for page in pages()])
def test_files_that_are_named_exist(page: Path) -> None:
    assert [path for path in _PATH.findall(page.read_text(encoding="utf-8")) if not (ROOT / path).exists()] == []


def test_where_to_change_what_names_what_is_there() -> None:
    rows = [row for row in tables(text_of("where.md")) if row[0] != "To change"]
    assert len(rows) > 20
    wrong = []
    for _, file, name in rows:
        [path] = words(file)
        known = names_in(ROOT / path)
        wrong += [f"{path} has no {word}" for word in words(name) if word not in known]
    assert wrong == []


def names_in(path: Path) -> set[str]:
    """What a module defines at its top level, and the methods of its classes."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.ClassDef(name=name, body=body):
                names |= {name} | {f"{name}.{entry.name}" for entry in body if isinstance(entry, ast.FunctionDef | ast.AsyncFunctionDef)}
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.Assign(targets=targets):
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return names


PYTHON = [block for page in pages() for block in blocks(page, "python")]


@pytest.mark.parametrize("block", [pytest.param(block, id=block.place) for block in PYTHON])
def test_python_blocks_are_examples_or_run(block: Block) -> None:
    if found := re.fullmatch(r"(file|from): (\S+)(?: (\w+))?", block.note):
        assert (found[1] == "from") == (found[3] is not None)
        assert block.text.rstrip() == source_of(found[2], found[3]).rstrip(), f"{block.place} is old: run python -m tests.support.docs"
        return
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", block.text], capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr


def test_every_block_says_its_language() -> None:
    """So that none escapes: what is neither Python, commands, their output nor a drawing has no language and no meaning."""
    known = {"python", "sh", "text", "mermaid", ""}
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages())
    assert set(re.findall(r"^```(\w*)$", text, re.MULTILINE)) <= known


# The examples of the ordering rule.

ORDERING = [row for row in tables(section(text_of("explanation/ordering.md"), "## Examples")) if row[0] != "Arrives"]


@pytest.mark.parametrize("row", [pytest.param(row, id=row[0]) for row in ORDERING])
def test_examples_of_the_ordering_rule(row: list[str]) -> None:
    [arrives], [recorded] = words(row[0]), words(row[1])
    order = ChronologicalRelease()
    released = [word(event) for arrival in arrives.split() for event in order.feed(arrived(arrival)) if not event.partial]
    assert " ".join(released) == recorded
    assert order.held == 0


def test_there_are_examples_of_the_ordering_rule() -> None:
    assert len(ORDERING) >= 8
    assert all(first != second for first, second in pairwise(row[0] for row in ORDERING))


def arrived(written: str) -> Event:
    """The event that the page's notation means."""
    match written:
        case "in~" | "IN":
            return Event(author="user", input_transcription=Transcription(text="words"), partial=written == "in~")
        case "out~" | "OUT":
            return Event(author="agent", output_transcription=Transcription(text="words"), partial=written == "out~")
        case "call":
            return Event(author="agent", content=model_content([Part(function_call=FunctionCall(id="c", name="f"))]))
        case "resp":
            return Event(author="agent", content=model_content([Part(function_response=FunctionResponse(id="c", name="f"))]))
        case "TURN":
            return Event(author="agent", turn_complete=True)
    raise ValueError(written)


def word(event: Event) -> str:
    """The other way round."""
    if event.transcription is not None:
        return "IN" if event.input_transcription is not None else "OUT"
    return "TURN" if event.turn_complete else "call" if event.function_calls else "resp"
