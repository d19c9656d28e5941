"""What is said to Gemini Live: everything in the config reaches the wire, and equals what the vendor's SDK would say."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import pytest
from google import genai
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from live_gateway.content import Blob, Content, FunctionDeclaration, FunctionResponse, GenerateContentConfig, Part, user_content
from live_gateway.errors import ModelError
from live_gateway.models.gemini_profile import GeminiProfile, profile_of
from live_gateway.models.gemini_wire import (
    AUDIO_END,
    activity_message,
    audio_message,
    content_messages,
    history_messages,
    image_message,
    setup_message,
    told_answers,
    tool_response_message,
)
from live_gateway.models.live import (
    Activity,
    ContextWindowCompression,
    Generation,
    LiveSetup,
    SessionResumption,
    Thinking,
    VoiceActivityConfig,
)
from live_gateway.testing.fake_gemini import FakeGemini
from live_gateway.testing.gemini_client_wire import decode, parse
from live_gateway.testing.gemini_steps import (
    Step,
    expect_activity,
    expect_audio,
    expect_audio_end,
    expect_content,
    expect_setup,
    expect_tool_response,
    expect_video,
    ready,
    send,
)

PLAIN = GeminiProfile()
THREE = profile_of("gemini-3.1-flash-live")

FULL = LiveSetup(
    instruction="Be brief.",
    tools=(
        FunctionDeclaration(
            name="f",
            description="does",
            parameters=types.Schema(type=types.Type.OBJECT, properties={"a_b": types.Schema(type=types.Type.STRING)}),
            behavior=types.Behavior.NON_BLOCKING,
        ),
        FunctionDeclaration(name="g", parameters_json_schema={"type": "object", "properties": {"q_r": {"type": "string"}}}),
    ),
    voice="Kore",
    language="de-DE",
    voice_activity=VoiceActivityConfig(
        silence_duration_ms=700, prefix_padding_ms=20, interrupts=False, start_sensitivity="HIGH", end_sensitivity="LOW", all_input=True
    ),
    config=GenerateContentConfig(
        temperature=0.1,
        top_p=0.9,
        safety_settings=[
            types.SafetySetting(category=types.HarmCategory.HARM_CATEGORY_HARASSMENT, threshold=types.HarmBlockThreshold.BLOCK_NONE)
        ],
        tools=[types.Tool(google_search=types.GoogleSearch())],
    ),
    generation=Generation(temperature=0.5, top_k=4, max_output_tokens=99, seed=7),
    thinking=Thinking(budget=10, include_thoughts=True),
    media_resolution="LOW",
    affective_dialog=True,
    proactivity=True,
    session_resumption=SessionResumption(handle="h"),
    context_window_compression=ContextWindowCompression(trigger_tokens=1000, target_tokens=500),
)
SDK_CONFIG = types.LiveConnectConfig(
    response_modalities=[types.Modality.AUDIO],
    temperature=0.5,
    top_p=0.9,
    top_k=4,
    max_output_tokens=99,
    seed=7,
    media_resolution=types.MediaResolution.MEDIA_RESOLUTION_LOW,
    speech_config=types.SpeechConfig(
        language_code="de-DE", voice_config=types.VoiceConfig(prebuilt_voice_config=types.PrebuiltVoiceConfig(voice_name="Kore"))
    ),
    thinking_config=types.ThinkingConfig(thinking_budget=10, include_thoughts=True),
    enable_affective_dialog=True,
    system_instruction="Be brief.",
    tools=[
        types.Tool(function_declarations=list(FULL.tools)),
        types.Tool(google_search=types.GoogleSearch()),
    ],
    session_resumption=types.SessionResumptionConfig(handle="h"),
    input_audio_transcription=types.AudioTranscriptionConfig(),
    output_audio_transcription=types.AudioTranscriptionConfig(),
    realtime_input_config=types.RealtimeInputConfig(
        automatic_activity_detection=types.AutomaticActivityDetection(
            disabled=False,
            prefix_padding_ms=20,
            silence_duration_ms=700,
            start_of_speech_sensitivity=types.StartSensitivity.START_SENSITIVITY_HIGH,
            end_of_speech_sensitivity=types.EndSensitivity.END_SENSITIVITY_LOW,
        ),
        activity_handling=types.ActivityHandling.NO_INTERRUPTION,
        turn_coverage=types.TurnCoverage.TURN_INCLUDES_ALL_INPUT,
    ),
    context_window_compression=types.ContextWindowCompressionConfig(
        trigger_tokens=1000, sliding_window=types.SlidingWindow(target_tokens=500)
    ),
    proactivity=types.ProactivityConfig(proactive_audio=True),
    safety_settings=FULL.config.safety_settings if FULL.config else None,
)
CONTENT = Content(role="user", parts=[Part(text="look"), Part(inline_data=Blob(data=b"\xff\xfe\x00", mime_type="image/png"))])
RESPONSE = FunctionResponse(
    id="fc-1",
    name="f",
    response={"unit_price": 1, "X-y": {"a_b": 2}},
    scheduling=types.FunctionResponseScheduling.SILENT,
)


def set_up(setup: LiveSetup, profile: GeminiProfile = PLAIN, **options: Any) -> dict[str, Any]:
    sent: dict[str, Any] = json.loads(setup_message("models/m", setup, profile, **options))["setup"]
    return sent


async def test_everything_equals_what_the_sdk_sends() -> None:
    """The SDK itself, over a real socket, against the same script; then our bytes for the same configuration."""
    script: list[Step] = [
        expect_setup(),
        ready(),
        send({"toolCall": {"functionCalls": [{"id": "fc-1", "name": "f", "args": {}}]}}),
        expect_content(),
        expect_audio(),
        expect_video(),
        expect_activity("start"),
        expect_activity("end"),
        expect_audio_end(),
        expect_tool_response("fc-1"),
    ]
    async with FakeGemini(script, tls=True) as gemini:
        client = genai.Client(
            api_key="k", http_options=types.HttpOptions(base_url=gemini.base_url, async_client_args={"ssl": gemini.client_tls})
        )
        async with client.aio.live.connect(model="m", config=SDK_CONFIG) as session:
            await session.send_client_content(turns=[CONTENT], turn_complete=True)
            await session.send_realtime_input(audio=types.Blob(data=b"\xff\xfe\xfb\x00", mime_type="audio/pcm;rate=16000"))
            await session.send_realtime_input(video=types.Blob(data=b"\xff", mime_type="image/jpeg"))
            await session.send_realtime_input(activity_start=types.ActivityStart())
            await session.send_realtime_input(activity_end=types.ActivityEnd())
            await session.send_realtime_input(audio_stream_end=True)
            await session.send_tool_response(function_responses=[RESPONSE])
            await gemini.played()
        sdk = gemini.connections[0]

    ours = [
        setup_message("models/m", FULL, PLAIN, handle="h"),
        *content_messages(CONTENT, PLAIN),
        audio_message(b"\xff\xfe\xfb\x00"),
        image_message(b"\xff", "image/jpeg"),
        activity_message(Activity.START),
        activity_message(Activity.END),
        AUDIO_END,
        tool_response_message([RESPONSE], PLAIN),
    ]
    for mine, theirs in zip(map(parse, ours), sdk.sent, strict=True):
        assert mine.kind == theirs.kind
        assert comparable(mine.value) == comparable(theirs.value)


def comparable(value: Any) -> Any:
    """Base64 of either alphabet as bytes, numbers as numbers, tools in the order of their names."""
    if isinstance(value, dict):
        made = {key: decode(entry) if key == "data" else comparable(entry) for key, entry in value.items()}
        if "tools" in made:
            made["tools"] = sorted(made["tools"], key=lambda tool: sorted(tool))
        return made
    return [comparable(entry) for entry in value] if isinstance(value, list) else value


# report: A15
def test_transparent_is_a_vertex_matter_and_the_callers_choice() -> None:
    def resumption(choice: bool | None, *, vertex: bool, resumed: bool) -> dict[str, Any]:
        setup = LiveSetup(session_resumption=SessionResumption(transparent=choice))
        wire: dict[str, Any] = set_up(setup, vertex=vertex, resumed=resumed, handle="h" if resumed else None)["sessionResumption"]
        return wire

    assert resumption(None, vertex=False, resumed=True) == {"handle": "h"}
    assert resumption(True, vertex=False, resumed=True) == {"handle": "h"}
    assert resumption(None, vertex=True, resumed=True) == {"handle": "h", "transparent": True}
    assert resumption(False, vertex=True, resumed=True) == {"handle": "h", "transparent": False}
    assert resumption(None, vertex=True, resumed=False) == {}


# contract: LIVE-04
def test_the_providers_own_compression_is_on_unless_it_is_turned_off() -> None:
    assert set_up(LiveSetup())["contextWindowCompression"] == {"slidingWindow": {}}
    assert "contextWindowCompression" not in set_up(LiveSetup(context_window_compression=None))


def test_what_is_off_is_not_on_the_wire() -> None:
    setup = LiveSetup(
        modality="TEXT",
        input_transcription=False,
        output_transcription=False,
        session_resumption=SessionResumption(enabled=False),
        voice_activity=VoiceActivityConfig(automatic=False),
    )
    sent = set_up(setup)
    assert sent["generationConfig"] == {"responseModalities": ["TEXT"]}
    assert sent["realtimeInputConfig"]["automaticActivityDetection"] == {"disabled": True}
    assert not sent.keys() & {"inputAudioTranscription", "outputAudioTranscription", "sessionResumption", "tools", "proactivity"}


# contract: LIVE-19, NEW-08
def test_the_callers_config_is_not_changed() -> None:
    before = copy.deepcopy(FULL)
    setup_message("models/m", FULL, THREE, vertex=True, handle="x", resumed=True, seeded=True)
    assert before == FULL


def test_the_agents_own_settings_give_way_to_the_sessions() -> None:
    config = GenerateContentConfig(temperature=0.1, seed=1, system_instruction="From the config.")
    sent = set_up(LiveSetup(config=config, generation=Generation(temperature=0.9)))
    assert sent["generationConfig"] == {"responseModalities": ["AUDIO"], "temperature": 0.9, "seed": 1}
    assert sent["systemInstruction"]["parts"] == [{"text": "From the config."}]


def test_a_function_among_the_configs_tools_is_refused() -> None:
    with pytest.raises(ModelError, match=r"no google\.genai Tool"):
        set_up(LiveSetup(config=GenerateContentConfig(tools=[len])))


def test_profiles_are_found_by_name() -> None:
    assert profile_of("models/gemini-2.5-flash-native-audio-preview") == PLAIN
    assert profile_of("projects/p/locations/l/publishers/google/models/gemini-3.1-flash-live").typed_text_is_realtime
    assert not profile_of("gemini-3.8-live").thinking_level
    assert not profile_of("gemini-3.8-live-extended-thinking").scheduling
    assert profile_of("somebody-elses-model") == PLAIN


def test_what_a_model_rejects_is_left_out() -> None:
    thinker = profile_of("gemini-3.8-live-extended-thinking")
    setup = LiveSetup(tools=FULL.tools, thinking=Thinking(level="LOW"))
    assert "thinkingConfig" in set_up(setup, thinker)["generationConfig"]
    assert "thinkingConfig" not in set_up(setup, profile_of("gemini-3.8-live"))["generationConfig"]
    assert "behavior" not in set_up(setup, thinker)["tools"][0]["functionDeclarations"][0]
    answer = json.loads(tool_response_message([RESPONSE], thinker))["toolResponse"]["functionResponses"][0]
    assert answer == {"id": "fc-1", "name": "f", "response": RESPONSE.response}


# report: A39
# report: A40
def test_a_tools_answer_keeps_its_keys_and_has_id_and_name() -> None:
    answer = json.loads(tool_response_message([RESPONSE], PLAIN))["toolResponse"]["functionResponses"][0]
    assert answer == {"id": "fc-1", "name": "f", "response": {"unit_price": 1, "X-y": {"a_b": 2}}, "scheduling": "SILENT"}


def test_typed_text_and_images_are_realtime_input_where_the_model_wants_them_so() -> None:
    (plain,) = map(json.loads, content_messages(CONTENT, PLAIN))
    assert plain["clientContent"]["turnComplete"] is True
    first, second = map(json.loads, content_messages(CONTENT, THREE))
    assert first == {"realtimeInput": {"text": "look"}}
    assert second["realtimeInput"]["video"] == {"data": base64.b64encode(b"\xff\xfe\x00").decode(), "mimeType": "image/png"}


# case: K-LCON-21
def test_what_cannot_be_realtime_input_is_refused() -> None:
    with pytest.raises(ModelError, match="unsupported real-time input type"):
        image_message(b"x", "application/zip")
    with pytest.raises(ModelError, match="unsupported real-time input type"):
        content_messages(Content(role="user", parts=[Part(executable_code=types.ExecutableCode(code="1"))]), THREE)


HISTORY = [user_content("q"), Content(role="model", parts=[Part(text="a")])]
UNANSWERED = [*HISTORY, user_content("and?")]


# contract: LIVE-18
# report: A57
def test_a_history_is_answered_only_if_the_user_was_not() -> None:
    (told,) = map(json.loads, history_messages(HISTORY, PLAIN, answer=False, max_tokens=100))
    assert told["clientContent"]["turnComplete"] is False
    assert [turn["role"] for turn in told["clientContent"]["turns"]] == ["user", "model"]
    (told,) = map(json.loads, history_messages(UNANSWERED, PLAIN, answer=True, max_tokens=100))
    assert told["clientContent"]["turnComplete"] is True
    (told,) = map(json.loads, history_messages(HISTORY, PLAIN, answer=True, max_tokens=100))
    assert told["clientContent"]["turnComplete"] is False, "the model's own words are not to be answered"
    assert history_messages([], PLAIN, answer=True, max_tokens=100) == []


# contract: LIVE-18
def test_a_model_that_wants_its_history_announced_gets_it_so() -> None:
    assert set_up(LiveSetup(), THREE, seeded=True)["historyConfig"] == {"initialHistoryInClientContent": True}
    assert "historyConfig" not in set_up(LiveSetup(), THREE)
    assert "historyConfig" not in set_up(LiveSetup(), PLAIN, seeded=True)
    told, asked = map(json.loads, history_messages([*HISTORY, CONTENT, *UNANSWERED], THREE, answer=True, max_tokens=100))
    assert told["clientContent"]["turnComplete"] is True
    assert {"text": "[an image]"} in told["clientContent"]["turns"][2]["parts"]
    assert asked == {"realtimeInput": {"text": "and?"}}


def test_a_long_history_loses_its_oldest() -> None:
    contents = [user_content(f"{index:04d}") for index in range(100)]
    (told,) = map(json.loads, history_messages(contents, PLAIN, answer=False, max_tokens=10))
    assert [turn["parts"][0]["text"] for turn in told["clientContent"]["turns"]] == [f"{index:04d}" for index in range(90, 100)]


# case: K-LCON-06
def test_what_is_no_json_says_what_it_was() -> None:
    bad = Content(role="user", parts=[Part(text="\ud800")])
    with pytest.raises(ModelError, match="the history cannot be sent"):
        history_messages([bad], PLAIN, answer=False, max_tokens=10)
    with pytest.raises(ModelError, match="the message cannot be sent"):
        content_messages(bad, PLAIN)
    with pytest.raises(ModelError, match="answer cannot be sent"):
        tool_response_message([FunctionResponse(id="1", name="f", response={"x": object()})], PLAIN)


def test_answers_in_words() -> None:
    (part,) = told_answers([RESPONSE]).parts or []
    assert part.text == '`f` answered: {"unit_price":1,"X-y":{"a_b":2}}'


@given(st.binary(max_size=200))
def test_audio_comes_through_the_template(pcm: bytes) -> None:
    blob = json.loads(audio_message(pcm))["realtimeInput"]["audio"]
    assert base64.b64decode(blob["data"]) == pcm
    assert blob["mimeType"] == "audio/pcm;rate=16000"
