"""`live-gateway fake-gemini`: a Gemini Live server on this machine that plays a script or a recording."""

from __future__ import annotations

import argparse
from functools import partial

from live_gateway.cli.until_stopped import run_until_stopped
from live_gateway.testing.gemini_scripts import serve_script


def run(arguments: argparse.Namespace) -> int:
    """Play until the process is asked to stop. Raises `CommandError` for a script or port that cannot be used."""
    host, port = arguments.host, arguments.port
    serving = partial(serve_script, arguments.script, host=host, port=port, ready=partial(_announce, arguments.script))
    return run_until_stopped(serving, f"port {port} of {host}")


def _announce(script: str, url: str) -> None:
    print(
        f"Playing {script!r} to everybody who connects: {url}\n"
        f"Use it: GEMINI_API_KEY=any live-gateway serve --live-model gemini-live --gemini-url {url}\n"
        "Stop with Ctrl-C.",
        flush=True,
    )
