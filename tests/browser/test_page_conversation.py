"""What the page shows and how it is used: captions, tool cards, typed text, keyboard, languages, accessibility."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.chromium import DESKTOP, MOBILE, Chromium
from tests.support.page_server import Connection, PageServer
from tests.support.signals import long_speech, pcm16, write_microphone

pytestmark = pytest.mark.browser

ANSWER = "I moved forward ten meters. The way ahead is clear, and the battery is at eighty percent."
CALL: dict[str, Any] = {
    "call": "c1",
    "name": "move",
    "args": {"direction": "forward", "distance_m": 10},
    "effect": "write",
    "needs_confirm": False,
    "digest": "0123456789abcdef",
}


async def scene(connection: Connection) -> None:
    """A question, a tool, and an answer that plays."""
    await connection.transcript("u1", "user", "Go forward ten", final=False, revision=0)
    await connection.transcript("u1", "user", "Go forward ten meters.", seq=1)
    await connection.send("state", state="tool")
    await connection.send("tool.call", **CALL, pending=True)
    await connection.send("tool.update", call="c1", status="done", ms=12, result={"moved": 10}, pending=True)
    await connection.send("tool.call", **CALL, seq=2)
    await connection.send("tool.update", call="c1", status="done", result={"moved": 10}, seq=3)
    await connection.say(1, pcm16(long_speech(6, 24_000)))
    await connection.transcript("a1", "model", ANSWER, seq=4)
    await connection.send("metrics", turn=1, eou_to_first_audio_ms=182, model_ms=120)


async def test_a_conversation_is_shown_as_it_happens(tmp_path: Path) -> None:
    write_microphone(tmp_path / "microphone.wav", [1.0, "cmd_goforward", 30.0])
    async with PageServer() as server, Chromium(tmp_path, tmp_path / "microphone.wav") as browser:
        await browser.page.goto(server.url)
        await browser.page.click("#start")
        connection = await server.connection()
        await browser.until_state("Listening")
        await connection.send("state", state="user_speaking")
        await browser.until_state("You are speaking")
        await connection.transcript("u1", "user", "Go forward", final=False, revision=0)
        await browser.until("document.querySelector('.said.user.partial p')?.textContent === 'Go forward'")
        await scene(connection)
        await browser.until_state("The agent is speaking")
        await browser.until("document.querySelectorAll('#log > li').length === 3")
        assert await browser.text(".call .status") == "done · 12 ms"
        assert await browser.text(".call .line") == "direction: forward, distance_m: 10"
        assert await browser.text("#timing-last") == "182 ms"
        await browser.until("0 < document.querySelector('.coming').textContent.length")
        await browser.assert_clean()


async def test_what_was_not_heard_is_struck_through(tmp_path: Path) -> None:
    async with PageServer() as server, Chromium(tmp_path) as browser:
        await browser.page.goto(server.url)
        await browser.page.fill("#message", "hello")
        await browser.page.keyboard.press("Enter")
        connection = await server.connection()
        await scene(connection)
        await browser.until("document.querySelector('.said.model .coming')?.textContent.length < 60")
        await connection.send("interrupted", response=1, reason="speech")
        await browser.until("document.querySelector('.said.model s') !== null")
        assert await browser.text(".said.model .tag") == "interrupted"
        heard = ANSWER.index(" The way")
        await connection.transcript("a1", "model", ANSWER, revision=2, heard_chars=heard, seq=5)
        await browser.until(f"document.querySelector('.said.model s').textContent === {ANSWER[heard:]!r}")
        await browser.until("document.querySelector('#announcer').textContent === 'interrupted'")


async def test_a_typed_message_begins_a_conversation_and_is_followed_to_the_record(tmp_path: Path) -> None:
    async def script(connection: Connection, message: dict[str, Any]) -> None:
        if message["type"] != "content":
            return
        text = message["content"]["parts"][0]["text"]
        if text == "lost":
            await connection.send("ack", message_id=message["message_id"], state="not_delivered", retry="ok")
            return
        await connection.send("ack", message_id=message["message_id"], state="persisted", seq=7, retry="never")
        await connection.transcript("e7", "user", text, source="typed", seq=7)

    async with PageServer(script) as server, Chromium(tmp_path) as browser:
        await browser.page.goto(server.url)
        await browser.page.fill("#message", "Turn left")
        await browser.page.keyboard.press("Enter")
        await browser.until("document.querySelector('.said.user p')?.textContent === 'Turn left'")
        await browser.until("document.querySelector('.said .who').textContent === 'Youtyped'")
        await browser.until_state("Type a message")
        connection = await server.connection()
        assert connection.hello["caps"] == ["playback"]
        await browser.page.fill("#message", "lost")
        await browser.page.keyboard.press("Enter")
        await browser.page.get_by_role("button", name="Send again").click()
        await connection.until(lambda: len(connection.of_type("content")) == 3)
        first, again = connection.of_type("content")[1:]
        assert first["message_id"] == again["message_id"]


async def test_the_text_of_others_is_only_text(tmp_path: Path) -> None:
    evil = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
    async with PageServer() as server, Chromium(tmp_path) as browser:
        await browser.page.goto(server.url)
        await browser.page.fill("#message", evil)
        await browser.page.keyboard.press("Enter")
        connection = await server.connection()
        await connection.transcript("a1", "model", evil)
        await connection.send("tool.call", **(CALL | {"name": evil, "args": {evil: evil}}), pending=True)
        await connection.send("error", code="bad_message", message=evil, fatal=False, retryable=False)
        await browser.until("document.querySelectorAll('#log > li').length === 3 && document.querySelector('.note') !== null")
        assert await browser.page.locator("#log img, #log script, .note img").count() == 0
        assert await browser.text(".said.model p") == evil
        await browser.assert_clean()


# contract: HITL-06
async def test_a_call_that_waits_is_approved_or_denied(tmp_path: Path) -> None:
    async with PageServer() as server, Chromium(tmp_path) as browser:
        page = browser.page
        await page.goto(server.url)
        await page.click("#start")
        connection = await server.connection()
        for call, digest in (("c1", "aaaa"), ("c2", "bbbb")):
            asked = CALL | {"call": call, "digest": digest, "needs_confirm": True}
            await connection.send("tool.call", **CALL | {"call": call, "digest": digest}, pending=True)
            await connection.send("tool.call", **asked, hint="Really?" if call == "c1" else "", pending=True)
            await connection.send("tool.update", call=call, status="waiting_confirm", ms=0, pending=True)
        await browser.until("document.querySelectorAll('.consent button').length === 4")
        assert await page.locator(".consent .question").all_text_contents() == ["Really?", "The agent wants to run move."]
        await page.set_viewport_size(MOBILE)
        for arguments in await page.locator(".consent .args").all():  # whole, however narrow the page is
            assert await arguments.inner_text() == "direction: forward, distance_m: 10"
            assert await arguments.evaluate("p => p.scrollWidth <= p.clientWidth && p.offsetHeight > 0")
        assert await browser.axe() == []
        first = page.locator(".consent").first.get_by_role("button", name="Approve")
        await first.focus()
        await page.keyboard.press("Enter")
        await page.keyboard.press("Enter")
        await connection.until(lambda: connection.of_type("tool.confirm"))
        await connection.send("tool.call", **CALL, seq=1)
        assert await page.evaluate("document.activeElement.textContent") == "Approve"
        await connection.send("tool.update", call="c1", status="running", ms=0, pending=True)
        await browser.until("document.querySelectorAll('.consent').length === 1")
        assert await page.evaluate("document.activeElement.matches('.call summary')")
        await page.get_by_role("button", name="Deny").click()
        await connection.until(lambda: len(connection.of_type("tool.confirm")) == 2)
        await connection.send("tool.update", call="c2", status="denied", error="rejected", ms=0, pending=True)
        await browser.until("document.querySelector('.consent') === null")
        assert connection.of_type("tool.confirm") == [
            {"type": "tool.confirm", "call": "c1", "approve": True, "digest": "aaaa"},
            {"type": "tool.confirm", "call": "c2", "approve": False, "digest": "bbbb"},
        ]
        await browser.assert_clean()


async def test_everything_can_be_done_with_the_keyboard(tmp_path: Path) -> None:
    async with PageServer() as server, Chromium(tmp_path) as browser:
        page = browser.page
        await page.goto(server.url)

        async def tab_to(selector: str) -> None:
            for _ in range(40):
                await page.keyboard.press("Tab")
                if await page.evaluate("s => document.activeElement.matches(s)", selector):
                    return
            raise AssertionError(f"Tab never reaches {selector}")

        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.className") == "skip"
        await page.keyboard.press("Enter")
        await tab_to("#start")
        await page.keyboard.press("Enter")
        connection = await server.connection()
        await browser.until_state("Listening")
        await scene(connection)
        await browser.until("document.querySelector('.call') !== null")
        await tab_to("#microphone")
        await page.keyboard.press("Space")
        await connection.until(lambda: connection.of_type("input.mute") == [{"type": "input.mute", "muted": True}])
        await tab_to("#cancel")
        await page.keyboard.press("Enter")
        await connection.until(lambda: connection.of_type("response.cancel"))
        await tab_to("#message")
        await page.keyboard.type("typed")
        await page.keyboard.press("Enter")
        await connection.until(lambda: connection.of_type("content"))
        await tab_to("input[name=input]")
        await page.keyboard.press("ArrowDown")
        await connection.until(lambda: connection.of_type("input.mode") == [{"type": "input.mode", "mode": "ptt"}])
        await tab_to(".call summary")
        await page.keyboard.press("Enter")
        assert await page.locator(".call details").get_attribute("open") is not None
        await connection.send("tool.update", call="c1", status="done", ms=13, seq=9)
        await tab_to("#start")
        await page.keyboard.press("Enter")
        await connection.until(lambda: connection.of_type("bye"))
        await browser.until_state("Ready when you are")
        assert await page.locator(".call details").get_attribute("open") is not None


async def test_a_chosen_language_and_theme_stay(tmp_path: Path) -> None:
    async with PageServer() as server, Chromium(tmp_path) as browser:
        await browser.page.goto(server.url)
        await browser.page.select_option("#language", "zh")
        await browser.page.select_option("#theme", "dark")
        await browser.page.reload()
        await browser.until_state("随时可以开始")
        assert await browser.page.evaluate("document.documentElement.lang") == "zh-Hans"
        assert await browser.page.title() == "语音对话 – Live Gateway"
        dark = await browser.page.evaluate("getComputedStyle(document.body).backgroundColor")
        await browser.page.select_option("#theme", "light")
        assert await browser.page.evaluate("getComputedStyle(document.body).backgroundColor") != dark


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_nothing_stands_in_anybodys_way(tmp_path: Path, theme: str) -> None:
    async with PageServer() as server, Chromium(tmp_path, color_scheme=theme) as browser:
        await browser.page.goto(server.url)
        assert await browser.axe() == []
        await browser.page.click("#start")
        connection = await server.connection()
        await scene(connection)
        await connection.send("error", code="bad_message", message="Something was wrong.", fatal=False, retryable=False)
        await connection.transcript("u2", "user", "And then", final=False, revision=0)
        await connection.send("tool.call", **(CALL | {"call": "c2"}), pending=True)
        await browser.until("document.querySelectorAll('#log > li').length === 5")
        await browser.page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
        assert await browser.axe() == []
        await connection.send("interrupted", response=1, reason="speech")
        await browser.page.check("input[value=ptt]")
        await browser.page.set_viewport_size(MOBILE)
        assert await browser.axe() == []
        assert await browser.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        await browser.page.set_viewport_size(DESKTOP)
        await browser.page.select_option("#language", "zh")
        assert await browser.axe() == []
        await browser.assert_clean()


# report: A62
async def test_the_page_works_below_a_path(tmp_path: Path) -> None:
    """Every address in the page is relative to it."""
    html = (Path(__file__).parents[2] / "static" / "index.html").read_text()
    assert json.dumps("/static")[1:-1] not in html.replace("static/", "")
    assert 'href="/' not in html
    assert 'src="/' not in html
