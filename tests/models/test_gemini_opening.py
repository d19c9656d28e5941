"""How a conversation with Gemini Live begins: who we are, what is refused, what the model is told, and what is resumed."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import pytest

from live_gateway.content import Part, user_content
from live_gateway.errors import (
    ModelError,
    ModelUnavailable,
    SetupTimeout,
    UpstreamLost,
    UpstreamPolicy,
    UpstreamQuota,
)
from live_gateway.models.gemini_live import GeminiLiveModel
from live_gateway.models.gemini_options import GeminiOptions
from live_gateway.models.live import (
    ConnectionNotice,
    LiveSetup,
    SessionResumption,
    ToolCalls,
)
from live_gateway.testing.fake_gemini import FakeGemini
from live_gateway.testing.gemini_steps import (
    call,
    close,
    expect_content,
    expect_setup,
    expect_text,
    handle,
    mute,
    ready,
    refuse,
    send,
    write,
)
from tests.support.gemini import connected, gemini_model, kind, rest, take, told, written

# Opening.


# case: K-LCON-11
# report: A11
async def test_a_policy_refusal_while_opening_is_not_tried_again() -> None:
    async with FakeGemini([expect_setup(), close(1008, "API key not valid")]) as gemini:
        with pytest.raises(UpstreamPolicy, match="API key not valid"):
            async with connected(gemini_model(gemini)):
                pass
        assert gemini.dials == 1


@pytest.mark.parametrize(("status", "error"), [(401, UpstreamPolicy), (403, UpstreamPolicy), (404, UpstreamPolicy), (429, UpstreamQuota)])
async def test_an_http_refusal_is_not_tried_again(status: int, error: type[Exception]) -> None:
    async with FakeGemini([refuse(status)]) as gemini:
        with pytest.raises(error):
            async with connected(gemini_model(gemini)):
                pass
        assert gemini.dials == 1


# report: A12
async def test_an_error_that_names_the_quota_is_not_tried_again() -> None:
    error = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota"}}
    async with FakeGemini([expect_setup(), send(error), close(1011)]) as gemini:
        with pytest.raises(UpstreamQuota):
            async with connected(gemini_model(gemini)):
                pass
    async with FakeGemini([handle("h1"), send(error)]) as gemini:
        async with connected(gemini_model(gemini)) as connection:
            with pytest.raises(UpstreamQuota):
                await rest(connection)
        assert gemini.dials == 1


async def test_a_model_that_is_never_ready_is_asked_twice() -> None:
    async with FakeGemini([mute()], [mute()]) as gemini:
        with pytest.raises(SetupTimeout):
            async with connected(gemini_model(gemini, setup_s=0.1)):
                pass
        assert gemini.dials == 2


async def test_a_service_that_is_away_for_a_moment_is_waited_for() -> None:
    notices: list[ConnectionNotice] = []
    async with (
        FakeGemini([refuse(503)], [write("hi")]) as gemini,
        connected(gemini_model(gemini), LiveSetup(notify=notices.append)) as connection,
    ):
        await take(connection, written("hi"))
    assert [one.code for one in notices] == ["upstream_reconnecting"]


async def test_nobody_there() -> None:
    async with FakeGemini([write("x")]) as gemini:
        port = gemini.port
        async with connected(gemini_model(gemini)) as connection:
            await take(connection, written("x"))
    with pytest.raises(UpstreamLost, match="3 tries"):
        async with connected(gemini_model(port=port)):
            pass


async def test_a_set_up_that_is_answered_by_nonsense() -> None:
    async with FakeGemini([expect_setup(), send(b"\x00\x01")]) as gemini:
        with pytest.raises(UpstreamLost, match="no JSON"):
            async with connected(gemini_model(gemini)):
                pass


def test_without_a_key_there_is_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ModelUnavailable, match="no API key"):
        GeminiLiveModel("m")
    with pytest.raises(ModelUnavailable, match="belong to vertexai"):
        GeminiLiveModel("m", project="p")
    monkeypatch.setenv("GEMINI_API_KEY", "secret")
    assert "secret" not in repr(GeminiLiveModel("m").access)


# History.


# contract: LIVE-18
# report: A57
@pytest.mark.parametrize("unanswered", [False, True])
async def test_on_connect_the_model_is_told_what_was_said(unanswered: bool) -> None:
    contents = ["q", "a", "and?"] if unanswered else ["q", "a"]

    def matches(value: Any) -> bool:
        return [(turn["role"], turn["parts"][0]["text"]) for turn in value["turns"]] == list(
            zip(["user", "model", "user"], contents, strict=False)
        )

    async with (
        FakeGemini([expect_content(matches, turn_complete=unanswered)]) as gemini,
        connected(gemini_model(gemini), told(*contents, unanswered=unanswered)),
    ):
        await gemini.played()


# contract: LIVE-18
# report: A13
async def test_nothing_is_told_when_resuming_with_a_handle() -> None:
    setup = dataclasses.replace(told("q", "a"), session_resumption=SessionResumption(handle="h0"))
    async with (
        FakeGemini([expect_setup(sessionResumption__handle="h0"), ready(), expect_text("hi")]) as gemini,
        connected(gemini_model(gemini), setup) as connection,
    ):
        await connection.send_content(user_content("hi"))
        await gemini.played()


# case: K-LCON-06
async def test_a_history_that_cannot_be_sent() -> None:
    async with FakeGemini() as gemini:
        bad = user_content("x").model_copy(update={"parts": [Part(text="\ud800")]})
        with pytest.raises(ModelError, match="history"):
            async with connected(gemini_model(gemini), told(bad)):
                pass


# Handles across conversations.


# report: A14
# contract: LIVE-18
async def test_a_conversation_that_goes_on_resumes_the_one_before() -> None:
    async with FakeGemini(
        [handle("h1"), write("x")],
        [expect_setup(sessionResumption__handle="h1"), ready(), write("y")],
        [expect_setup(lambda setup: setup["sessionResumption"] == {}), ready(), expect_content(), write("z")],
    ) as gemini:
        model = gemini_model(gemini)
        for conversation, continues, words in (("a", None, "x"), ("b", "a", "y"), ("c", "somebody", "z")):
            setup = told("q", "a") if words != "x" else LiveSetup()
            setup = dataclasses.replace(setup, conversation=conversation, continues=continues)
            async with connected(model, setup) as connection:
                await take(connection, written(words))


# report: A14
async def test_a_handle_from_before_an_open_call_is_not_remembered() -> None:
    async with FakeGemini([handle("h1"), call("f")], [expect_setup(lambda setup: setup["sessionResumption"] == {}), ready()]) as gemini:
        model = gemini_model(gemini)
        async with connected(model, LiveSetup(conversation="a")) as connection:
            await take(connection, kind(ToolCalls))
        async with connected(model, LiveSetup(conversation="b", continues="a")):
            pass


# Who we are.


class Credentials:
    """As `google.auth` has them, with the thread that refreshed them."""

    def __init__(self) -> None:
        self.token: str | None = None
        self.valid = False
        self.quota_project_id = "payer"
        self.thread = ""

    def refresh(self, request: object) -> None:
        self.thread = threading.current_thread().name
        self.token, self.valid = "bearer-token", True


async def test_vertex_credentials_are_refreshed_in_a_thread() -> None:
    credentials = Credentials()
    async with FakeGemini([write("x")]) as gemini:
        model = GeminiLiveModel(
            "gemini-live", vertexai=True, project="p", location="us-central1", credentials=credentials, base_url=gemini.base_url
        )
        async with connected(model) as connection:
            await take(connection, written("x"))
    one = gemini.connections[0]
    assert one.headers["Authorization"] == "Bearer bearer-token"
    assert one.headers["x-goog-user-project"] == "payer"
    assert one.path == "/ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent"
    assert gemini.setups[0]["model"] == "projects/p/locations/us-central1/publishers/google/models/gemini-live"
    assert credentials.thread != threading.current_thread().name


async def test_another_version_of_the_api_is_dialled_where_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeGemini([write("x")], [write("x")], [write("x")]) as gemini:
        for named, dialled in (("beta", "v1beta"), ("v9", "v9")):
            monkeypatch.setenv("GOOGLE_GENAI_API_VERSION", named)
            async with connected(gemini_model(gemini)) as connection:
                await take(connection, written("x"))
            assert gemini.connections[-1].path.endswith(f".{dialled}.GenerativeService.BidiGenerateContent")
        async with connected(gemini_model(gemini, api_version="v7")) as connection:
            await take(connection, written("x"))
        assert gemini.connections[-1].path.endswith(".v7.GenerativeService.BidiGenerateContent")


async def test_an_ephemeral_token_goes_to_the_constrained_method() -> None:
    async with FakeGemini([write("x")]) as gemini:
        model = GeminiLiveModel("gemini-live", api_key="auth_tokens/abc", base_url=gemini.base_url)
        async with connected(model) as connection:
            await take(connection, written("x"))
    assert gemini.connections[0].headers["Authorization"] == "Token auth_tokens/abc"
    assert gemini.connections[0].path.endswith("v1alpha.GenerativeService.BidiGenerateContentConstrained")


async def test_tls_and_options() -> None:
    async with FakeGemini([write("x")], tls=True) as gemini:
        options = GeminiOptions(tls=gemini.client_tls, headers={"x-extra": "1"}, api_version="v9")
        model = GeminiLiveModel("gemini-live", api_key="k", base_url=gemini.base_url, options=options)
        async with connected(model) as connection:
            await take(connection, written("x"))
    assert gemini.connections[0].headers["x-extra"] == "1"
    assert "v9" in gemini.connections[0].path
    async with FakeGemini([write("x")], tls=True) as gemini:
        with pytest.raises(UpstreamLost, match="not trusted"):
            async with connected(GeminiLiveModel("gemini-live", api_key="k", base_url=gemini.base_url)):
                pass
        gemini._scripts.clear()
