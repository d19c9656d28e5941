"""`live-gateway serve` as a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def serving(*arguments: str, directory: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and the address that it printed; a free port, and a home of its own in `directory`."""
    command = [sys.executable, "-m", "live_gateway", "serve", *arguments, "--port", "0"]
    root = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        command, cwd=directory, env={**os.environ, "PYTHONPATH": root, "HOME": str(directory)}, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        first = process.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+", first)
        assert address is not None, first
        yield process, address[0]
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()
