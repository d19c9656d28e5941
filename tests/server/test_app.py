"""The application's edge over HTTP, and a real server: pages, headers, hosts and origins, the port, the end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from live_gateway.agents.llm import LlmAgent
from live_gateway.errors import ConfigurationError
from live_gateway.runner import Runner
from live_gateway.server import run
from live_gateway.server.app import create_app, static_dir
from live_gateway.server.edge import Edge, host_name
from live_gateway.server.gateway import ServerConfig
from live_gateway.server.run import listen
from live_gateway.testing.scripted_live import ScriptedLiveModel
from live_gateway.testing.steps import expect_content, say
from live_gateway.voice.local import LocalVoice
from tests.support.running_server import RunningServer


def runner(model: ScriptedLiveModel | None = None) -> Runner:
    return Runner.in_memory("demo", LlmAgent(name="assistant", live_model=model or ScriptedLiveModel()))


def client_of(app: object, host: str = "localhost") -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=f"http://{host}")  # type: ignore[arg-type]


async def close_code(client: ClientConnection) -> int:
    """The code with which the server closes; what comes before is passed over."""
    try:
        async with asyncio.timeout(10):
            while True:
                await client.recv()
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd is not None else 1006


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    (tmp_path / "js").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html><title>voice</title>")
    (tmp_path / "js" / "main.js").write_text("export {};")
    return tmp_path


async def test_pages_are_asked_for_each_time_and_sent_when_changed(pages: Path) -> None:
    async with client_of(create_app(runner(), static=pages)) as client:
        index = await client.get("/")
        assert index.text == "<!doctype html><title>voice</title>"
        assert index.headers["content-type"].startswith("text/html")
        assert index.headers["cache-control"] == "no-cache"
        script = await client.get("/static/js/main.js")
        assert script.headers["content-type"] == "text/javascript; charset=utf-8"
        assert script.headers["cache-control"] == "no-cache"
        again = await client.get("/static/js/main.js", headers={"If-None-Match": script.headers["etag"]})
        assert again.status_code == 304
        assert (await client.get("/static/../pyproject.toml")).status_code == 404
        assert (await client.get("/static/%2e%2e/%2e%2e/etc/passwd")).status_code == 404


async def test_every_answer_carries_the_security_headers(pages: Path) -> None:
    async with client_of(create_app(runner(), static=pages)) as client:
        for path in ("/", "/static/js/main.js", "/livez", "/nothing-here"):
            headers = (await client.get(path)).headers
            assert "default-src 'none'" in headers["content-security-policy"]
            assert headers["permissions-policy"] == "microphone=(self), camera=(self), display-capture=(self)"
            assert headers["x-content-type-options"] == "nosniff"


async def test_without_pages_the_root_says_what_runs(tmp_path: Path) -> None:
    app = create_app({"a<b": runner()}, static=tmp_path)
    async with client_of(app) as client:
        page = (await client.get("/")).text
    assert "/live" in page
    assert "a&lt;b: assistant" in page


async def test_liveness_and_readiness() -> None:
    app = create_app(runner())
    async with client_of(app) as client:
        assert (await client.get("/livez")).text == "ok"
        assert (await client.get("/readyz")).json() == {"ready": True, "apps": ["demo"]}
        await app.state.gateway.drain()
        assert (await client.get("/readyz")).status_code == 503
        assert (await client.get("/livez")).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("127.0.0.1:8080", 200),
        ("[::1]:8080", 200),
        ("192.168.1.5", 200),
        ("gateway.example.org", 200),
        ("GATEWAY.example.org:443", 200),
        ("evil.example.org", 403),
        ("gateway.example.org.evil.org", 403),
        ("localhost.evil.org", 403),
        ("127.0.0.1.evil.org", 403),
        ("user@localhost", 403),
        ("localhost/x", 403),
        ("", 403),
    ],
)
async def test_hosts(host: str, status: int) -> None:
    app = create_app(runner(), ServerConfig(hosts=("gateway.example.org",)))
    async with client_of(app) as client:
        assert (await client.get("/livez", headers={"Host": host})).status_code == status


async def test_a_request_with_two_hosts_has_none() -> None:
    async with client_of(create_app(runner())) as client:
        answer = await client.get("/livez", headers=[("Host", "localhost"), ("Host", "evil.example")])
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "host_refused")


@pytest.mark.parametrize("host", ["", "a b", "[::1", "x:y", "@"])
def test_hosts_that_are_none(host: str) -> None:
    assert host_name(host) in {None, "a b"}


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        (None, True),
        ("http://localhost:{port}", True),
        ("https://localhost:{port}", True),
        ("https://app.example.org", True),
        ("http://app.example.org", False),
        ("https://app.example.org:8443", False),
        ("https://app.example.org.evil.org", False),
        ("http://localhost", False),
        ("http://localhost:{port}.evil.org", False),
        ("null", False),
        ("file://", False),
        ("", False),
    ],
)
async def test_origins_of_a_websocket(origin: str | None, allowed: bool) -> None:
    app = create_app(runner(), ServerConfig(origins=("https://app.example.org",)))
    async with RunningServer(app) as server:
        headers = {} if origin is None else {"Origin": origin.format(port=server.port)}
        url = f"ws://localhost:{server.port}/live"
        if allowed:
            async with connect(url, additional_headers=headers):
                pass
        else:
            with pytest.raises(InvalidStatus) as refused:
                async with connect(url, additional_headers=headers):
                    pass
            assert refused.value.response.status_code == 403
            assert b"origin_refused" in refused.value.response.body


# report: A63
async def test_behind_a_proxy_the_scheme_does_not_matter_and_forged_headers_are_not_believed() -> None:
    forged = [
        ("X-Forwarded-Host", "evil.org"),
        ("X-Forwarded-For", "10.0.0.1"),
        ("X-Forwarded-For", "10.0.0.2"),
        ("X-Forwarded-Proto", "wss"),
    ]
    async with RunningServer(create_app(runner())) as server:
        url = f"ws://localhost:{server.port}/live"
        async with connect(url, additional_headers=[("Origin", f"https://localhost:{server.port}"), *forged]):
            pass  # a page over TLS, whose proxy passes the host on
        with pytest.raises(InvalidStatus) as refused:
            await connect(url, additional_headers=[("Origin", "https://evil.org"), *forged])
        assert refused.value.response.status_code == 403


async def test_what_nobody_handled_is_answered_without_its_words() -> None:
    async def broken(scope: object, receive: object, send: object) -> None:
        raise ValueError("secret words")

    async with client_of(Edge(broken)) as client:
        answer = await client.get("/")
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal"
    assert "secret" not in answer.text


# contract: GW-01
async def test_a_conversation_over_a_real_socket() -> None:
    with ScriptedLiveModel([expect_content("hello"), say("Hi there!", ms=15_000)]) as model:
        async with RunningServer(create_app(runner(model))) as server:
            url = f"ws://127.0.0.1:{server.port}/live"
            async with connect(url, subprotocols=[Subprotocol("live-gateway.v1")], compression=None) as client:
                assert client.subprotocol == "live-gateway.v1"
                await client.send('{"type":"hello","v":1}')
                assert '"welcome"' in str(await client.recv())
                await client.send('{"type":"content","message_id":"m-1","content":{"parts":[{"text":"hello"}]}}')
                audio = 0
                async with asyncio.timeout(10):
                    while audio < 15_000 * 48:
                        frame = await client.recv()
                        audio += len(frame) - 24 if isinstance(frame, bytes) else 0
                await client.send('{"type":"bye"}')
                assert await close_code(client) == 1000
    assert audio == 15_000 * 48


# case: K-GW-15
async def test_a_real_frame_of_a_megabyte_closes_with_1009_and_the_model_is_let_go() -> None:
    with ScriptedLiveModel([]) as model:
        app = create_app(runner(model))
        async with RunningServer(app) as server, connect(f"ws://127.0.0.1:{server.port}/live") as client:
            await client.send('{"type":"hello","v":1}')
            await client.recv()
            [socket_of_client] = app.state.gateway.sockets
            with contextlib.suppress(ConnectionClosed):
                await client.send(bytes(1_000_000))
            assert await close_code(client) == 1009
            async with asyncio.timeout(1):
                await socket_of_client.gone.wait()


def test_a_port_that_cannot_be_had() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"port {port} of 127.0.0.1 is already in use"):
            listen("127.0.0.1", port)
    with pytest.raises(ConfigurationError, match="no address of this machine"):
        listen("203.0.113.1", 0)
    with pytest.raises(ConfigurationError, match="no port"):
        listen("127.0.0.1", 70_000)


def test_pages_are_found_beside_the_package() -> None:
    found = static_dir()
    assert found is not None
    assert found.name == "static"


SERVER = """
from live_gateway.agents.llm import LlmAgent
from live_gateway.runner import Runner
from live_gateway.server.app import create_app
from live_gateway.server.run import serve
from live_gateway.testing.scripted_live import ScriptedLiveModel

