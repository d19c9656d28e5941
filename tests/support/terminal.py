"""Runs the commands of a page of the documentation as a reader would, in a directory of its own, on a port of its own."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.docs import ROOT, Block

START_S = 60.0
COMMAND_S = 120.0
BY_HAND = ("run by hand", "needs a package registry")
"""Notes of blocks that no test can run."""
_LOADING = re.compile(r"^notice +loading_voice\n", re.MULTILINE)
"""Whether this comes depends on the machine's speed; the tutorial says so."""
READY = "Stop with Ctrl-C."


BACKGROUND = ("serve", "fake-gemini")
FAKE_GEMINI = "http://127.0.0.1:8090"
"""Where it is unless told otherwise; here it gets a free port."""


class Terminal:
    """`live-gateway serve` and `fake-gemini` go on in the background until the next one, or the end; everything else is run to its end."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        shutil.copytree(ROOT / "examples", directory / "examples", ignore=shutil.ignore_patterns("__pycache__"))
        port, self._gemini_port = _free_port(), _free_port()
        self._url = f"ws://127.0.0.1:{port}/live"
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("LIVE_GATEWAY_")},
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "LIVE_GATEWAY_PORT": str(port),
            "LIVE_GATEWAY_STORE": f"sqlite:///{(directory / 'sessions.sqlite3').as_posix()}",
        }
        self._servers: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for name in BACKGROUND:
            self._stop(name)

    def run(self, block: Block) -> str:
        """Run the block's commands; what they print. A command that fails is an `AssertionError`."""
        directory = self._directory / "examples" if "cd examples" in block.note else self._directory
        return "".join(self._command(line, directory) for line in block.text.splitlines() if line.strip())

    def _command(self, line: str, directory: Path) -> str:
        words = shlex.split(line)
        environment = dict(self._environment)
        while match := re.fullmatch(r"([A-Z_]+)=(.*)", words[0]):
            environment[match[1]] = match[2]
            words.pop(0)
        words = [word.replace(FAKE_GEMINI, f"http://127.0.0.1:{self._gemini_port}") for word in words]
        if words[:2] == ["live-gateway", "fake-gemini"]:
            words += ["--port", str(self._gemini_port)]
        if words[0] == "live-gateway" and words[1] in BACKGROUND:
            return self._start(words[1:], environment)
        if words[:2] == ["live-gateway", "talk"]:
            words += ["--url", self._url]
        programs = {"live-gateway": [sys.executable, "-m", "live_gateway"], "python": [sys.executable]}
        done = subprocess.run(
            [*programs[words[0]], *words[1:]], cwd=directory, env=environment, capture_output=True, text=True, timeout=COMMAND_S
        )
        assert done.returncode == 0, f"{line}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return _LOADING.sub("", done.stdout)

    def _start(self, words: list[str], environment: dict[str, str]) -> str:
        name = words[0]
        self._stop(name)
        log = self._directory / f"{name}.log"
        with log.open("w", encoding="utf-8") as output:
            self._servers[name] = server = subprocess.Popen(
                [sys.executable, "-m", "live_gateway", *words],
                cwd=self._directory,
                env=environment,
                stdout=output,
                stderr=output,
                text=True,
            )
        deadline = time.monotonic() + START_S
        while READY not in (said := log.read_text(encoding="utf-8")):
            assert server.poll() is None, f"{name} ended: {said}"
            assert time.monotonic() < deadline, f"{name} did not start: {said}"
            time.sleep(0.05)
        return said

    def _stop(self, name: str) -> None:
        server = self._servers.pop(name, None)
        if server is None:
            return
        server.send_signal(signal.SIGINT)
        try:
            server.wait(20)
        finally:
            server.kill()
            server.wait()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def matches(expected: str, said: str) -> bool:
    """Whether what was said is what the page shows; `…` stands for anything within a line."""
    pattern = ".*?".join(re.escape(piece) for piece in expected.strip().split("…"))
    return re.fullmatch(pattern, said.strip()) is not None


def runnable(blocks: Iterable[Block], *, voice: bool) -> list[tuple[Block, str | None]]:
    """The blocks of commands, each with the output that stands under it."""
    found: list[tuple[Block, str | None]] = []
    last: Block | None = None
    for block in blocks:
        if block.language == "sh":
            last = None if block.note.startswith(BY_HAND) or ("needs the voice" in block.note and not voice) else block
            if last is not None:
                found.append((last, None))
        elif last is not None:
            found[-1] = (last, block.text)
            last = None
    return found
