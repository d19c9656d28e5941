from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from live_gateway.content import (
    text_of,
    user_content,
)
from live_gateway.models.base import ModelRequest, ModelResponse
from live_gateway.models.cascade import CascadeLimits
from live_gateway.models.live import (
    Activity,
    AudioOut,
    Interrupted,
    LiveModel,
    LiveSetup,
    SpeechEnded,
    SpeechStarted,
    TextOut,
    Transcript,
    TurnComplete,
    VoiceActivityConfig,
)
from live_gateway.testing.scripted_model import ScriptedModel, pieces
from live_gateway.voice.base import OUTPUT_HZ
from tests.support.cascade_talk import play, talk_to
from tests.support.cascades import PAUSE, cascade
from tests.support.fake_voice import FakeRecogniser, FakeSynthesiser, echo_of, silence, speech

LONG = "one two three four five six seven eight nine ten"


"""Audio is fed as fast as it is taken: on a busy machine nothing is to be dropped."""


PUSH_TO_TALK = LiveSetup(voice_activity=VoiceActivityConfig(automatic=False))


def asked(model: ScriptedModel, request: int = -1) -> str:
    return text_of(model.requests[request].contents[-1])


def test_it_is_a_live_model() -> None:
    model: LiveModel = cascade(ScriptedModel([]))
    assert model.name == "local-voice/scripted"


async def test_a_spoken_question_is_answered_in_the_order_of_the_contract() -> None:
    model = ScriptedModel(["It is sunny. Take a hat."])
    async with talk_to(cascade(model)) as talk:
        await play(talk, [PAUSE, speech("what is the weather"), PAUSE])
        await talk.turns(1)
        assert talk.kinds == [
            "SpeechStarted", "user~", "SpeechEnded", "user!",
            "model~", "AudioOut", "model~", "AudioOut", "model!", "GenerationComplete", "TurnComplete",
        ]  # fmt: skip
        assert talk.said_by_user == ["what is the weather"]
        assert talk.said_by_model == "It is sunny. Take a hat."
        assert talk.audio == speech("it is sunny take a hat", OUTPUT_HZ)
        (ended,) = talk.of(SpeechEnded)
        assert isinstance(ended, SpeechEnded)
        assert ended.silence_ms == 512
    assert asked(model) == "what is the weather"
    model.verify()


async def test_transcripts_replace_each_other_and_know_their_time() -> None:
    async with talk_to(cascade(ScriptedModel(["Yes."]))) as talk:
        await play(talk, [PAUSE, speech("one two three four five six"), PAUSE])
        await talk.turns(1)
        heard = [m for m in talk.messages if isinstance(m, Transcript) and m.role == "user"]
        assert all(piece.replaces for piece in heard)
        assert heard[-1].finished
        assert all("one two three four five six".startswith(piece.text) for piece in heard)
        assert len({piece.text for piece in heard[:-1]}) == len(heard) - 1 >= 3
        assert heard[-1].start_ms == 800 - 300  # 800 ms are 25 whole frames
        assert heard[-1].end_ms is not None


async def test_the_first_sentence_is_out_before_the_model_has_written_the_next() -> None:
    gate = asyncio.Event()
    partial = pieces("All is well. And", " more.")
    model = ScriptedModel([(partial[0], gate, *partial[1:])])
    async with talk_to(cascade(model)) as talk:
        await talk.connection.send_content(user_content("how are you"))
        await talk.until(lambda: bool(talk.of(AudioOut)))
        assert talk.said_by_model == "All is well. "
        gate.set()
        await talk.turns(1)
        assert talk.said_by_model == "All is well. And more."
        assert talk.audio == speech("all is well and more", OUTPUT_HZ)


async def test_typed_text_is_answered_aloud_without_a_transcript_of_the_user() -> None:
    async with talk_to(cascade(ScriptedModel(["Hello you."]))) as talk:
        await talk.connection.send_content(user_content("hello"))
        await talk.turns(1)
        assert talk.kinds == ["model~", "AudioOut", "model!", "GenerationComplete", "TurnComplete"]


