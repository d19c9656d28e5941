"""What a gateway says to Gemini Live, as bytes. Pure: no socket, no clock, no task; what comes back is in `gemini_inbound`.

Audio is the hot path: bytes to base64 to a template, no object in between. Everything else is rare, and made of `google.genai.types`.
Keys of our own are camelCase, as the service documents them; what a tool answered and what a schema names is passed on as it is.
"""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from live_gateway.content import (
    Content,
    FunctionDeclaration,
    FunctionResponse,
    GenerateContentConfig,
    Part,
    text_of,
)
from live_gateway.errors import ModelError
from live_gateway.models.gemini_profile import GeminiProfile
from live_gateway.models.live import INPUT_HZ, Activity, LiveSetup, SessionResumption, VoiceActivityConfig

_AUDIO_HEAD: Final = b'{"realtimeInput":{"audio":{"data":"'
_AUDIO_TAIL: Final = f'","mimeType":"audio/pcm;rate={INPUT_HZ}"}}}}}}'.encode()
_CHARS_PER_TOKEN: Final = 4
_IMAGE_IN_WORDS: Final = "[an image]"

ACTIVITY_START: Final = b'{"realtimeInput":{"activityStart":{}}}'
ACTIVITY_END: Final = b'{"realtimeInput":{"activityEnd":{}}}'
AUDIO_END: Final = b'{"realtimeInput":{"audioStreamEnd":true}}'


def audio_message(pcm: bytes) -> bytes:
    """Microphone audio: int16 little endian mono at 16 kHz."""
    return _AUDIO_HEAD + binascii.b2a_base64(pcm, newline=False) + _AUDIO_TAIL


def activity_message(activity: Activity) -> bytes:
    """Push to talk."""
    return ACTIVITY_START if activity is Activity.START else ACTIVITY_END


def image_message(data: bytes, mime_type: str) -> bytes:
    """One image of what the user shows. Raises `ModelError` for anything but an image."""
    if not mime_type.startswith("image/"):
        raise ModelError(f"unsupported real-time input type: {mime_type}")
    return _encode({"realtimeInput": {"video": {"data": data, "mimeType": mime_type}}}, "the image")


def content_messages(content: Content, profile: GeminiProfile) -> list[bytes]:
    """A message of the user, to be answered: one message, or one for each part where the model takes it as realtime input.

    Raises `ModelError` for a part that the model cannot be sent, or that is no JSON.
    """
    if not profile.typed_text_is_realtime:
        turn = _content(content, role="user")
        return [_encode({"clientContent": {"turns": [turn], "turnComplete": True}}, "the message")]
    messages = []
    for part in content.parts or ():
        if part.text:
            messages.append(_encode({"realtimeInput": {"text": part.text}}, "the message"))
        elif part.inline_data is not None:
            messages.append(image_message(part.inline_data.data or b"", part.inline_data.mime_type or ""))
        else:
            raise ModelError("unsupported real-time input type: the model takes text and images")
    return messages


def tool_response_message(responses: Sequence[FunctionResponse], profile: GeminiProfile) -> bytes:
    """Answers to calls, with id and name. Their payload's keys are kept to the letter. Raises `ModelError` if one is no JSON."""
    answers = []
    for response in responses:
        answer = response.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"response"})
        if not profile.scheduling:
            answer.pop("scheduling", None)
        if not profile.updates:
            answer.pop("willContinue", None)
        answer["response"] = response.response if response.response is not None else {}
        answers.append(answer)
    return _encode({"toolResponse": {"functionResponses": answers}}, "the tool's answer")


def told_answers(responses: Sequence[FunctionResponse]) -> Content:
    """Answers in words, for a connection that does not know the calls."""
    payloads = [_encode(response.response or {}, "the tool's answer").decode() for response in responses]
    lines = [f"`{response.name}` answered: {payload}" for response, payload in zip(responses, payloads, strict=True)]
    return Content(role="user", parts=[Part(text=line) for line in lines])


