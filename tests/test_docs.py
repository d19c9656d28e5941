"""What is written about the code is true: the contract's table, the README's example, the links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.contract_table import TABLE, table, unknown_clauses

ROOT = Path(__file__).parents[1]
TEXTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")])


def test_the_table_of_the_contract_is_up_to_date() -> None:
    current = TABLE.read_text(encoding="utf-8") == table()
    assert current, "docs/contract.md is old: run python -m tests.support.contract_table"


def test_no_test_names_a_clause_that_does_not_exist() -> None:
    assert unknown_clauses() == set()


def test_the_agent_in_the_readme_is_the_one_in_the_examples() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert shown == (ROOT / "examples" / "shop.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", path.read_text(encoding="utf-8"))
    assert [link for link in links if "://" not in link and not (path.parent / link).exists()] == []
