"""The client's side of the protocol, without a socket: frames and time in, frames out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from live_gateway.cli.problems import Exit
from live_gateway.cli.talk_client import CHUNK_S, LONGEST_ANSWER_S, SETTLE_S, WELCOME_WAIT_S, Plan, TalkClient
from live_gateway.server.messages import parse_message
from live_gateway.server.wire import Flag, Kind, pack_audio_down, unpack_frame

CLIP = bytes(range(256)) * 50  # 0.4 s
SECOND_OF_ANSWER = b"\x01\x00" * 24_000


class Conversation:
    """A client, a clock that the test moves, and what the client sent, each message checked against the server's own parser."""

    def __init__(self, plan: Plan) -> None:
        self.client = TalkClient(plan, epoch_s=1000.0)
        self.now = 50.0
        self.frames: list[bytes] = []
        self.sent: list[dict[str, Any]] = []
        self.frame_no = 0
        self.client.open(self.now)
        self._collect()

    def until(self, moment: float) -> None:
        while not self.client.done and (due := self.client.deadline()) <= moment:
            assert due >= self.now - 1e-9
            self.now = max(self.now, due)
            self.client.tick(self.now)
            self._collect()
        if not self.client.done:
            self.now = moment

    def wait(self, seconds: float) -> None:
        self.until(self.now + seconds)

    def server(self, kind: str, **fields: Any) -> dict[str, Any] | None:
        shown = self.client.receive(json.dumps({"type": kind, **fields}), self.now)
        self._collect()
        return shown

    def audio(self, response: int, pcm: bytes, pos: int = 0) -> None:
        self.client.receive(pack_audio_down(response, self.frame_no, pos, 0.0, pcm), self.now)
        self.frame_no += 1
        self._collect()

    def answer(self, response: int = 1, text: str = "Fine.") -> None:
        """A spoken answer of one second, made at once and reported as played when the client says so."""
        self.server("response.start", response=response, turn=1)
        self.server("state", state="speaking")
        self.audio(response, SECOND_OF_ANSWER)
        self.server("response.audio.end", response=response, samples=24_000)
        self.server("transcript", item=f"out{response}", turn=1, role="model", author="agent", text=text, final=True)
        self.wait(1.001)
        assert ("drained", response) in [(m["event"], m["response"]) for m in self.of("playback")]
        self.server("response.end", response=response, status="completed", heard_ms=1000)
        self.server("state", state="listening")

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.sent if message["type"] == kind]

    def _collect(self) -> None:
        for frame in self.client.take():
            if isinstance(frame, bytes):
                self.frames.append(frame)
            else:
                parse_message(frame)
                self.sent.append(json.loads(frame))


def welcomed(plan: Plan) -> Conversation:
    conversation = Conversation(plan)
    conversation.server("welcome", v=1, session="s1", model="local")
    return conversation


def test_hello_comes_first_and_says_what_is_wanted() -> None:
    conversation = Conversation(Plan(pcm=CLIP, session="s7", modality="TEXT"))
    assert len(conversation.sent) == 1
    hello = conversation.sent[0]
    assert (hello["type"], hello["v"], hello["session"], hello["config"]) == ("hello", 1, "s7", {"modalities": ["TEXT"]})
    assert "playback" in hello["caps"]


def test_nothing_is_spoken_before_the_welcome() -> None:
    conversation = Conversation(Plan(pcm=CLIP))
    conversation.wait(5)
    assert conversation.frames == []


def test_the_recording_goes_out_in_real_time_and_silence_follows() -> None:
    conversation = welcomed(Plan(pcm=CLIP))
    for chunks in range(1, 15):
        conversation.until(50.0 + (chunks + 0.1) * CHUNK_S)
        assert len(conversation.frames) == chunks
    frames = [unpack_frame(frame) for frame in conversation.frames]
    assert [frame.frame_no for frame in frames] == list(range(14))
    assert [frame.pos for frame in frames] == [640 * number for number in range(14)]
    assert {frame.kind for frame in frames} == {Kind.AUDIO_UP}
    assert [frame.flags for frame in frames[:2]] == [Flag.START, Flag.NONE]
    assert b"".join(frame.payload for frame in frames)[: len(CLIP)] == CLIP
    assert not any(b"".join(frame.payload for frame in frames)[len(CLIP) :])
    assert frames[0].t == pytest.approx((50.0 + CHUNK_S + 1000.0) * 1000)
    assert conversation.client.sent_s == pytest.approx(0.4)


