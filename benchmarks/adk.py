"""Turns a second beside google-adk's Runner: the same turns, each store in memory, each in its own environment, in the same run.

google-adk is installed into an environment that is made for this and removed afterwards; LIVE_GATEWAY_ADK_PYTHON names the interpreter of
one that has it already. Where it cannot be installed, the comparison is left out and the reason said.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.table import show, spread
from benchmarks.text import _prepared, _read
from live_gateway.agents.config import RunConfig
from live_gateway.sessions.memory import InMemorySessionService

WANTED = "google-adk==2.13.*"
LENGTHS = (10, 1_000, 5_000)
TURNS = 20
ROUNDS = 5
ADK_ROUNDS = 2
INSTALL_S = 600
RUN_S = 600
THEIRS = Path(__file__).parent / "adk_turns.py"


def main() -> None:
    """Print the table."""
    try:
        with _environment() as python:
            rows = [_row(python, length) for length in LENGTHS]
    except (subprocess.SubprocessError, OSError) as error:
        print(f"  left out: {WANTED} could not be installed or run here ({_reason(error)})")
        return
    show([f"turns a second, {TURNS} turns of a scripted model", "google-adk", "live-gateway", "ratio"], rows)


@contextmanager
def _environment() -> Iterator[str]:
    """An interpreter that has google-adk, its byte code compiled."""
    if known := os.environ.get("LIVE_GATEWAY_ADK_PYTHON"):
        yield known
        return
    with tempfile.TemporaryDirectory(prefix="adk-") as directory:
        print(f"  installing {WANTED} into an environment of its own, which takes a minute or two ...", flush=True)
        _run([sys.executable, "-m", "venv", directory], INSTALL_S)
        python = str(Path(directory) / ("Scripts" if os.name == "nt" else "bin") / "python")
        _run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", WANTED], INSTALL_S)
        yield python


def _row(python: str, length: int) -> list[str]:
    theirs = json.loads(_run([python, str(THEIRS), str(length), str(TURNS), str(ADK_ROUNDS)], RUN_S))
    ours = [asyncio.run(_ours(length)) for _ in range(ROUNDS)]
    ratio = statistics.median(ours) / statistics.median(theirs)
    return [f"{length} events", spread(theirs, 1), spread(ours, 0), f"{ratio:.0f}"]


async def _ours(length: int) -> float:
    runner = await _prepared(InMemorySessionService(), length)
    began = time.perf_counter()
    for _ in range(TURNS):
        await _read(runner, RunConfig())
    return TURNS / (time.perf_counter() - began)


def _run(command: list[str], seconds: float) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=True, env=environment)
    return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""


def _reason(error: Exception) -> str:
    words = getattr(error, "stderr", None)
    lines = words.strip().splitlines() if isinstance(words, str) else []
    return lines[-1][:200] if lines else type(error).__name__
