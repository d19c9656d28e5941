"""Every command in the documentation does what the page says, with the output that it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from live_gateway.voice.local import available
from tests.support.docs import DOCS, blocks, pages
from tests.support.terminal import BY_HAND, Terminal, matches, runnable

PAGES = [page for page in pages() if runnable(blocks(page, "sh", "text"), voice=True)]
SPOKEN = [page for page in PAGES if any("needs the voice" in block.note for block in blocks(page, "sh"))]


def names(found: list[Path]) -> list[object]:
    return [pytest.param(page, id=str(page.relative_to(DOCS))) for page in found]


@pytest.mark.slow
@pytest.mark.parametrize("page", names(PAGES))
def test_commands_in_writing(page: Path, tmp_path: Path) -> None:
    follow(page, tmp_path, voice=False)


@pytest.mark.slow
@pytest.mark.voice
@pytest.mark.skipif(not available().ok, reason=str(available()))
@pytest.mark.parametrize("page", names(SPOKEN))
def test_commands_by_voice(page: Path, tmp_path: Path) -> None:
    follow(page, tmp_path, voice=True)


def follow(page: Path, directory: Path, *, voice: bool) -> None:
    """Do what the page says, from its beginning."""
    with Terminal(directory) as terminal:
        for block, expected in runnable(blocks(page, "sh", "text"), voice=voice):
            said = terminal.run(block)
            assert expected is None or matches(expected, said), f"{block.place} printed:\n{said}"


def test_few_commands_are_left_to_the_reader() -> None:
    by_hand = [block.place for page in pages() for block in blocks(page, "sh") if block.note.startswith(BY_HAND)]
    assert len(by_hand) == 4, by_hand


def test_what_a_page_shows_is_compared_with_what_was_printed() -> None:
    assert matches("took … ms\ndone", "took 12 ms\ndone\n")
    assert not matches("took … ms\ndone", "took 12 ms\nfailed\n")
    assert not matches("took … ms", "took\n12 ms")
