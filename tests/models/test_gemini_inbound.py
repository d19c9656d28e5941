"""What Gemini Live says: frames in, small messages out, in the documented order."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_gateway.models.gemini_inbound import GENERATED_ID, BadFrame, GeminiInbound, GoAway, Refusal, Resumption, SetupComplete
from live_gateway.models.gemini_profile import GeminiProfile
from live_gateway.models.live import (
    AudioOut,
    ContentOut,
    GenerationComplete,
    Grounding,
    Interrupted,
    SpeechEnded,
    SpeechStarted,
    TextOut,
    ToolCalls,
    ToolCallsCancelled,
    Transcript,
    TurnComplete,
    Usage,
)

PCM = b"\x01\x02" * 10


def inbound(**profile: Any) -> GeminiInbound:
    return GeminiInbound(GeminiProfile(**profile))


def decoded(message: Any, **profile: Any) -> list[Any]:
    return list(inbound(**profile).decode(json.dumps(message).encode()))


def audio_part(pcm: bytes = PCM, kind: str = "audio/pcm;rate=24000") -> dict[str, Any]:
    return {"inlineData": {"mimeType": kind, "data": base64.b64encode(pcm).decode()}}


EVERYTHING = {
    "usageMetadata": {
        "promptTokenCount": 3,
        "responseTokenCount": 4,
        "totalTokenCount": 7,
        "responseTokensDetails": [{"modality": "AUDIO", "tokenCount": 4, "invented": 1}],
        "inventedCount": 9,
    },
    "sessionResumptionUpdate": {"newHandle": "h1", "resumable": True, "lastConsumedClientMessageIndex": "12"},
    "toolCallCancellation": {"ids": ["fc-0"]},
    "voiceActivity": {"voiceActivityType": "ACTIVITY_START", "audioOffset": "1.5s"},
    "toolCall": {"functionCalls": [{"id": "fc-1", "name": "f", "args": {"a_b": 1}}, {"id": "fc-2", "name": "g"}]},
    "serverContent": {
        "inputTranscription": {"text": "in"},
        "outputTranscription": {"text": "out", "languageCode": "en", "startOffset": "0.5s", "endOffset": "1s"},
        "modelTurn": {"role": "model", "parts": [audio_part(), {"text": "hm", "thought": True}, {"text": "text"}]},
        "groundingMetadata": {"webSearchQueries": ["q"], "invented": {}},
        "generationComplete": True,
        "turnComplete": True,
        "turnCompleteReason": "NEED_MORE_INPUT",
        "invented": {"deep": [1]},
    },
    "goAway": {"timeLeft": "9.5s"},
    "invented": True,
}


# report: A23
# contract: LIVE-14
def test_every_field_of_one_message_comes_out_in_the_documented_order() -> None:
    usage, grounding, *rest = decoded(EVERYTHING)
    assert isinstance(usage, Usage)
    assert usage.usage.candidates_token_count == 4
    assert usage.usage.prompt_token_count == 3
    assert usage.usage.total_token_count == 7
    assert isinstance(grounding, Grounding)
    assert grounding.grounding.web_search_queries == ["q"]
    calls = rest[8]
    assert isinstance(calls, ToolCalls)
    assert [(call.id, call.name, call.args) for call in calls.calls] == [("fc-1", "f", {"a_b": 1}), ("fc-2", "g", {})]
    assert rest == [
        Resumption("h1", 12),
        ToolCallsCancelled(("fc-0",)),
        SpeechStarted(),
        Transcript("user", "in"),
        Transcript("model", "out", language="en", start_ms=500, end_ms=1000),
        AudioOut(PCM),
        TextOut("hm", thought=True),
        TextOut("text"),
        calls,
        Transcript("user", "", finished=True),
        GenerationComplete(),
        TurnComplete("NEED_MORE_INPUT"),
        GoAway(9.5),
    ]


# report: A49
# case: K-LIVE-19
def test_what_comes_with_an_interruption_belongs_to_what_was_interrupted() -> None:
    content = {"interrupted": True, "modelTurn": {"parts": [audio_part(), {"text": "x"}]}, "outputTranscription": {"text": "said"}}
    assert decoded({"serverContent": content}) == [Interrupted(), Transcript("model", "said")]


def test_one_piece_of_audio_is_one_message() -> None:
    assert decoded({"serverContent": {"modelTurn": {"parts": [audio_part()]}}}) == [AudioOut(PCM)]
    assert decoded({"serverContent": {"modelTurn": {"parts": [audio_part(), audio_part()]}}}) == [AudioOut(PCM), AudioOut(PCM)]
    assert decoded({"serverContent": {"modelTurn": {"parts": [audio_part(b"abc")]}}}) == [AudioOut(b"ab")], "whole samples only"
    assert decoded({"serverContent": {"modelTurn": {"parts": [audio_part(b"")]}}}) == []


# report: A13
# report: A17
@pytest.mark.parametrize(
    ("update", "handle"),
    [
        ({"newHandle": "h", "resumable": True}, "h"),
        ({"newHandle": "h", "resumable": False}, None),
        ({"newHandle": "", "resumable": True}, None),
        ({"newHandle": "h"}, None),
        ({"resumable": False}, None),
    ],
)
def test_only_a_resumable_handle_that_is_one_counts(update: dict[str, Any], handle: str | None) -> None:
    assert decoded({"sessionResumptionUpdate": update}) == [Resumption(handle)]


# case: K-LCON-22
def test_a_call_without_an_id_is_given_one() -> None:
    (message,) = decoded({"toolCall": {"functionCalls": [{"name": "f", "args": {}}, {"name": "f", "args": None}]}})
    first, second = message.calls
    assert first.id.startswith(GENERATED_ID)
    assert first.id != second.id
    assert second.args == {}


# report: A20, A25
def test_the_users_words_are_finished_when_the_answer_is_made() -> None:
    decoder = inbound()

    def said(**content: Any) -> list[Any]:
        return list(decoder.decode(json.dumps({"serverContent": content}).encode()))

    assert said(inputTranscription={"text": "hi"}) == [Transcript("user", "hi")]
    assert said(generationComplete=True) == [Transcript("user", "", finished=True), GenerationComplete()]
    assert said(generationComplete=True) == [GenerationComplete()]
    said(inputTranscription={"text": "hi", "finished": True})
    assert said(generationComplete=True) == [GenerationComplete()]


# report: A41
def test_a_call_in_pieces_is_not_run() -> None:
    decoder = inbound()
    piece = {"id": "1", "name": "f", "willContinue": True, "partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}]}
    frame = json.dumps({"toolCall": {"functionCalls": [piece, {"id": "2", "name": "g"}, {"id": "1"}]}}).encode()
    (message,) = decoder.decode(frame)
    assert isinstance(message, ToolCalls)
    assert [call.id for call in message.calls] == ["2"]
    assert decoder.skipped == 2


# report: A33
def test_a_cancellation_names_the_calls() -> None:
    assert decoded({"toolCallCancellation": {"ids": ["a", "b"]}}) == [ToolCallsCancelled(("a", "b"))]
    assert decoded({"toolCallCancellation": {}}) == []


# report: A22
def test_a_transcription_that_comes_once_is_finished_at_once() -> None:
    message = {"serverContent": {"inputTranscription": {"text": "hi"}}}
    assert decoded(message, one_input_transcription=True) == [Transcript("user", "hi", finished=True)]
    assert decoded(message) == [Transcript("user", "hi")]


def test_interim_words_are_replaced_by_the_final_ones() -> None:
    decoder = inbound()

    def said(**content: Any) -> Any:
        (message,) = decoder.decode(json.dumps({"serverContent": content}).encode())
        return message

    assert said(interimInputTranscription={"text": "what is"}) == Transcript("user", "what is", replaces=True)
    assert said(interimInputTranscription={"text": "what's the"}) == Transcript("user", "what's the", replaces=True)
    assert said(inputTranscription={"text": "What's the "}) == Transcript("user", "What's the ", replaces=True)
    assert said(inputTranscription={"text": "time?", "finished": True}) == Transcript(
        "user", "What's the time?", replaces=True, finished=True
    )
    assert said(inputTranscription={"text": "And"}) == Transcript("user", "And")


def test_speech_activity_in_both_spellings() -> None:
    assert decoded({"voiceActivity": {"voiceActivityType": "ACTIVITY_END"}}) == [SpeechEnded()]
    assert decoded({"voiceActivityDetectionSignal": {"vadSignalType": "VAD_SIGNAL_TYPE_SOS"}}) == [SpeechStarted()]
    assert decoded({"voiceActivity": {"voiceActivityType": "SOMETHING_NEW"}}) == []


def test_other_parts_are_handed_on_whole() -> None:
    parts = [{"executableCode": {"code": "1+1", "language": "PYTHON", "invented": 1}}, audio_part(b"png!", "image/png")]
    code, image = decoded({"serverContent": {"modelTurn": {"parts": parts}}})
    assert isinstance(code, ContentOut)
    assert isinstance(image, ContentOut)
    assert code.content.parts
    assert code.content.parts[0].executable_code
    assert code.content.parts[0].executable_code.code == "1+1"
    assert image.content.parts
    assert image.content.parts[0].inline_data
    assert image.content.parts[0].inline_data.data == b"png!"


# case: K-LIVE-17
def test_protocol_messages_are_no_words() -> None:
    assert decoded({"setupComplete": {"sessionId": "s"}}) == [SetupComplete()]
    assert decoded({"serverContent": {"waitingForInput": True, "interactionStatus": "IDLE"}}) == []
    assert decoded({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota"}}) == [Refusal(429, "RESOURCE_EXHAUSTED")]
    assert decoded({"goAway": {}}) == [GoAway(0.0)]
    assert decoded({}) == []


def test_a_field_that_changed_its_shape_costs_that_field() -> None:
    decoder = inbound()
    content = {"turnComplete": "yes", "outputTranscription": {"text": "words"}, "generationComplete": True}
    frame = json.dumps({"serverContent": content, "goAway": {"timeLeft": 5}, "usageMetadata": {"totalTokenCount": 5}}).encode()
    usage, words, complete = decoder.decode(frame)
    assert isinstance(usage, Usage)
    assert words == Transcript("model", "words")
    assert complete == GenerationComplete()
    assert decoder.skipped >= 2


@pytest.mark.parametrize("frame", [b"", b"{", b"\xff\xfe", b"[1]", b'"text"', b"null", b"{" * 5000])
def test_what_is_no_object_is_a_bad_frame(frame: bytes) -> None:
    with pytest.raises(BadFrame):
        inbound().decode(frame)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(sorted([*EVERYTHING, "setupComplete", "error"]))
CONTENT_KEYS = st.sampled_from(sorted(EVERYTHING["serverContent"]))  # type: ignore[call-overload]


@given(st.dictionaries(KEYS, JSON | st.dictionaries(CONTENT_KEYS, JSON, max_size=4), max_size=4))
def test_no_object_whatever_breaks_it(message: dict[str, Any]) -> None:
    inbound().decode(json.dumps(message).encode())
