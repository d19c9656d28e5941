"""The JSON form of events and what an event says about itself. The vectors are read by other languages too."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_gateway.content import Blob, Content, FunctionCall, FunctionResponse, Part, Transcription, model_content, user_content
from live_gateway.events import (
    Compaction,
    Event,
    EventActions,
    NodeInfo,
    decode_event,
    encode_event,
    event_from_dict,
    event_to_dict,
    new_event_id,
    new_invocation_id,
    replace,
)

VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "vectors" / "events.json").read_text())
BY_NAME = {vector["name"]: vector["json"] for vector in VECTORS}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3),
    max_leaves=8,
)
PAYLOAD = st.dictionaries(st.text(st.characters(codec="utf-8")), JSON, max_size=4)


# contract: EVT-01
# case: K-SES-07, K-SES-08, K-SES-09, K-SES-10
@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_golden_vectors_survive_both_ways(vector: dict[str, Any]) -> None:
    event = decode_event(json.dumps(vector["json"]))
    assert json.loads(encode_event(event)) == vector["json"]
    assert event_to_dict(event) == vector["json"]
    assert event_from_dict(vector["json"]) == event == decode_event(encode_event(event))


# contract: EVT-01
def test_the_fields_of_a_vector_arrive_where_they_belong() -> None:
    event = event_from_dict(BY_NAME["all fields of an answer"])
    assert (event.actions.transfer_to_agent, event.actions.escalate, event.actions.skip_summarization) == ("other", True, True)
    assert event.actions.artifact_delta == {"file.png": 2}
    assert event.actions.end_of_agent
    assert (event.turn_complete, event.interrupted, event.error_code, event.error_message) == (True, True, "E1", "it broke")
    assert event.usage_metadata is not None
    assert event.usage_metadata.total_token_count == 2
    assert event.citation_metadata is not None
    assert event.grounding_metadata is not None
    live = event_from_dict(BY_NAME["live fields"])
    assert live.transcription == Transcription(text="what time is it", finished=True, language_code="en")
    assert live.output_transcription == Transcription(text="half past", finished=False)
    assert live.finish_reason is not None
    assert live.finish_reason.value == "MAX_TOKENS"
    flow = event_from_dict(BY_NAME["workflow fields"])
    assert flow.node_info == NodeInfo(path="wf/b@1", message_as_output=True, output_for=["wf"])
    assert flow.routes == ["left", 2, True]
    summary = event_from_dict(BY_NAME["compaction"]).actions.compaction
    assert summary == Compaction(first_seq=1, last_seq=4, excluded=[2], content=model_content([Part(text="summary")]))


# case: K-SES-14
# contract: EVT-07
def test_an_empty_event_has_exactly_these_keys() -> None:
    assert set(json.loads(encode_event(Event(author="user")))) == {"actions", "author", "id", "invocationId", "timestamp"}
    fresh = Event(author="agent", invocation_id="e-1")
    assert fresh.id
    assert fresh.timestamp > 0
    assert fresh.actions.state_delta == {}
    assert fresh.seq == 0
    assert Event(author="agent").id != Event(author="agent").id


# report: A39
@given(args=PAYLOAD, response=PAYLOAD, state=PAYLOAD, metadata=PAYLOAD, output=JSON)
def test_payloads_of_the_user_are_opaque(args: Any, response: Any, state: Any, metadata: Any, output: Any) -> None:
    parts = [
        Part(function_call=FunctionCall(id="c1", name="f", args=args)),
        Part(function_response=FunctionResponse(id="c1", name="f", response=response)),
    ]
    actions = EventActions(state_delta=state)
    event = Event(author="a", content=model_content(parts), actions=actions, custom_metadata=metadata, output=output)
    read = decode_event(encode_event(event))
    assert read.function_calls[0].args == args
    assert read.function_responses[0].response == response
    assert read.actions.state_delta == state
    assert read.custom_metadata == metadata
    assert read.output == output


# case: K-SES-07
def test_bytes_survive_in_both_alphabets() -> None:
    data = bytes(range(256))
    event = Event(author="user", content=Content(role="user", parts=[Part(inline_data=Blob(data=data, mime_type="image/png"))]))
    assert decode_event(encode_event(event)) == event
    standard = json.dumps(event_to_dict(event)).replace("-", "+").replace("_", "/")
    parts = json.loads(standard)["content"]["parts"]
    read = event_from_dict({"author": "user", "content": {"parts": parts}})
    assert read.content is not None
    assert read.content.parts is not None
    blob = read.content.parts[0].inline_data
    assert blob is not None
    assert blob.data == data


# contract: EVT-02
@pytest.mark.parametrize(
    ("event", "final"),
    [
        (Event(author="a", content=model_content([Part(text="hi")])), True),
        (Event(author="a"), True),
        (Event(author="a", content=model_content([Part(text="hi")]), partial=True), False),
        (Event(author="a", content=model_content([Part(function_call=FunctionCall(name="f"))])), False),
        (Event(author="a", content=model_content([Part(function_response=FunctionResponse(name="f"))])), False),
        (Event(author="a", content=model_content([Part(function_call=FunctionCall(name="f"))]), long_running_tool_ids=["c"]), True),
        (
            Event(
                author="a",
                content=model_content([Part(function_response=FunctionResponse(name="f"))]),
                actions=EventActions(skip_summarization=True),
            ),
            True,
        ),
        (
            event_from_dict({"author": "a", "content": {"parts": [{"text": "x"}, {"codeExecutionResult": {"outcome": "OUTCOME_OK"}}]}}),
            False,
        ),
        (event_from_dict({"author": "a", "content": {"parts": [{"codeExecutionResult": {"outcome": "OUTCOME_OK"}}, {"text": "x"}]}}), True),
        (event_from_dict(BY_NAME["compaction"]), False),
    ],
)
def test_final_response(event: Event, final: bool) -> None:
    assert event.is_final_response() is final


# contract: EVT-03
def test_role_and_author_are_different_things() -> None:
    event = event_from_dict(BY_NAME["response with an opaque payload"])
    assert event.author == "shop"
    assert event.content is not None
    assert event.content.role == "user"


# contract: EVT-05
def test_the_ids_do_not_meet() -> None:
    call = event_from_dict(BY_NAME["call with an opaque payload"])
    response = event_from_dict(BY_NAME["response with an opaque payload"])
    assert call.id != response.id
    assert call.invocation_id == response.invocation_id
    assert call.function_calls[0].id == response.function_responses[0].id == "tool123"
    assert len({new_event_id() for _ in range(100)} | {new_invocation_id() for _ in range(100)}) == 200


# contract: EVT-06
def test_readers_are_empty_without_content() -> None:
    bare = Event(author="a")
    assert (bare.function_calls, bare.function_responses, bare.text, bare.transcription) == ([], [], "", None)
    assert Event(author="a", content=Content(role="model")).text == ""
    assert event_from_dict(BY_NAME["all fields of an answer"]).text == "answer"


def test_events_cannot_be_changed_but_copied() -> None:
    event = Event(author="a", content=user_content("x"))
    with pytest.raises(AttributeError):
        event.author = "b"  # type: ignore[misc]
    changed = replace(event, author="b")
    assert (event.author, changed.author, changed.id) == ("a", "b", event.id)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"author": 1}', "author"),
        ('{"id": "x"}', "author"),
        ('{"author": "a", "timestamp": null}', "timestamp"),
        ('{"author": "a", "content": {"parts": 3}}', "content"),
        ('{"author": "a", "content": {"parts": [{"text": "a", "zz": "a secret"}]}}', "parts.0.zz"),
        ('{"author": "a", "actions": {"compaction": {"firstSeq": 1, "lastSeq": 2, "content": 4}}}', "actions.compaction.content"),
        ("[]", "Expected `object`"),
    ],
)
def test_a_bad_event_is_refused_with_the_place_and_without_the_content(text: str, path: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=path.replace(".", r"\.")) as raised:
        decode_event(text)
    assert "secret" not in str(raised.value)


def test_unknown_fields_are_ignored() -> None:
    assert decode_event('{"author": "a", "fromTomorrow": 1}').author == "a"


def test_what_is_not_json_is_refused_and_read_only_state_is_taken() -> None:
    with pytest.raises(TypeError, match="object is not JSON"):
        encode_event(Event(author="a", output=object()))
    frozen = MappingProxyType({"a": MappingProxyType({"b": (1, None)})})
    assert decode_event(encode_event(Event(author="a", output=frozen))).output == {"a": {"b": [1, None]}}


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_timestamps_are_exact(timestamp: float) -> None:
    read = decode_event(encode_event(Event(author="a", timestamp=timestamp))).timestamp
    assert read == timestamp
    assert math.copysign(1, read) == math.copysign(1, timestamp)