async def test_text_modality_gives_text_and_makes_no_sound() -> None:
    tts = FakeSynthesiser()
    async with talk_to(cascade(ScriptedModel([pieces("So ", "it is.")]), tts=tts), LiveSetup(modality="TEXT")) as talk:
        await play(talk, [speech("is it so"), PAUSE])
        await talk.turns(1)
        assert talk.of(TextOut) == [TextOut("So "), TextOut("it is.")]
        assert talk.of(AudioOut) == []
        assert tts.sentences == []


async def test_transcripts_can_be_switched_off() -> None:
    setup = LiveSetup(input_transcription=False, output_transcription=False)
    async with talk_to(cascade(ScriptedModel(["Yes."])), setup) as talk:
        await play(talk, [speech("are you there"), PAUSE])
        await talk.turns(1)
        assert talk.of(Transcript) == []
        assert talk.audio == speech("yes", OUTPUT_HZ)


async def test_speech_over_a_playing_answer_interrupts_it() -> None:
    model = ScriptedModel([LONG + ".", "Okay."])
    async with talk_to(cascade(model)) as talk:
        await talk.connection.send_content(user_content("count"))
        await talk.turns(1)
        talk.connection.set_playing(True)
        before = len(talk.messages)
        await play(talk, [silence(320), speech("stop that please"), PAUSE])
        await talk.turns(2)
        after = talk.messages[before:]
        assert isinstance(after[0], SpeechStarted)
        assert not [message for message in after if isinstance(message, Interrupted)]  # nothing was being made any more
        assert talk.said_by_user == ["stop that please"]


async def test_speech_while_the_answer_is_being_made_stops_it() -> None:
    gate = asyncio.Event()
    partial = pieces("First part. Second", " never comes.")
    model = ScriptedModel([(partial[0], gate, *partial[1:]), "Okay."])
    async with talk_to(cascade(model)) as talk:
        await talk.connection.send_content(user_content("go on"))
        await talk.until(lambda: bool(talk.of(AudioOut)))
        talk.connection.set_playing(True)
        await play(talk, [speech("no wait a moment"), PAUSE])
        await talk.turns(1)
        kinds = talk.kinds
        assert kinds[kinds.index("SpeechStarted") + 1] == "Interrupted"
        assert "Second" not in talk.said_by_model
    assert [(c.role, text_of(c)) for c in model.requests[1].contents] == [
        ("user", "go on"),
        ("model", "First part. "),
        ("user", "no wait a moment"),
    ]


async def test_the_answers_own_echo_neither_interrupts_nor_becomes_a_turn() -> None:
    model = ScriptedModel([LONG + ".", "You are welcome."])
    stt = FakeRecogniser()
    async with talk_to(cascade(model, stt=stt)) as talk:
        await talk.connection.send_content(user_content("count"))
        await talk.turns(1)
        talk.connection.set_playing(True)
        await play(talk, [silence(192), echo_of(talk.audio), silence(64)])
        talk.connection.set_playing(False)
        await play(talk, [PAUSE])
        await play(talk, [speech("thanks for counting"), PAUSE])
        await talk.turns(2)
        assert len(talk.of(SpeechStarted)) == len(talk.of(SpeechEnded)) == 1
        assert talk.of(Interrupted) == []
        assert talk.said_by_user == ["thanks for counting"]
    assert len(stt.heard) > 6  # the echo was listened to, and refused


async def test_the_user_is_heard_after_and_over_the_echo() -> None:
    model = ScriptedModel([LONG + ".", "Okay."])
    async with talk_to(cascade(model)) as talk:
        await talk.connection.send_content(user_content("count"))
        await talk.turns(1)
        talk.connection.set_playing(True)
        await play(talk, [echo_of(talk.audio), speech("that is quite enough for me thank you"), PAUSE])
        await talk.turns(2)
        assert len(talk.of(SpeechStarted)) == 1
        assert talk.said_by_user[0].endswith("that is quite enough for me thank you")


