"""The reconnect policy, its view of the traffic, and the outbox: pure, on a clock of numbers."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_gateway.content import Content, FunctionCall, FunctionResponse, Part, user_content
from live_gateway.errors import ContextExhausted, ModelError, ModelNotLive, SetupTimeout, UpstreamLost, UpstreamPolicy, UpstreamQuota
from live_gateway.models.gemini_outbox import MAX_AUDIO_BYTES, Mark, Message, Outbox
from live_gateway.models.gemini_reconnect import (
    SEED_TOKENS,
    SMALL_SEED_TOKENS,
    STALLED_AFTER_S,
    TRIES,
    Dial,
    Finish,
    Loss,
    ReconnectPolicy,
)
from live_gateway.models.gemini_traffic import LATE_WORDS_S, Traffic
from live_gateway.models.live import (
    Activity,
    AudioOut,
    GenerationComplete,
    Interrupted,
    LiveMessage,
    SpeechEnded,
    SpeechStarted,
    ToolCalls,
    ToolCallsCancelled,
    Transcript,
    TurnComplete,
)

VOICE = AudioOut(b"\x00\x00")
CALL = ToolCalls((FunctionCall(id="fc-1", name="f", args={}),))


def opened(*, handle: str | None = None, at: float = 0.0, **options: float) -> tuple[ReconnectPolicy, Traffic]:
    traffic = Traffic()
    policy = ReconnectPolicy(traffic, **options)  # type: ignore[arg-type]
    assert policy.begin() == Dial(0.0, None)
    policy.up(at)
    if handle is not None:
        policy.update(handle)
        traffic.handle_given()
    return policy, traffic


def closed(code: int, reason: str = "") -> Loss:
    return Loss("closed", code, reason)


@pytest.mark.parametrize("loss", [*map(closed, (1001, 1006, 1012, 1013, 1014)), Loss("refused"), Loss("refused", 503), Loss("stalled")])
def test_a_plain_drop_is_resumed(loss: Loss) -> None:
    policy, _ = opened(handle="h1")
    assert policy.lost(loss, 1.0) == Dial(0.25, "h1")
    policy, _ = opened()
    assert policy.lost(loss, 1.0) == Dial(0.25, None)


# report: A02
# report: A04
def test_a_normal_close_ends_the_session_unless_it_can_be_resumed() -> None:
    policy, _ = opened()
    assert policy.lost(closed(1000), 1.0) == Finish(None)
    policy, _ = opened(handle="h1")
    assert policy.lost(closed(1000), 1.0) == Dial(0.25, "h1")


# case: K-LCON-10
# contract: LIVE-19
def test_tries_are_bounded_and_wait_longer_each_time() -> None:
    policy, _ = opened(handle="h1")
    policy.up(100.0)
    waits = []
    decision = policy.lost(closed(1006), 200.0)
    while isinstance(decision, Dial):
        waits.append(decision.after_s)
        decision = policy.lost(Loss("refused"), 200.0)
    assert waits == [0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0]
    assert isinstance(decision.error, UpstreamLost)


def test_tries_are_refilled_only_by_a_connection_that_holds() -> None:
    policy, _ = opened(handle="h1", at=0.0)
    now, dials = 100.0, 0
    while isinstance(policy.lost(closed(1006), now), Dial):
        dials += 1
        policy.up(now)
        now += 29.0
    assert dials == TRIES
    policy, _ = opened(handle="h1")
    for _ in range(50):
        now += 31.0
        assert policy.lost(closed(1006), now) == Dial(0.25, "h1")
        policy.up(now)


def test_waits_are_spread() -> None:
    generator = random.Random(1)
    policy = ReconnectPolicy(Traffic(), jitter=lambda: generator.uniform(0.8, 1.2))
    policy.begin()
    policy.up(0.0)
    decision = policy.lost(closed(1006), 60.0)
    assert isinstance(decision, Dial)
    assert 0.2 <= decision.after_s <= 0.3
    assert decision.after_s != 0.25


# case: K-LCON-04
@pytest.mark.parametrize("code", [1002, 1003, 1009, 1010, 3000, 4000])
def test_what_would_happen_again_is_given_up(code: int) -> None:
    policy, _ = opened(handle="h1")
    decision = policy.lost(closed(code), 1.0)
    assert isinstance(decision, Finish)
    assert isinstance(decision.error, UpstreamLost)
    assert str(code) in str(decision.error)


# report: A17
def test_1011_is_resumed_once_and_then_begun_anew() -> None:
    policy, _ = opened(handle="h1")
    assert policy.lost(closed(1011), 40.0) == Dial(0.25, "h1")
    assert policy.lost(closed(1011), 40.0) == Dial(0.5, None)
    policy.up(41.0)
    assert policy.handle is None, "the fresh session has no handle yet"


def test_1007_at_the_first_set_up_is_about_the_set_up_and_not_about_the_history() -> None:
    for handle in (None, "h1"):
        policy = ReconnectPolicy(Traffic(), handle=handle)
        policy.begin()
        decision = policy.lost(closed(1007, "no such voice"), 0.0)
        if handle is not None:
            assert decision == Dial(0.25, None, SMALL_SEED_TOKENS)
            decision = policy.lost(closed(1007, "no such voice"), 0.0)
        assert isinstance(decision, Finish)
        assert type(decision.error) is UpstreamPolicy
        assert "no such voice" in str(decision.error)


# report: A61
@pytest.mark.parametrize("code", [1007, 1008])
def test_a_model_that_is_not_served_live_is_given_up_at_once(code: int) -> None:
    policy = ReconnectPolicy(Traffic(), handle="h1")
    policy.begin()
    decision = policy.lost(Loss("closed", code, not_live=True), 0.0)
    assert isinstance(decision, Finish)
    assert isinstance(decision.error, ModelNotLive)


def test_1007_drops_the_handle_and_tells_the_newest_once() -> None:
    policy, _ = opened(handle="h1")
    assert policy.lost(closed(1006), 40.0) == Dial(0.25, "h1", SEED_TOKENS)
    assert policy.lost(closed(1007), 40.0) == Dial(0.5, None, SMALL_SEED_TOKENS)
    decision = policy.lost(closed(1007), 40.0)
    assert isinstance(decision, Finish)
    assert isinstance(decision.error, ContextExhausted)


def test_1007_in_mid_session_gets_one_fresh_session() -> None:
    policy, _ = opened(handle="h1")
    assert policy.lost(closed(1007), 40.0) == Dial(0.25, None, SMALL_SEED_TOKENS)
    policy.up(41.0)
    assert isinstance(policy.lost(closed(1007), 42.0), Finish)


# case: K-LCON-11
# report: A11
def test_1008_at_the_set_up_is_given_up() -> None:
    policy = ReconnectPolicy(Traffic())
    policy.begin()
    decision = policy.lost(closed(1008, "API key not valid"), 0.0)
    assert isinstance(decision, Finish)
    assert isinstance(decision.error, UpstreamPolicy)
    assert "API key not valid" in str(decision.error)


def test_1008_in_mid_session_gets_one_resume() -> None:
    policy, _ = opened(handle="h1")
    assert policy.lost(closed(1008), 40.0) == Dial(0.25, "h1")
    policy.up(41.0)
    assert isinstance(policy.lost(closed(1008), 42.0), Finish)


# report: A17
def test_a_handle_that_is_refused_gets_one_fresh_try() -> None:
    policy, _ = opened(handle="h1")
    policy.lost(closed(1006), 40.0)
    assert policy.lost(closed(1008), 40.0) == Dial(0.5, None)
    assert isinstance(policy.lost(closed(1008), 40.0), Finish)


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404])
def test_an_http_refusal_is_given_up(status: int) -> None:
    policy = ReconnectPolicy(Traffic())
    policy.begin()
    decision = policy.lost(Loss("refused", status), 0.0)
    assert isinstance(decision, Finish)
    assert isinstance(decision.error, UpstreamPolicy)


# report: A12
@pytest.mark.parametrize("loss", [Loss("refused", 429), Loss("closed", 1011, "quota", quota=True), Loss("closed", 1006, quota=True)])
def test_quota_is_never_tried_again(loss: Loss) -> None:
    policy, _ = opened(handle="h1")
    decision = policy.lost(loss, 1.0)
    assert isinstance(decision, Finish)
    assert isinstance(decision.error, UpstreamQuota)


def test_opening_has_three_tries_and_two_time_outs() -> None:
    policy = ReconnectPolicy(Traffic())
    policy.begin()
    assert policy.lost(Loss("refused"), 0.0) == Dial(0.25, None)
    assert policy.lost(Loss("refused"), 0.0) == Dial(0.5, None)
    assert isinstance(policy.lost(Loss("refused"), 0.0), Finish)
    policy = ReconnectPolicy(Traffic())
    policy.begin()
    assert policy.lost(Loss("timeout"), 0.0) == Dial(0.25, None)
    decision = policy.lost(Loss("timeout"), 0.0)
    assert isinstance(decision, Finish)
    assert isinstance(decision.error, SetupTimeout)


def play(policy: ReconnectPolicy, traffic: Traffic, now: float, *messages: LiveMessage) -> None:
    for message in messages:
        traffic.message(message, now)
        traffic.alive(now)


# contract: LIVE-19
def test_a_rotation_waits_for_a_safe_point() -> None:
    policy, traffic = opened(handle="h1")
    play(policy, traffic, 10.0, VOICE)
    policy.go_away(50.0, 10.0)
    assert policy.due(11.0) is None, "the model speaks"
    play(policy, traffic, 12.0, TurnComplete())
    assert policy.due(12.5) is None, "late words of the user"
    assert policy.deadline(12.0) == 12.0 + LATE_WORDS_S
    assert policy.due(12.0 + LATE_WORDS_S) == "rotate"
    policy.update(None)
    assert policy.due(20.0) is None, "the state cannot be resumed now"
    policy.update("h2")
    assert policy.rotate(20.0) == Dial(0.0, "h2")


def test_the_announced_end_is_not_waited_for() -> None:
    policy, traffic = opened(handle="h1")
    play(policy, traffic, 10.0, VOICE)
    policy.go_away(50.0, 10.0)
    policy.go_away(60.0, 10.0)
    traffic.alive(40.0)
    assert policy.due(54.9) is None
    assert policy.due(55.0) == "rotate"


# contract: LIVE-19
def test_an_announced_end_is_over_with_its_connection() -> None:
    policy, traffic = opened(handle="h1")
    play(policy, traffic, 10.0, TurnComplete())
    policy.go_away(50.0, 10.0)
    assert policy.due(20.0) == "rotate"
    policy.rotate(20.0)
    assert (policy.due(70.0), policy.deadline(20.0)) == (None, None), "it is being dialled"
    policy.up(21.0)
    policy.update("h2")
    assert policy.due(70.0) is None


# contract: LIVE-19
def test_a_handle_from_before_an_open_call_is_not_used() -> None:
    policy, traffic = opened(handle="h1")
    play(policy, traffic, 10.0, CALL)
    policy.go_away(50.0, 10.0)
    assert policy.due(30.0) is None, "never mid-tool"
    assert policy.handle is None
    assert policy.rotate(55.0) == Dial(0.0, None), "by force: anew, told of the call"
    policy, traffic = opened(handle="h1")
    play(policy, traffic, 10.0, CALL)
    policy.update("h2")
    traffic.handle_given()
    assert policy.lost(closed(1006), 11.0) == Dial(0.25, "h2"), "the model gave a handle that knows the call"


def test_an_answer_that_the_handle_does_not_know_is_not_resumed_before() -> None:
    policy, traffic = opened(handle="h1")
    play(policy, traffic, 10.0, CALL)
    traffic.answered(["fc-1"], 11.0, silent=False)
    before = policy.handle
    play(policy, traffic, 12.0, VOICE)
    assert [before, policy.handle] == [None, "h1"]
    policy, traffic = opened(handle="h1")
    play(policy, traffic, 10.0, CALL, ToolCallsCancelled(("fc-1",)))
    assert policy.handle == "h1"


def test_a_connection_is_replaced_after_nine_minutes() -> None:
    policy, traffic = opened(handle="h1", at=100.0)
    assert policy.deadline(101.0) == 640.0
    assert policy.due(639.0) is None
    play(policy, traffic, 639.0, VOICE)
    assert policy.due(641.0) is None
    play(policy, traffic, 642.0, TurnComplete())
    assert policy.due(644.0) == "rotate"
    policy, _ = opened(at=100.0)
    assert policy.due(700.0) is None, "without a handle it would forget more than it gains"
    assert policy.due(100.0 + 55 * 60) == "rotate"


def test_go_away_again_and_again_is_no_hot_loop() -> None:
    policy, _ = opened(handle="h1")
    decision = policy.rotate(1.0)
    dials = 0
    while isinstance(decision, Dial):
        dials += 1
        policy.up(1.0)
        policy.go_away(0.0, 1.0)
        assert policy.due(1.0) == "rotate"
        decision = policy.rotate(1.0)
    assert dials <= TRIES


def test_silence_counts_only_while_an_answer_is_owed() -> None:
    def stalls(*messages: LiveMessage) -> bool:
        policy, traffic = opened(handle="h1")
        play(policy, traffic, 10.0, *messages)
        due = policy.due(10.0 + STALLED_AFTER_S) == "stalled"
        assert policy.due(9.0 + STALLED_AFTER_S) is None
        return due

    assert stalls(VOICE)
    assert stalls(SpeechStarted(), SpeechEnded())
    assert stalls(Transcript("user", "hi"))
    assert not stalls()
    assert not stalls(SpeechStarted())
    assert not stalls(VOICE, TurnComplete())
    assert not stalls(VOICE, GenerationComplete()), "it may wait for its playback"
    assert not stalls(CALL), "it waits for us"
    assert not stalls(VOICE, TurnComplete(), Transcript("user", "late"))
    policy, traffic = opened()
    traffic.asked(10.0)
    assert policy.deadline(11.0) == 40.0
    assert policy.due(40.0) == "stalled"
    traffic.answered(["x"], 50.0, silent=True)
    assert Traffic().owed_since is None


def test_an_empty_turn_is_noticed() -> None:
    traffic = Traffic()
    traffic.asked(0.0)
    assert traffic.message(TurnComplete(), 1.0)
    traffic.asked(2.0)
    assert not traffic.message(Interrupted(), 2.0)
    assert not traffic.message(TurnComplete(), 2.0), "of the old answer"
    assert not traffic.message(VOICE, 3.0)
    assert not traffic.message(TurnComplete(), 3.0)
    assert not traffic.message(TurnComplete(), 4.0), "nothing was asked"


# The outbox.


def text(message: Message | None) -> str | None:
    return None if message is None else "".join(part.text or "" for part in (message.content.parts or ())) if message.content else "answers"


def waiting(outbox: Outbox) -> list[str | None]:
    taken = []
    while (message := outbox.next_message()) is not None:
        taken.append(text(message))
    return taken


def said(words: str) -> Message:
    return Message(content=user_content(words))


# case: K-LCON-28
def test_what_was_sent_without_a_sign_is_sent_again_in_order() -> None:
    outbox = Outbox()
    for words in ("1", "2"):
        outbox.sent(said(words), 1)
    outbox.wait(said("3"))
    outbox.lost(stalled=False)
    assert waiting(outbox) == ["1", "2", "3"]


# report: A57
def test_what_the_model_began_to_answer_is_not_asked_again() -> None:
    outbox = Outbox()
    outbox.sent(said("1"), 1)
    outbox.answer_began()
    outbox.sent(said("2"), 1)
    outbox.handle_given(None)
    outbox.lost(stalled=False)
    assert waiting(outbox) == ["2"]


def test_what_the_model_says_to_have_is_not_sent_again() -> None:
    outbox = Outbox()
    outbox.connected()
    for words in ("1", "2", "3"):
        outbox.sent(said(words), 1)
    outbox.handle_given(2)
    outbox.lost(stalled=False)
    assert waiting(outbox) == ["3"]


def test_a_message_that_is_never_answered_is_not_sent_for_ever() -> None:
    outbox, message = Outbox(), said("1")
    outbox.sent(message, 1)
    outbox.lost(stalled=True)
    outbox.sent(outbox.next_message() or said("x"), 1)
    outbox.lost(stalled=True)
    assert waiting(outbox) == []


def test_the_outbox_is_bounded() -> None:
    outbox = Outbox()
    for _ in range(256):
        outbox.wait(said("x"))
    with pytest.raises(ModelError, match="256 messages"):
        outbox.wait(said("x"))
    for _ in range(64):
        outbox.keep(Mark(Activity.START))
    with pytest.raises(ModelError, match="64 activity marks"):
        outbox.keep(Mark(Activity.START))


# contract: LIVE-19
@given(st.lists(st.integers(1, 3000).map(lambda samples: b"\x01\x00" * samples) | st.just(Mark(Activity.END)), max_size=60))
def test_audio_is_kept_for_two_seconds_and_the_oldest_is_dropped(entries: list[bytes | Mark]) -> None:
    outbox = Outbox()
    for entry in entries[:60]:
        outbox.keep(entry)
    kept = []
    while (taken := outbox.next_streamed()) is not None:
        kept.append(taken)
    audio = [entry for entry in entries if isinstance(entry, bytes)]
    kept_audio = [entry for entry in kept if isinstance(entry, bytes)]
    assert sum(map(len, kept_audio)) <= MAX_AUDIO_BYTES
    assert kept_audio == audio[len(audio) - len(kept_audio) :]
    assert [entry for entry in kept if isinstance(entry, Mark)] == [entry for entry in entries if isinstance(entry, Mark)]
    dropped = sum(map(len, audio)) - sum(map(len, kept_audio))
    assert outbox.take_dropped_ms() == dropped * 1000 // 32_000
    assert outbox.take_dropped_ms() == 0


def test_speech_that_had_begun_is_begun_again() -> None:
    outbox = Outbox(manual=True)
    outbox.activity(Activity.START)
    outbox.keep(b"\x01\x00")
    outbox.lost(stalled=False)
    assert outbox.next_streamed() == Mark(Activity.START)
    assert outbox.next_streamed() == b"\x01\x00"
    outbox.activity(Activity.END)
    outbox.lost(stalled=False)
    assert outbox.next_streamed() is None


# report: A47
def test_the_first_syllable_before_push_to_talk_is_kept() -> None:
    outbox = Outbox(manual=True)
    chunks = [bytes([number, 0]) * 1600 for number in range(6)]
    assert not any(outbox.opened(chunk) for chunk in chunks)
    assert list(outbox.activity(Activity.START)) == chunks[-3:]
    assert outbox.opened(chunks[0])
    assert list(outbox.activity(Activity.END)) == []
    assert Outbox().opened(chunks[0])


def test_a_history_is_told_without_what_will_be_sent_after_it() -> None:
    outbox = Outbox()
    outbox.wait(said("b"))
    outbox.wait(Message(responses=(FunctionResponse(id="1", name="f", response={}),)))
    history = [user_content("b"), user_content("a"), user_content("b"), Content(role="model", parts=[Part(text="c")])]
    assert outbox.without_waiting(history) == [history[0], history[1], history[3]]
