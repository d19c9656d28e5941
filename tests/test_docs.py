"""What is written about the code is true: the contract's table, the README's example, the links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.contract_table import TABLES, Table

ROOT = Path(__file__).parents[1]
TEXTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")])


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_the_lists_of_what_tests_prove_are_up_to_date(table: Table) -> None:
    current = table.path.read_text(encoding="utf-8") == table.text()
    assert current, f"docs/{table.name} is old: run python -m tests.support.contract_table"


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_no_test_names_what_does_not_exist(table: Table) -> None:
    assert table.unknown() == set()


def test_the_agent_in_the_readme_is_the_one_in_the_examples() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert shown == (ROOT / "examples" / "shop.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", path.read_text(encoding="utf-8"))
    assert [link for link in links if "://" not in link and not (path.parent / link).exists()] == []