runner = Runner.in_memory("demo", LlmAgent(name="assistant", live_model=ScriptedLiveModel([])))
serve(create_app(runner), "127.0.0.1", 0, on_ready=lambda url: print(url, flush=True))
print("over", flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_tells_every_client_and_ends_the_process(sign: signal.Signals) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", textwrap.dedent(SERVER), stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            url = (await process.stdout.readline()).decode().strip()
            async with connect(url.replace("http", "ws") + "/live") as client:
                await client.send('{"type":"hello","v":1}')
                await client.recv()
                process.send_signal(sign)
                assert '"goaway"' in str(await client.recv())
                with pytest.raises(ConnectionClosed) as closed:
                    await client.recv()
            assert await process.stdout.readline() == b"over\n"
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1012, "drain")


async def test_a_voice_that_was_loaded_after_the_start_is_kept_out_of_the_garbage_collection_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Voice:
        loaded = False

    kept: list[bool] = []
    monkeypatch.setattr(LocalVoice, "shared", lambda: Voice)
    monkeypatch.setattr(run, "_keep_what_is_loaded", lambda: kept.append(Voice.loaded))
    async with RunningServer(create_app(runner())) as server:
        await server.server.on_tick(1)
        assert kept == [False]
        Voice.loaded = True
        await server.server.on_tick(1)
        await server.server.on_tick(2)
        assert kept == [False, True]