def history_messages(contents: Sequence[Content], profile: GeminiProfile, *, answer: bool, max_tokens: int) -> list[bytes]:
    """What was said before. Nothing of it is answered, but for the last entry with `answer`, where that is the user's.

    Of more than about `max_tokens` the newest are sent. Raises `ModelError`, which says that it is about the history, if it is no JSON.
    """
    kept = _newest([_content(content) for content in contents if content.parts], max_tokens)
    answer = answer and bool(kept) and kept[-1].get("role") == "user"
    if not kept:
        return []
    if not profile.seeds_by_flag:
        return [_encode({"clientContent": {"turns": kept, "turnComplete": answer}}, "the history")]
    asked = kept.pop() if answer else None
    for turn in kept:
        turn["parts"] = [part if "inlineData" not in part else {"text": _IMAGE_IN_WORDS} for part in turn["parts"]]
    messages = [_encode({"clientContent": {"turns": kept, "turnComplete": True}}, "the history")]
    if asked is not None:
        messages += [
            _encode({"realtimeInput": _realtime(part)}, "the history") for part in asked["parts"] if "text" in part or "inlineData" in part
        ]
    return messages


def setup_message(
    model: str,
    setup: LiveSetup,
    profile: GeminiProfile,
    *,
    vertex: bool = False,
    handle: str | None = None,
    resumed: bool = False,
    seeded: bool = False,
) -> bytes:
    """The first message of a connection.

    model: with its path. handle: of the connection to take up again. resumed: this is not the session's first connection. seeded: a
    history will follow.
    """
    message: dict[str, Any] = {"model": model, "generationConfig": _generation(setup, profile)}
    instruction = _instruction(setup)
    if instruction:
        message["systemInstruction"] = {"parts": [{"text": instruction}], "role": "user"}
    if tools := _tools(setup, profile):
        message["tools"] = tools
    message["realtimeInputConfig"] = _voice_activity(setup.voice_activity)
    if setup.input_transcription:
        message["inputAudioTranscription"] = {}
    if setup.output_transcription:
        message["outputAudioTranscription"] = {}
    if setup.session_resumption.enabled:
        message["sessionResumption"] = _resumption(setup.session_resumption, handle, vertex=vertex, resumed=resumed)
    compression = setup.context_window_compression
    if compression is not None:
        window = _without_none({"targetTokens": compression.target_tokens})
        message["contextWindowCompression"] = {**_without_none({"triggerTokens": compression.trigger_tokens}), "slidingWindow": window}
    if setup.proactivity:
        message["proactivity"] = {"proactiveAudio": True}
    if seeded and profile.seeds_by_flag:
        message["historyConfig"] = {"initialHistoryInClientContent": True}
    if setup.config is not None and setup.config.safety_settings:
        message["safetySettings"] = [_dump(setting) for setting in setup.config.safety_settings]
    return _encode({"setup": message}, "the set-up")


def _generation(setup: LiveSetup, profile: GeminiProfile) -> dict[str, Any]:
    agent, own = setup.config or GenerateContentConfig(), setup.generation
    settings = {
        "temperature": agent.temperature,
        "topP": agent.top_p,
        "topK": agent.top_k,
        "maxOutputTokens": agent.max_output_tokens,
        "seed": agent.seed,
        "presencePenalty": agent.presence_penalty,
        "frequencyPenalty": agent.frequency_penalty,
        "mediaResolution": None if agent.media_resolution is None else agent.media_resolution.value,
    }
    if own is not None:
        settings |= _without_none(
            {
                "temperature": own.temperature,
                "topP": own.top_p,
                "topK": own.top_k,
                "maxOutputTokens": own.max_output_tokens,
                "seed": own.seed,
                "presencePenalty": own.presence_penalty,
                "frequencyPenalty": own.frequency_penalty,
            }
        )
    if setup.media_resolution is not None:
        settings["mediaResolution"] = f"MEDIA_RESOLUTION_{setup.media_resolution}"
    return {
        "responseModalities": [setup.modality],
        **_without_none(settings),
        **_present("speechConfig", _speech(setup)),
        **_present("thinkingConfig", _thinking(setup, profile)),
        **({"enableAffectiveDialog": True} if setup.affective_dialog else {}),
    }


def _speech(setup: LiveSetup) -> dict[str, Any]:
    speech: dict[str, Any] = {}
    if setup.voice:
        speech["voiceConfig"] = {"prebuiltVoiceConfig": {"voiceName": setup.voice}}
    if setup.language:
        speech["languageCode"] = setup.language
    return speech


