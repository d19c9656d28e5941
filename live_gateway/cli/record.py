"""`live-gateway record`: stand between a gateway and Gemini Live and write down what they say."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from live_gateway.cli.problems import CommandError
from live_gateway.cli.until_stopped import run_until_stopped
from live_gateway.testing.recording import record


def run(arguments: argparse.Namespace) -> int:
    """Record until the process is asked to stop. Raises `CommandError` for a file or port that cannot be used."""
    path = Path(arguments.file)
    if path.exists():
        raise CommandError(f"there is already a file {str(path)!r}; a recording does not overwrite one")
    serving = partial(
        record,
        path,
        upstream=arguments.upstream,
        shorten_ms=arguments.shorten_ms,
        port=arguments.port,
        ready=partial(_announce, path, arguments.upstream),
    )
    return run_until_stopped(serving, f"the file {str(path)!r} or port {arguments.port}")


def _announce(path: Path, upstream: str, url: str) -> None:
    print(
        f"Recording into {path} what is said to {upstream}.\n"
        f"Use it: live-gateway serve --live-model NAME --gemini-url {url}\n"
        "Stop with Ctrl-C.",
        flush=True,
    )