def test_a_late_tick_sends_everything_that_is_due() -> None:
    conversation = welcomed(Plan(pcm=CLIP))
    conversation.now += 10 * CHUNK_S
    conversation.client.tick(conversation.now)
    assert len(conversation.client.take()) == 10


def test_an_answered_recording() -> None:
    conversation = welcomed(Plan(pcm=CLIP, last_sound_s=0.25))
    conversation.wait(0.4)
    conversation.server("transcript", item="in", turn=1, role="user", author="user", text="go for", final=False)
    conversation.server("transcript", item="in", turn=1, role="user", author="user", text="go forward", final=True)
    conversation.wait(0.6)
    conversation.answer(text="Done.")
    assert not conversation.client.done
    conversation.wait(SETTLE_S + CHUNK_S)
    outcome = conversation.client.outcome
    assert (outcome.code, outcome.problem, outcome.session) == (Exit.OK, None, "s1")
    assert (outcome.question, outcome.answer) == ("go forward", "Done.")
    assert outcome.first_audio_s == pytest.approx(0.75)
    assert conversation.client.listener.heard == SECOND_OF_ANSWER
    assert conversation.sent[-1] == {"type": "bye"}


def test_several_answers_and_tool_rounds_are_waited_for() -> None:
    conversation = welcomed(Plan(pcm=CLIP))
    conversation.wait(0.5)
    conversation.answer(1, "Let me look.")
    conversation.server("tool.call", call="c1", name="look", args={}, pending=True)
    conversation.wait(10)
    assert not conversation.client.done
    conversation.server("tool.update", call="c1", status="done", result={}, ms=10_000)
    conversation.server("tool.call", call="c1", name="look", args={}, seq=4)  # the record's own, after the fact
    conversation.server("state", state="thinking")
    conversation.wait(5)
    assert not conversation.client.done
    conversation.answer(2, "Found it.")
    conversation.wait(SETTLE_S + CHUNK_S)
    assert conversation.client.outcome.code is Exit.OK
    assert conversation.client.outcome.answer == "Let me look. Found it."
    assert conversation.client.listener.heard == SECOND_OF_ANSWER * 2


def test_an_answer_that_is_over_while_the_recording_still_runs_does_not_end_it() -> None:
    conversation = welcomed(Plan(pcm=bytes(2 * 16_000 * 6)))
    conversation.wait(1)
    conversation.answer(1)
    conversation.wait(SETTLE_S + 1)
    assert not conversation.client.done
    conversation.until(50.0 + 6 + SETTLE_S + CHUNK_S)
    assert conversation.client.outcome.code is Exit.OK


def test_an_interrupted_answer_is_cut_where_it_was_and_the_next_one_counts() -> None:
    conversation = welcomed(Plan(pcm=bytes(2 * 16_000)))
    conversation.server("response.start", response=1, turn=1)
    conversation.audio(1, SECOND_OF_ANSWER)
    conversation.wait(0.5)
    conversation.server("interrupted", response=1, reason="speech")
    conversation.audio(1, SECOND_OF_ANSWER, pos=24_000)
    conversation.server("response.end", response=1, status="interrupted", heard_ms=500)
    assert [(m["event"], m["played"], m["heard"]) for m in conversation.of("playback")][-1] == ("flushed", 12_000, 12_000)
    conversation.answer(2)
    conversation.wait(3)
    assert conversation.client.outcome.code is Exit.OK
    assert len(conversation.client.listener.heard) == 24_000 + 48_000


def test_a_typed_text_is_sent_once_and_no_audio_at_all() -> None:
    conversation = welcomed(Plan(text="hello", modality="TEXT"))
    conversation.wait(1)
    assert [message["content"] for message in conversation.of("content")] == [{"role": "user", "parts": [{"text": "hello"}]}]
    conversation.server("transcript", item="a", turn=1, role="model", author="agent", text="Hi.", final=True, source="text")
    conversation.wait(SETTLE_S)
    assert conversation.client.outcome.code is Exit.OK
    assert conversation.frames == []


def test_no_answer_after_the_time_to_wait() -> None:
    conversation = welcomed(Plan(pcm=CLIP, patience_s=5))
    conversation.wait(5.3)
    assert not conversation.client.done
    conversation.wait(0.2)
    assert conversation.client.outcome.code is Exit.NO_ANSWER
    assert conversation.client.outcome.problem == "no answer came, and no words were understood in the recording"