async def test_nothing_interrupts_where_that_is_switched_off() -> None:
    gate = asyncio.Event()
    first = pieces("Part one. Then", " part two.")
    model = ScriptedModel([(first[0], gate, *first[1:]), "About that."])
    setup = LiveSetup(voice_activity=VoiceActivityConfig(interrupts=False))
    async with talk_to(cascade(model), setup) as talk:
        await talk.connection.send_content(user_content("tell me"))
        await talk.until(lambda: bool(talk.of(AudioOut)))
        talk.connection.set_playing(True)
        await play(talk, [speech("what about that thing"), PAUSE])
        await talk.until(lambda: bool(talk.said_by_user))
        gate.set()
        await talk.turns(2)
        assert talk.of(Interrupted, SpeechStarted) == []
        assert talk.said_by_model == "Part one. Then part two.About that."
    assert asked(model) == "what about that thing"


# report: A51
async def test_typed_text_stops_the_answer_that_is_being_made() -> None:
    gate = asyncio.Event()
    partial = pieces("First part. Second", " never comes.")
    model = ScriptedModel([(partial[0], gate, *partial[1:]), "Okay."])
    async with talk_to(cascade(model)) as talk:
        await talk.connection.send_content(user_content("go on"))
        await talk.until(lambda: bool(talk.of(AudioOut)))
        await talk.connection.send_content(user_content("no stop"))
        await talk.turns(1)
        assert len(talk.of(Interrupted)) == 1
        assert talk.said_by_model == "First part. Okay."


async def test_interrupting_when_nothing_is_made_does_nothing() -> None:
    async with talk_to(cascade(ScriptedModel(["Yes."]))) as talk:
        await talk.connection.interrupt()
        await talk.connection.send_content(user_content("there"))
        await talk.turns(1)
        await talk.connection.interrupt()
        assert talk.of(Interrupted) == []


async def test_what_waits_of_an_interrupted_answer_is_not_delivered() -> None:
    model = ScriptedModel([" ".join(f"w{n}" for n in range(40)) + ".", "Fine."])
    async with talk_to(cascade(model, limits=CascadeLimits(output_messages=8, room_s=60))) as talk:
        await talk.connection.send_content(user_content("long story"))
        await talk.until(lambda: len(talk.of(AudioOut)) >= 4)
        talk.flow.clear()  # nobody takes anything: the answer waits for room
        await talk.connection.interrupt()
        taken = len(talk.messages)
        talk.flow.set()
        await talk.until(lambda: bool(talk.of(Interrupted)))
        assert all(isinstance(message, Interrupted | AudioOut) for message in talk.messages[taken:])
        assert len(talk.messages) <= taken + 2  # at most one message was on its way
        await talk.connection.send_content(user_content("and now"))
        await talk.turns(1)
        assert talk.said_by_model.endswith("Fine.")


async def test_an_answer_waits_for_room_and_arrives_whole() -> None:
    words = " ".join(f"w{n}" for n in range(60))
    async with talk_to(cascade(ScriptedModel([words + "."]), limits=CascadeLimits(output_messages=4, room_s=60))) as talk:
        await talk.connection.send_content(user_content("long story"))
        await talk.turns(1)
        assert talk.audio == speech(words, OUTPUT_HZ)
        assert all(len(m.pcm) <= 1_920 for m in talk.messages if isinstance(m, AudioOut))


class _Noticing(ScriptedModel):
    """`asked_twice` is set with the second request."""

    def __init__(self, answers: list[str]) -> None:
        super().__init__(answers)
        self.asked_twice = asyncio.Event()

    def generate(self, request: ModelRequest) -> AsyncIterator[ModelResponse]:
        if self.requests:
            self.asked_twice.set()
        return super().generate(request)


async def test_speech_is_not_held_up_by_an_answer_that_waits_for_room() -> None:
    model = _Noticing([" ".join(f"w{n}" for n in range(200)) + ".", "Fine."])
    async with talk_to(cascade(model, limits=CascadeLimits(output_messages=16, room_s=60))) as talk:
        await talk.connection.send_content(user_content("long story"))
        await talk.until(lambda: len(talk.of(AudioOut)) >= 4)
        talk.flow.clear()  # nobody takes anything from here on
        await play(talk, [speech("excuse me for a moment"), PAUSE])
        async with asyncio.timeout(10):
            await model.asked_twice.wait()
        taken = len(talk.messages)
        talk.flow.set()
        await talk.turns(1)
        late = talk.messages[taken:]
        assert sum(isinstance(message, AudioOut) for message in late[: late.index(SpeechStarted())]) <= 1
        assert talk.kinds[talk.kinds.index("SpeechStarted") + 1] == "Interrupted"
        assert talk.said_by_user == ["excuse me for a moment"]