def _thinking(setup: LiveSetup, profile: GeminiProfile) -> dict[str, Any]:
    agent = setup.config.thinking_config if setup.config is not None else None
    thinking = _dump(agent) if agent is not None else {}
    if setup.thinking is not None:
        own = setup.thinking
        thinking |= _without_none({"thinkingBudget": own.budget, "thinkingLevel": own.level, "includeThoughts": own.include_thoughts})
    if not profile.thinking_level:
        thinking.pop("thinkingLevel", None)
    return thinking


def _instruction(setup: LiveSetup) -> str:
    if setup.instruction or setup.config is None or setup.config.system_instruction is None:
        return setup.instruction
    given = setup.config.system_instruction
    if isinstance(given, Content):
        return text_of(given)
    return given if isinstance(given, str) else ""


def _tools(setup: LiveSetup, profile: GeminiProfile) -> list[dict[str, Any]]:
    declarations = [_declaration(declaration, profile) for declaration in setup.tools]
    tools: list[dict[str, Any]] = [{"functionDeclarations": declarations}] if declarations else []
    for tool in (setup.config.tools or ()) if setup.config is not None else ():
        dump = getattr(tool, "model_dump", None)
        if dump is None:
            raise ModelError("the agent's config lists a tool that is no google.genai Tool; functions belong among the agent's tools")
        tools.append(dump(mode="json", by_alias=True, exclude_none=True))
    return tools


def _declaration(declaration: FunctionDeclaration, profile: GeminiProfile) -> dict[str, Any]:
    dumped = _dump(declaration)
    if profile.behavior == "unsaid":
        dumped.pop("behavior", None)
    return dumped


def _voice_activity(config: VoiceActivityConfig) -> dict[str, Any]:
    detection: dict[str, Any] = {"disabled": not config.automatic}
    if config.automatic:
        detection |= {"prefixPaddingMs": config.prefix_padding_ms, "silenceDurationMs": config.silence_duration_ms}
        if config.start_sensitivity is not None:
            detection["startOfSpeechSensitivity"] = f"START_SENSITIVITY_{config.start_sensitivity}"
        if config.end_sensitivity is not None:
            detection["endOfSpeechSensitivity"] = f"END_SENSITIVITY_{config.end_sensitivity}"
    wire: dict[str, Any] = {
        "automaticActivityDetection": detection,
        "activityHandling": "START_OF_ACTIVITY_INTERRUPTS" if config.interrupts else "NO_INTERRUPTION",
    }
    if config.all_input is not None:
        wire["turnCoverage"] = "TURN_INCLUDES_ALL_INPUT" if config.all_input else "TURN_INCLUDES_ONLY_ACTIVITY"
    return wire


def _resumption(config: SessionResumption, handle: str | None, *, vertex: bool, resumed: bool) -> dict[str, Any]:
    wire: dict[str, Any] = {"handle": handle} if handle else {}
    transparent = config.transparent if config.transparent is not None else (True if resumed and handle else None)
    if vertex and transparent is not None:  # the Developer API refuses the field
        wire["transparent"] = transparent
    return wire


def _content(content: Content, role: str | None = None) -> dict[str, Any]:
    dumped: dict[str, Any] = content.model_dump(mode="python", by_alias=True, exclude_none=True)
    if role is not None or "role" not in dumped:
        dumped["role"] = role or "user"
    return dumped


def _newest(turns: list[dict[str, Any]], max_tokens: int) -> list[dict[str, Any]]:
    left = max_tokens * _CHARS_PER_TOKEN
    kept: list[dict[str, Any]] = []
    for turn in reversed(turns):
        left -= sum(len(part.get("text") or "") for part in turn["parts"])
        if left < 0 and kept:
            break
        kept.append(turn)
    kept.reverse()
    return kept


def _realtime(part: dict[str, Any]) -> dict[str, Any]:
    return {"text": part["text"]} if "text" in part else {"video": part["inlineData"]}


def _dump(model: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _present(name: str, value: dict[str, Any]) -> dict[str, Any]:
    return {name: value} if value else {}


def _encode(message: Any, what: str) -> bytes:
    try:
        return msgspec.json.encode(message)
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelError(f"{what} cannot be sent: it is no JSON ({type(error).__name__})") from error