def test_a_sign_of_life_extends_the_wait_but_not_for_ever() -> None:
    conversation = welcomed(Plan(pcm=CLIP, patience_s=5))
    while not conversation.client.done:
        conversation.wait(4)
        conversation.server("state", state="thinking")
    assert conversation.client.outcome.code is Exit.NO_ANSWER
    assert conversation.now == pytest.approx(50.4 + LONGEST_ANSWER_S, abs=CHUNK_S)


def test_an_answer_that_failed_is_a_server_error() -> None:
    conversation = welcomed(Plan(pcm=CLIP))
    conversation.wait(1)
    conversation.server("response.start", response=1, turn=1)
    conversation.server("response.end", response=1, status="failed", heard_ms=0)
    conversation.wait(SETTLE_S + CHUNK_S)
    assert (conversation.client.outcome.code, conversation.client.outcome.problem) == (Exit.SERVER_ERROR, "the agent failed to answer")


def test_a_fatal_error_is_what_a_closed_connection_is_explained_with() -> None:
    conversation = Conversation(Plan(pcm=CLIP))
    conversation.server("error", code="setup_timeout", message="The model was not ready in time.", fatal=True, retryable=True)
    conversation.client.disconnected(4007, "setup_timeout")
    assert conversation.client.outcome.code is Exit.SERVER_ERROR
    assert conversation.client.outcome.problem == "The model was not ready in time. (setup_timeout)"


def test_an_error_that_is_not_fatal_is_shown_and_the_conversation_goes_on() -> None:
    conversation = welcomed(Plan(pcm=CLIP))
    assert conversation.server("error", code="bad_message", message="No.", fatal=False) is not None
    conversation.wait(1)
    assert not conversation.client.done


@pytest.mark.parametrize("answered", [False, True])
def test_a_connection_that_ends_by_itself(answered: bool) -> None:
    conversation = welcomed(Plan(pcm=CLIP))
    conversation.wait(0.5)
    if answered:
        conversation.answer()
    conversation.client.disconnected(1000, "")
    assert conversation.client.outcome.code is (Exit.OK if answered else Exit.SERVER_ERROR)


@pytest.mark.parametrize(("plan", "over"), [(Plan(pcm=CLIP), True), (Plan(text="hello"), False)])
def test_a_server_that_cannot_hear_ends_a_recording_at_once_and_not_a_typed_text(plan: Plan, over: bool) -> None:
    conversation = welcomed(plan)
    conversation.server("notice", level="info", code="voice_missing", params={"message": "install this"})
    assert conversation.client.done is over
    assert conversation.client.outcome.problem == ("the server cannot hear: install this" if over else None)


def test_no_welcome() -> None:
    conversation = Conversation(Plan(pcm=CLIP))
    conversation.wait(WELCOME_WAIT_S - 0.1)
    assert not conversation.client.done
    conversation.wait(0.2)
    assert conversation.client.outcome.code is Exit.SERVER_ERROR


@pytest.mark.parametrize("frame", ["no json", "[]", '{"no": "type"}', '{"type": "response.end", "response": "x"}', b"short", bytes(30)])
def test_what_is_no_frame_of_the_protocol_ends_it_with_one_sentence(frame: str | bytes) -> None:
    conversation = welcomed(Plan(pcm=CLIP))
    conversation.client.receive(frame, conversation.now)
    assert conversation.client.outcome.code is Exit.SERVER_ERROR
    assert "does not speak the protocol" in str(conversation.client.outcome.problem)


def test_messages_and_fields_of_a_later_server_are_ignored() -> None:
    conversation = welcomed(Plan(pcm=CLIP))
    assert conversation.server("something.new", field=1) == {"type": "something.new", "field": 1}
    assert not conversation.client.done


# contract: HITL-06
def test_a_tool_that_waits_for_an_approval_is_not_waited_for() -> None:
    talk = Conversation(Plan(text="pay"))
    talk.server("welcome", session="s")
    talk.server("state", state="tool")
    asked = {"call": "c1", "name": "pay", "args": {}, "effect": "write", "digest": "d"}
    talk.server("tool.call", **asked, needs_confirm=False, pending=True)
    talk.server("tool.call", **asked, needs_confirm=True, pending=True)
    talk.server("tool.update", call="c1", status="waiting_confirm", ms=0, pending=True)
    talk.server("state", state="listening")
    talk.answer(text="Please approve it.")
    talk.server("response.end", response=1, status="completed", heard_ms=1000)
    talk.wait(SETTLE_S + 0.1)
    assert talk.client.outcome.code == Exit.OK
