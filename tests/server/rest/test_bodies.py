"""Bodies: read within bounds, and refused in the same shapes whatever is wrong with them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_gateway.errors import BadMessage
from live_gateway.server.rest.bodies import MAX_BODY, CreateSession, RunBody, decode_base64, parse_body
from live_gateway.server.rest.problems import Invalid
from tests.support.rest import SESSIONS, asking, client_of, rest_runner


def state_of(text: str) -> dict[str, Any]:
    """The state in a body whose state is this text."""
    return parse_body(f'{{"state": {{"a": {text}}}}}'.encode(), CreateSession).state or {}


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("raw", "kind"), [(b"{", "json_invalid"), (b"\xff", "json_invalid"), (b'{"a": NaN}', "json_invalid"), (b"[]", "model_type")]
)
async def test_what_is_no_body(raw: bytes, kind: str) -> None:
    async with client_of(rest_runner()) as client:
        answer = await client.post("/run", raw=raw)
        assert answer.status == 422
        assert answer.json["detail"][0]["type"] == kind
        assert answer.json["detail"][0]["loc"][0] == "body"


@pytest.mark.virtual_time
async def test_body_of_another_type() -> None:
    async with client_of(rest_runner()) as client:
        answer = await client.post("/run", asking(), headers={"content-type": "text/plain"})
        assert (answer.status, answer.json["code"]) == (415, "unsupported_media_type")
        assert (await client.post(SESSIONS, {}, headers={"content-type": "application/json; charset=utf-8"})).status == 200


@pytest.mark.virtual_time
async def test_body_that_is_too_large_is_not_read_to_its_end() -> None:
    async with client_of(rest_runner()) as client:
        announced = client.open("POST", "/run", raw=b"{", headers={"content-length": str(MAX_BODY + 1)}, stalls=True)
        async with announced as exchange:
            assert (await exchange.whole()).status == 413
        async with client.open("POST", "/run", raw=b" " * (MAX_BODY + 1), stalls=True) as exchange:
            answer = await exchange.whole()
            assert (answer.status, answer.json["code"]) == (413, "too_large")
            assert answer.headers["connection"] == "close"
        async with client.open("POST", "/run", raw=b"{", headers={"content-length": "9" * 5000}, stalls=True) as exchange:
            assert (await exchange.whole()).status == 413


@pytest.mark.virtual_time
async def test_body_that_does_not_come() -> None:
    async with client_of(rest_runner()) as client, client.open("POST", "/run", raw=b"{", stalls=True) as exchange:
        answer = await exchange.whole()
        assert (answer.status, answer.json["code"]) == (408, "timeout")
        assert asyncio.get_running_loop().time() == 30


@pytest.mark.virtual_time
async def test_client_that_leaves_within_its_body() -> None:
    async with client_of(rest_runner()) as client, client.open("POST", "/run", raw=b"{", stalls=True) as exchange:
        exchange.leave()
        await exchange.finished.wait()


@pytest.mark.parametrize(
    "text", ["[" * 40 + "]" * 40, "{" + ",".join(f'"{number}": 0' for number in range(300)) + "}", "[" + ",".join(['""'] * 10_000) + "]"]
)
def test_too_deep_or_too_much(text: str) -> None:
    with pytest.raises(BadMessage):
        state_of(text)


@pytest.mark.parametrize("number", [-(2**63), 2**64 - 1, 0, -1.5, 1e300])
def test_numbers_that_fit(number: float) -> None:
    assert state_of(json.dumps(number))["a"] == number


@pytest.mark.parametrize("text", [str(2**64), str(-(2**63) - 1), f"[{2**64}]", f'{{"b": {2**64}}}', "1e999", "9" * 5000])
def test_numbers_that_do_not(text: str) -> None:
    with pytest.raises(Invalid):
        state_of(text)


@pytest.mark.parametrize("text", [r'"\u0000"', r'"\ud800"', r'"\udc00x"'])
def test_characters_that_no_store_can_hold(text: str) -> None:
    assert "\ufffd" in state_of(text)["a"]


@given(st.binary(min_size=1, max_size=64), st.booleans(), st.booleans())
def test_base64_in_either_alphabet_padded_or_not(data: bytes, url_safe: bool, padded: bool) -> None:
    import base64

    text = (base64.urlsafe_b64encode(data) if url_safe else base64.b64encode(data)).decode()
    assert decode_base64(text if padded else text.rstrip("=")) == data


@pytest.mark.parametrize("size", [48 * 1024 - 1, 48 * 1024, 48 * 1024 + 1, 200_000])
def test_base64_of_more_than_one_step(size: int) -> None:
    import base64

    data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    text = base64.b64encode(data).decode()
    assert decode_base64(text) == data


def test_in_base64_of_more_than_one_step_nothing_else_is_let_through() -> None:
    text = "A" * 200_000
    for place in (70, 65_534, 65_536, 131_070):
        for wrong in ("==", "=A", "*A", "A\n"):
            with pytest.raises(ValueError, match="not base64"):
                decode_base64(text[:place] + wrong + text[place + 2 :])


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_json_is_a_body_or_is_refused(value: Any) -> None:
    with contextlib.suppress(Invalid, BadMessage):
        parse_body(json.dumps(value).encode("utf-8", "surrogatepass"), RunBody)
