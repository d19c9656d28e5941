"""The page when something is wrong: no network, no microphone, no trust, a server that goes or says no."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.chromium import ALLOW, FAKE_DEVICE, Chromium
from tests.support.page_server import Connection, PageServer
from tests.support.signals import long_speech, pcm16, write_microphone

pytestmark = pytest.mark.browser

BACKLOG = 8
DISCONTINUITY = 1
SOCKET_NOISE = ("WebSocket connection to",)
"""A browser reports a refused handshake on the console whatever the page does."""


async def talking(browser: Chromium, server: PageServer) -> Connection:
    await browser.page.goto(server.url)
    await browser.page.click("#start")
    connection = await server.connection()
    await browser.until_state("Listening")
    await connection.until_heard(0.5)
    return connection


async def test_a_lost_connection_comes_back_to_the_same_session_with_nothing_unsaid(tmp_path: Path) -> None:
    write_microphone(tmp_path / "microphone.wav", [1.0, "librivox_0920"])
    async with PageServer() as server, Chromium(tmp_path, tmp_path / "microphone.wav") as browser:
        first = await talking(browser, server)
        await first.send("response.start", response=1, turn=1)
        await first.transcript("a1", "model", "I was saying")
        await first.close(1012, "drain")
        second = await server.connection(1)
        await browser.until("document.querySelector('#link').textContent === 'Connected'")
        assert await browser.text(".note p") == "Connected again. The conversation goes on."
        await second.until_heard(2)
        assert second.hello["session"] == "s-1"
        assert second.hello["pending"] == []
        assert second.frames[0].frame_no == 0
        assert second.frames[0].flags & DISCONTINUITY
        assert second.frames[0].flags & BACKLOG
        assert not second.frames[-1].flags & BACKLOG
        assert all(later.pos == earlier.pos + 640 for earlier, later in pairwise(second.frames))
        assert second.frames[0].pos <= first.frames[-1].pos + 640 * 3
        await second.say(1, pcm16(long_speech(0.5, 24_000)))
        await second.until(lambda: second.marks("drained"))
        assert second.marks("drained")[0]["played"] == 12_000
        await browser.assert_clean(SOCKET_NOISE)


async def test_a_server_that_is_away_is_tried_again_with_growing_patience(tmp_path: Path) -> None:
    async with PageServer() as server, Chromium(tmp_path) as browser:
        connection = await talking(browser, server)
        server.refusing = True
        await connection.close(1011, "internal")
        await browser.until("document.querySelector('#state').textContent === 'Connection lost. Try 3…'", 20)
        assert await browser.page.get_attribute("#state", "data-tone") == "trouble"
        server.refusing = False
        await server.connection(1)
        await browser.until_state("Listening")
        await browser.assert_clean((*SOCKET_NOISE, "503"))


async def test_no_network_is_said_at_once_and_its_return_is_used_at_once(tmp_path: Path) -> None:
    async with PageServer() as server, Chromium(tmp_path) as browser:
        await talking(browser, server)
        await browser.context.set_offline(True)
        await browser.until_state("You are offline", 3)
        assert await browser.text("#link") == "Offline"
        await browser.context.set_offline(False)
        await server.connection(1)
        await browser.until_state("Listening", 3)


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        (4506, "taken_over", "This session was opened somewhere else and goes on there."),
        (4510, "model_unavailable", "The model cannot be used on this server. Whoever runs it has to look into it."),
        (4599, "something_new", "The server ended the conversation. Start to try again."),
    ],
)
async def test_a_final_close_code_is_explained_and_obeyed(tmp_path: Path, code: int, error: str, words: str) -> None:
    async with PageServer() as server, Chromium(tmp_path) as browser:
        connection = await talking(browser, server)
        await connection.send("error", code=error, message="", fatal=True, retryable=False)
        await connection.close(code, error)
        await browser.until("document.querySelector('.note') !== null")
        assert await browser.text(".note p") == words
        assert await browser.text("#link") == "Disconnected"
        assert await browser.page.evaluate("probe.microphones.every(s => s.getTracks().every(t => t.readyState === 'ended'))")
        await browser.page.click("#start")
        again = await server.connection(1)
        assert again.hello["session"] == "s-1"


# report: A65
async def test_start_stop_start_leaves_one_socket_and_one_microphone(tmp_path: Path) -> None:
    async with PageServer() as server, Chromium(tmp_path) as browser:
        first = await talking(browser, server)
        await browser.page.click("#start")
        await first.closed.wait()
        assert first.of_type("bye")
        await browser.page.dblclick("#start")
        second = await server.connection(1)
        await second.until_heard(1)
        assert await browser.page.evaluate("probe.sockets") == 2
        live = "probe.microphones.flatMap(s => s.getTracks()).filter(t => t.readyState === 'live').length"
        assert await browser.page.evaluate(live) == 1
        await second.transcript("u1", "user", "That is all.")
        await browser.until("document.querySelector('.said') !== null")
        await browser.page.click("#start")
        await browser.page.click("#new")
        await browser.until("document.querySelector('.said') === null")
        await browser.page.click("#start")
        third = await server.connection(2)
        assert "session" not in third.hello
        await browser.assert_clean()


async def test_a_voice_that_loads_is_waited_for(tmp_path: Path) -> None:
    loaded = asyncio.Event()

    async def script(connection: Connection, message: dict[str, Any]) -> None:
        if message["type"] == "hello":
            await connection.send("notice", level="info", code="loading_voice", params={})
            await loaded.wait()

    async with PageServer(script) as server, Chromium(tmp_path) as browser:
        await browser.page.goto(server.url)
        await browser.page.click("#start")
        await browser.until_state("Loading the voice…")
        loaded.set()
        await browser.until_state("Listening")


@pytest.mark.parametrize(
    ("permissions", "error", "words"),
    [
        ((FAKE_DEVICE, "--deny-permission-prompts"), None, "The browser blocked the microphone."),
        ((ALLOW,), None, "No microphone was found."),
        ((FAKE_DEVICE, ALLOW), "NotReadableError", "Another program uses the microphone."),
    ],
)
async def test_without_a_microphone_the_page_says_why_and_text_works(
    tmp_path: Path, permissions: tuple[str, ...], error: str | None, words: str
) -> None:
    async with PageServer() as server, Chromium(tmp_path, permissions=permissions) as browser:
        await browser.page.goto(server.url)
        if error is not None:
            await browser.page.evaluate(
                "name => { navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException('no', name)); }", error
            )
        await browser.page.click("#start")
        await browser.until("document.querySelector('.note') !== null")
        assert (await browser.text(".note p")).startswith(words)
        await browser.until_state("Type a message")
        assert await browser.text("#microphone") == "Turn on microphone"
        await browser.page.fill("#message", "hello")
        await browser.page.keyboard.press("Enter")
        connection = await server.connection()
        await connection.until(lambda: connection.of_type("content"))
        await connection.say(1, pcm16(long_speech(0.5, 24_000)))
        await connection.until(lambda: connection.marks("drained"))
        await browser.assert_clean()


async def test_plain_http_from_another_host_explains_itself_and_text_works(tmp_path: Path) -> None:
    rules = "--host-resolver-rules=MAP gateway.test 127.0.0.1"
    async with PageServer() as server, Chromium(tmp_path, arguments=[rules]) as browser:
        await browser.page.goto(server.url.replace("127.0.0.1", "gateway.test"))
        words = await browser.text(".note p")
        port = server.url.rsplit(":", 1)[1].rstrip("/")
        assert f"ssh -L {port}:localhost:{port} gateway.test" in words
        assert f"http://localhost:{port}" in words
        await browser.page.fill("#message", "hello")
        await browser.page.keyboard.press("Enter")
        connection = await server.connection()
        await connection.until(lambda: connection.of_type("content"))
        assert connection.hello["caps"] == []
        await connection.say(1, pcm16(long_speech(0.5, 24_000)))
        await connection.transcript("a1", "model", "Good morning.")
        await browser.until("document.querySelector('.said.model p')?.textContent === 'Good morning.'")
        await connection.send("state", state="listening")
        await browser.page.click("#microphone")
        await browser.until_state("Type a message")
        await browser.assert_clean(["Cross-Origin-Opener-Policy"])  # a browser reports that it ignores it on a page it does not trust


async def test_a_microphone_that_goes_away_is_replaced(tmp_path: Path) -> None:
    async with PageServer() as server, Chromium(tmp_path) as browser:
        connection = await talking(browser, server)
        await browser.page.evaluate("probe.microphones[0].getTracks()[0].dispatchEvent(new Event('ended'))")
        await connection.until(lambda: connection.frames[-1].stream == 2)
        assert (await browser.text(".note p")).startswith("The microphone was disconnected.")
        first = next(frame for frame in connection.frames if frame.stream == 2)
        assert first.pos == 0
        await browser.until_state("Listening")


async def test_muted_nothing_is_sent_and_who_speaks_is_told(tmp_path: Path) -> None:
    write_microphone(tmp_path / "microphone.wav", [3.0, "librivox_0920", "librivox_0920"])
    async with PageServer() as server, Chromium(tmp_path, tmp_path / "microphone.wav") as browser:
        connection = await talking(browser, server)
        await browser.plain_microphone()
        await browser.page.click("#microphone")
        await browser.until_state("Your microphone is muted")
        assert await browser.page.get_attribute("#microphone", "aria-pressed") == "true"
        await connection.until(lambda: connection.of_type("input.mute"))
        sent = len(connection.frames)
        await browser.until("document.querySelector('.note')?.dataset.key === 'mic.mutedHint'")
        assert len(connection.frames) <= sent + 2
        await browser.page.click("#microphone")
        await connection.until(lambda: len(connection.frames) > sent + 5)
        assert [m["muted"] for m in connection.of_type("input.mute")] == [True, False]


# report: A47
async def test_push_to_talk_sends_only_while_it_is_pressed_and_a_little_before(tmp_path: Path) -> None:
    async with PageServer() as server, Chromium(tmp_path) as browser:
        connection = await talking(browser, server)
        await browser.page.check("input[value=ptt]")
        await connection.until(lambda: connection.of_type("input.mode"))
        await browser.until_state("Hold the button to talk")
        await asyncio.sleep(0.4)  # what is heard before the button is pressed
        await browser.page.focus("#push")
        await browser.page.keyboard.down("Space")
        await browser.until_state("You are speaking")
        await connection.until(lambda: connection.of_type("input.activity"))
        pressed = len(connection.frames)
        await connection.until(lambda: len(connection.frames) >= pressed + 20)
        await browser.page.keyboard.up("Space")
        await connection.until(lambda: len(connection.of_type("input.activity")) == 2)
        after = len(connection.frames)
        assert [message["event"] for message in connection.of_type("input.activity")] == ["start", "end"]
        begin, end = (at for at, message in connection.messages if message["type"] == "input.activity")
        held = [frame for frame in connection.frames if frame.at >= begin]
        assert held[0].t < begin - 100
        assert all(later.pos == earlier.pos + 640 for earlier, later in pairwise(held))
        assert held[-1].at <= end
        await browser.until_state("Hold the button to talk")
        await asyncio.sleep(0.3)  # a stretch in which a microphone that is still open would be heard
        assert len(connection.frames) == after


async def test_pressing_the_button_over_an_answer_stops_it(tmp_path: Path) -> None:
    async with PageServer() as server, Chromium(tmp_path) as browser:
        connection = await talking(browser, server)
        await browser.page.check("input[value=ptt]")
        await browser.page.check("#toggle")
        await connection.say(1, pcm16(long_speech(5, 24_000)))
        await connection.until(lambda: connection.marks("pos"))
        await browser.page.click("#push")
        await connection.until(lambda: connection.of_type("input.activity"))
        assert connection.of_type("response.cancel") == [{"type": "response.cancel", "reason": "ptt"}]
        await browser.page.click("#push")
        await connection.until(lambda: len(connection.of_type("input.activity")) == 2)


async def test_a_stuck_network_costs_a_gap_and_not_a_growing_delay(tmp_path: Path) -> None:
    async with PageServer() as server, Chromium(tmp_path) as browser:
        connection = await talking(browser, server)
        await connection.until_heard(1.5)
        connection.acknowledge = False
        await browser.until("document.querySelector('.note')?.dataset.key === 'uplink.slow'", 20)
        stopped = len(connection.frames)
        connection.acknowledge = True
        last = connection.frames[-1]
        await connection.send("input.ack", stream=last.stream, pos=last.pos + 640)
        await connection.until(lambda: len(connection.frames) > stopped + 10)
        assert connection.frames[stopped].flags & DISCONTINUITY
        assert connection.frames[stopped].pos - last.pos >= 16_000
        assert not connection.frames[stopped + 1].flags & DISCONTINUITY
