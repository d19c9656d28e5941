"""A real Chromium for tests of the page, with a microphone that hears a file."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pytest
from playwright.async_api import BrowserContext, ConsoleMessage, Page, ViewportSize, async_playwright

from tests.support.signals import Signal

BROWSER_TESTS = Path(__file__).parents[1] / "browser"
AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
FAKE_DEVICE = "--use-fake-device-for-media-stream"
ALLOW = "--use-fake-ui-for-media-stream"

DESKTOP = ViewportSize(width=1280, height=800)
MOBILE = ViewportSize(width=390, height=844)


def chromium_path() -> str:
    """Where Chromium is; skips the test where there is none."""
    path = os.environ.get("LIVE_GATEWAY_CHROMIUM") or shutil.which("chromium")
    if path is None:
        pytest.skip("no Chromium: set LIVE_GATEWAY_CHROMIUM to its path")
    return path


@dataclass(frozen=True, slots=True)
class Recording:
    """What reached the speaker. first: the frame of the audio context at which it begins."""

    signal: Signal
    hz: int
    first: int


class Chromium:
    """One page in one browser of its own.

    microphone: the file that it hears, once, from the moment that the microphone is opened. permissions: arguments that say what happens
    when the page asks for it; none of them leaves a browser without a device. Entering waits until the browser runs, not for a page.
    """

    def __init__(
        self,
        directory: Path,
        microphone: Path | None = None,
        permissions: Sequence[str] = (FAKE_DEVICE, ALLOW),
        arguments: Sequence[str] = (),
        **options: Any,
    ) -> None:
        self._directory = directory / "profile"
        self._arguments = [*ARGUMENTS, *permissions, *arguments]
        if microphone is not None:
            self._arguments.append(f"--use-file-for-fake-audio-capture={microphone}%noloop")
        self._options: dict[str, Any] = {"viewport": DESKTOP, "color_scheme": "light", "locale": "en-US"} | options
        self._playwright = async_playwright()
        self.console: list[str] = []
        self.context: BrowserContext
        self.page: Page

    async def __aenter__(self) -> Self:
        playwright = await self._playwright.__aenter__()
        self.context = await playwright.chromium.launch_persistent_context(
            str(self._directory),
            executable_path=chromium_path(),
            headless=False,  # the new headless mode is chosen by an argument
            args=self._arguments,
            ignore_default_args=["--mute-audio"],
            **self._options,
        )
        self.page = self.context.pages[0]
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.console.append(f"uncaught: {error}"))
        await self.page.add_init_script(path=BROWSER_TESTS / "probe.js")
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            await self.context.close()
        finally:
            await self._playwright.__aexit__(kind, error, trace)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.console.append(f"{message.type}: {message.text}")

    async def until(self, expression: str, seconds: float = 15) -> None:
        """Wait until an expression is true in the page. Playwright's own way needs `eval`, which the page's policy forbids."""
        poll = (
            f"new Promise(done => {{ const timer = setInterval(() => {{ if ({expression}) {{ clearInterval(timer); done(); }} }}, 20) }})"
        )
        try:
            async with asyncio.timeout(seconds):
                await self.page.evaluate(poll)
        except TimeoutError:
            raise AssertionError(f"it never came true: {expression}") from None

    async def text(self, selector: str) -> str:
        return (await self.page.locator(selector).inner_text()).strip()

    async def until_state(self, text: str, seconds: float = 15) -> None:
        """Wait until the state line says this."""
        await self.until(f"document.querySelector('#state').textContent === {text!r}", seconds)

    async def plain_microphone(self) -> None:
        """Switch off what a browser does to a voice, so that sound can be compared."""
        await self.page.evaluate("for (const id of ['echo', 'noise', 'gain']) document.getElementById(id).checked = false")

    async def recording(self) -> Recording:
        """What has reached the speaker so far."""
        raw = await self.page.evaluate("probe.recording()")
        samples = np.frombuffer(base64.b64decode(raw["pcm"]), "<f4").astype(np.float64)
        return Recording(samples, raw["rate"], raw["first"])

    async def axe(self) -> list[str]:
        """What an accessibility checker objects to."""
        if not AXE.is_file():
            pytest.skip("axe-core is not installed: npm ci")
        await self.page.evaluate(AXE.read_text())
        found = await self.page.evaluate(
            "tags => axe.run(document, {runOnly: tags}).then(r => r.violations.map(v => "
            "`${v.id}: ${v.nodes.map(n => n.html.slice(0, 120) + ' | ' + n.failureSummary).join('; ')}`))",
            AXE_TAGS,
        )
        return list(found)

    async def assert_clean(self, allowed: Sequence[str] = ()) -> None:
        """No error or warning on the console but those that hold one of these words, and nothing that the page's policy forbids."""
        lines = [line for line in self.console if not any(word in line for word in allowed)]
        assert lines == [], lines
        violations = await self.page.evaluate("probe.violations")
        assert violations == [], violations