async def test_push_to_talk_takes_what_was_said_between_the_marks_and_a_little_before() -> None:
    model = ScriptedModel(["Yes."])
    async with talk_to(cascade(model), PUSH_TO_TALK) as talk:
        await play(talk, [speech("nobody hears this"), silence(640)])
        await talk.connection.send_activity(Activity.START)
        await play(talk, [speech("one two"), silence(2_000), speech("three")])
        await talk.connection.send_activity(Activity.END)
        await talk.turns(1)
        assert talk.kinds[0] == "SpeechStarted"
        assert talk.said_by_user == ["one two three"]
    assert asked(model) == "one two three"


async def test_push_to_talk_interrupts_at_once() -> None:
    gate = asyncio.Event()
    partial = pieces("First. Second", " third.")
    async with talk_to(cascade(ScriptedModel([(partial[0], gate)])), PUSH_TO_TALK) as talk:
        await talk.connection.send_content(user_content("go"))
        await talk.until(lambda: bool(talk.of(AudioOut)))
        talk.connection.set_playing(True)
        await talk.connection.send_activity(Activity.START)
        await talk.until(lambda: bool(talk.of(Interrupted)))
        assert talk.kinds[-2:] == ["SpeechStarted", "Interrupted"]


async def test_pressing_without_speaking_ends_the_turn_without_asking_anybody() -> None:
    stt = FakeRecogniser()
    async with talk_to(cascade(ScriptedModel([]), stt=stt), PUSH_TO_TALK) as talk:
        await talk.connection.send_activity(Activity.START)
        await play(talk, [silence(1_000)])
        await talk.connection.send_activity(Activity.END)
        await talk.turns(1)
        assert talk.kinds == ["SpeechStarted", "SpeechEnded", "TurnComplete"]
        assert talk.of(TurnComplete) == [TurnComplete("nothing_heard")]
        assert stt.heard == []  # without any speech the recogniser is not asked


async def test_short_noise_and_made_up_words_make_no_turn() -> None:
    stt = FakeRecogniser(misheard={"bang": "You."})
    model = ScriptedModel([])
    async with talk_to(cascade(model, stt=stt)) as talk:
        await play(talk, [silence(320), speech("click")[: 2 * 16 * 128], PAUSE])
        assert talk.messages == []
        await play(talk, [speech("bang"), PAUSE])
        await talk.turns(1)
        assert talk.kinds == ["SpeechStarted", "SpeechEnded", "TurnComplete"]
    model.verify()


async def test_the_end_of_the_audio_completes_what_was_said() -> None:
    async with talk_to(cascade(ScriptedModel(["Yes."]))) as talk:
        await play(talk, [speech("is this the end")])
        await talk.connection.end_audio()
        await talk.turns(1)
        assert talk.said_by_user == ["is this the end"]


async def test_speech_without_a_pause_is_recognised_in_pieces_and_is_one_turn() -> None:
    words = " ".join(f"w{n}" for n in range(80))  # 20 s
    stt = FakeRecogniser()
    async with talk_to(cascade(ScriptedModel(["Oh."]), stt=stt)) as talk:
        await play(talk, [speech(words), PAUSE])
        await talk.turns(1)
        assert max(len(pcm) for pcm in stt.heard) <= 15_100 * 32
        assert talk.said_by_user == [words]
        assert len(talk.of(SpeechStarted)) == 1


async def test_the_last_image_goes_with_the_next_question() -> None:
    model = ScriptedModel(["A cat."])
    async with talk_to(cascade(model)) as talk:
        await talk.connection.send_image(b"first", "image/jpeg")
        await talk.connection.send_image(b"second", "image/jpeg")
        await play(talk, [speech("what is this"), PAUSE])
        await talk.turns(1)
    blobs = [part.inline_data for part in model.requests[0].contents[-1].parts or () if part.inline_data]
    assert [blob.data for blob in blobs] == [b"second"]
