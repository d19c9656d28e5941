"""Contents from events: what a model is shown."""

from __future__ import annotations

import copy
import gc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_gateway.content import (
    Blob,
    Content,
    FileData,
    FunctionCall,
    FunctionResponse,
    FunctionResponseScheduling,
    Part,
    Transcription,
    function_calls,
    function_responses,
)
from live_gateway.errors import AgentError
from live_gateway.events import Compaction, Event, EventActions, replace
from live_gateway.flow.contents import CONTINUE, START, View, build_contents
from live_gateway.flow.memo import Memo


def said(author: str, *texts: str, **fields: Any) -> Event:
    role = "user" if author == "user" else "model"
    return Event(author=author, content=Content(role=role, parts=[Part(text=text) for text in texts]), **fields)


def fc(name: str, call_id: str | None, args: dict[str, Any] | None = None) -> Part:
    return Part(function_call=FunctionCall(name=name, id=call_id, args=args or {}))


def fr(name: str, call_id: str | None, response: dict[str, Any] | None = None) -> Part:
    return Part(function_response=FunctionResponse(name=name, id=call_id, response=response or {}))


def calls(*parts: Part, author: str = "bot", **fields: Any) -> Event:
    return Event(author=author, content=Content(role="model", parts=list(parts)), **fields)


def answers(*parts: Part, author: str = "bot", **fields: Any) -> Event:
    return Event(author=author, content=Content(role="user", parts=list(parts)), **fields)


def heard(text: str, author: str = "user", **fields: Any) -> Event:
    return Event(author=author, input_transcription=Transcription(text=text, finished=True), **fields)


def spoke(text: str, author: str = "bot", **fields: Any) -> Event:
    return Event(author=author, output_transcription=Transcription(text=text, finished=True), **fields)


def shown(*events: Event, **view: Any) -> list[str]:
    """The contents in short: role and parts."""
    return [short(content) for content in build_contents(events, View(agent="bot", **view))]


def short(content: Content) -> str:
    words: list[str] = []
    for part in content.parts or ():
        if part.function_call is not None:
            words.append(f"FC({part.function_call.name},{part.function_call.id})")
        elif part.function_response is not None:
            words.append(f"FR({part.function_response.name},{part.function_response.id},{part.function_response.response})")
        else:
            words.append(part.text if part.text is not None else "<data>")
    return f"{content.role}: {' | '.join(words)}"


# contract: FLOW-02
# case: K-CONT-01
def test_both_messages_are_sent_by_default_and_only_the_newest_turn_without_history() -> None:
    events = said("user", "hello"), said("bot", "hi"), said("user", "good bye")
    assert shown(*events) == ["user: hello", "model: hi", "user: good bye"]
    assert shown(*events, current_turn_only=True) == ["user: good bye"]


# contract: FLOW-02
def test_contents_are_handed_on_by_reference_and_nothing_is_changed() -> None:
    events = [
        said("user", "hello"),
        calls(fc("t", "adk-1", {"a": 1})),
        answers(fr("t", "adk-1", {"r": 2})),
        said("other", "mine"),
        spoke("aloud"),
    ]
    before = copy.deepcopy(events)
    contents = build_contents(events, View(agent="bot"))
    assert contents[0] is events[0].content
    assert events == before
    assert contents[1].parts is not None
    assert contents[1].parts[0].function_call is not None
    assert events[1].function_calls[0].args is contents[1].parts[0].function_call.args


# contract: FLOW-02
def test_a_changed_event_shows_in_the_next_request() -> None:
    first = said("user", "hello")
    assert shown(first) == ["user: hello"]
    assert shown(replace(first, content=Content(role="user", parts=[Part(text="changed")]))) == ["user: changed"]


# case: K-CONT-03
def test_a_branch_sees_itself_and_what_it_stems_from() -> None:
    branches = ("", None, "branch1", "branch1.task1", "branch12", "branch2", "branch1.task1.x")
    events = [said("user", f"in {branch}", branch=branch) for branch in branches]
    assert shown(*events, branch="branch1.task1") == ["user: in ", "user: in None", "user: in branch1", "user: in branch1.task1"]
    assert len(shown(*events)) == len(branches)


# case: K-CONT-04
def test_a_scope_sees_exactly_its_own_events() -> None:
    events = [said("user", "open"), said("user", "inside", isolation_scope="fc-1")]
    assert shown(*events) == ["user: open"]
    assert shown(*events, scope="fc-1") == ["user: inside"]


# case: K-CONT-05
def test_a_late_response_replaces_the_pending_one_next_to_its_call() -> None:
    q, call = said("user", "q"), calls(fc("slow", "1"), long_running_tool_ids=["1"])
    pending, still, final = (
        answers(fr("slow", "1", {"s": "pending"})),
        said("bot", "Still processing"),
        answers(fr("slow", "1", {"s": "done"})),
    )
    pair = ["user: q", "model: FC(slow,1)", "user: FR(slow,1,{'s': 'done'})"]
    assert shown(q, call, pending, still, final) == pair
    assert shown(q, call, pending, still, final, said("user", "and?")) == [*pair, "model: Still processing", "user: and?"]


# case: K-CONT-06
def test_other_tools_between_a_call_and_its_late_response_stay_behind_the_pair() -> None:
    events = [
        said("user", "q"),
        calls(fc("slow", "1")),
        answers(fr("slow", "1", {"s": "pending"})),
        calls(fc("quick", "2")),
        answers(fr("quick", "2", {"v": 1})),
        said("bot", "waiting"),
        answers(fr("slow", "1", {"s": "done"}), author="user"),
    ]
    assert shown(*events) == [
        "user: q",
        "model: FC(slow,1)",
        "user: FR(slow,1,{'s': 'done'})",
        "model: FC(quick,2)",
        "user: FR(quick,2,{'v': 1})",
    ]


# case: K-CONT-07
def test_responses_to_one_call_event_are_merged_and_the_newest_wins_per_call() -> None:
    events = [
        said("user", "q"),
        calls(fc("slow", "1"), fc("quick", "2")),
        answers(fr("slow", "1", {"s": "pending"}), fr("quick", "2", {"v": 1})),
        answers(fr("slow", "1", {"s": "done"})),
    ]
    assert shown(*events)[1:] == ["model: FC(slow,1) | FC(quick,2)", "user: FR(slow,1,{'s': 'done'}) | FR(quick,2,{'v': 1})"]


# case: K-CONT-08
def test_text_in_response_events_comes_behind_the_responses_in_order() -> None:
    events = [
        said("user", "q"),
        calls(fc("a", "1"), fc("b", "2")),
        answers(Part(text="one"), fr("a", "1")),
        answers(fr("b", "2"), Part(text="two")),
    ]
    assert shown(*events)[2:] == ["user: FR(a,1,{}) | FR(b,2,{}) | one | two"]


# case: K-CONT-09
def test_a_response_without_a_call_is_an_error_in_a_run_and_dropped_in_live() -> None:
    events = [said("user", "q"), answers(fr("t", "nowhere"))]
    with pytest.raises(AgentError, match=r"no function call event found .*nowhere"):
        shown(*events)
    assert shown(*events, live=True) == ["user: q"]


# contract: HITL-02
# case: K-NODE-08
# case: K-NODE-09
def test_an_answer_of_the_user_to_an_unknown_call_is_told_in_words() -> None:
    answer = answers(Part(text="take this"), fr("t", "unknown", {"x": 1}), author="user")
    assert shown(said("user", "q"), answer) == ["user: q", 'user: take this | [user] got from `t`: {"x": 1}']


# case: K-CONT-10
@pytest.mark.parametrize("name", ["adk_request_confirmation", "adk_request_credential"])
def test_confirmation_and_credential_events_never_reach_the_prompt(name: str) -> None:
    asked = calls(Part(text="please"), fc(name, "9"))
    answered = answers(fr(name, "9", {"confirmed": True}), author="user")
    assert shown(said("user", "q"), asked, answered) == ["user: q"]
    assert shown(said("user", "q"), calls(fc(name, "9"), author="other")) == ["user: q"]


# case: K-CONT-11
def test_a_run_that_has_nothing_to_answer_gets_a_turn_of_the_user_and_live_never_does() -> None:
    events = [said("user", "q"), said("bot", "a")]
    assert shown(*events) == ["user: q", "model: a", f"user: {CONTINUE}"]
    assert shown(*events, live=True) == ["user: q", "model: a"]
    assert shown() == [f"user: {START}"]
    assert shown(live=True) == []


# case: K-CONT-13
def test_the_current_turn_begins_at_a_message_that_this_view_sees() -> None:
    events = [
        said("user", "mine"),
        said("bot", "working"),
        said("user", "sibling", branch="b2"),
        said("user", "scoped", isolation_scope="s"),
    ]
    assert shown(*events, current_turn_only=True, branch="b1") == ["user: mine", "model: working", f"user: {CONTINUE}"]


def test_the_current_turn_keeps_the_call_that_the_user_answers() -> None:
    events = [said("user", "old"), said("user", "q"), calls(fc("t", "1")), answers(fr("t", "1"), author="user")]
    assert shown(*events, current_turn_only=True) == ["user: q", "model: FC(t,1)", "user: FR(t,1,{})"]


# case: K-LHIST-01
# report: A54
# contract: LIVE-18
def test_transcripts_become_text_and_consecutive_ones_of_a_speaker_are_joined() -> None:
    events = heard("hello "), heard("world"), spoke("hi "), spoke("there"), heard("ok")
    assert shown(*events) == ["user: hello world", "model: hi there", "user: ok"]
    assert shown(*events) == ["user: hello world", "model: hi there", "user: ok"]


# case: K-LHIST-03
def test_what_another_agent_said_aloud_is_context_and_no_turn_of_the_model() -> None:
    (content,) = build_contents([spoke("I am A", author="a")], View(agent="b", live=True))
    assert content.role == "user"
    assert "[a] said: I am A" in [part.text for part in content.parts or ()]


def test_what_another_agent_did_is_context_without_its_thoughts() -> None:
    event = calls(Part(text="hm", thought=True), Part(text="I look"), fc("t", "adk-1", {"q": "é"}), author="other")
    response = answers(fr("t", "adk-1", {"r": 1}), author="other")
    contents = build_contents([event, response], View(agent="bot"))
    assert [[part.text for part in content.parts or ()][1:] for content in contents] == [
        ["[other] said: I look", '[other] called `t` with {"q": "é"}'],
        ['[other] got from `t`: {"r": 1}'],
    ]


def test_an_answer_to_another_agents_call_is_told_and_not_paired() -> None:
    events = [said("user", "q"), calls(fc("t", "1"), author="other"), answers(fr("t", "1", {"r": 1}), author="user")]
    assert shown(*events)[2] == 'user: [user] got from `t`: {"r": 1}'


# contract: EVT-05
def test_generated_call_ids_are_removed_and_the_models_own_stay() -> None:
    events = [said("user", "q"), calls(fc("a", "adk-1"), fc("b", "own")), answers(fr("a", "adk-1"), fr("b", "own"))]
    assert shown(*events)[1:] == ["model: FC(a,None) | FC(b,own)", "user: FR(a,None,{}) | FR(b,own,{})"]


@pytest.mark.parametrize("call_id", ["own", "adk-1"])
def test_what_only_a_live_connection_takes_is_left_out(call_id: str) -> None:
    """Google Cloud refuses a history that says of an answer that more of it will come."""
    live = FunctionResponse(id=call_id, name="t", response={"n": 1}, will_continue=True, scheduling=FunctionResponseScheduling.WHEN_IDLE)
    view = build_contents([said("user", "q"), calls(fc("t", call_id)), answers(Part(function_response=live))], View(agent="bot"))
    (response,) = function_responses(view[-1])
    assert response == FunctionResponse(id="own" if call_id == "own" else None, name="t", response={"n": 1})


def test_an_id_that_a_model_uses_again_pairs_with_the_call_before_it() -> None:
    events = [
        said("user", "q"),
        calls(fc("t", "call_0", {"n": 1})),
        answers(fr("t", "call_0", {"r": 1})),
        said("user", "again"),
        calls(fc("t", "call_0", {"n": 2})),
        answers(fr("t", "call_0", {"r": 2})),
    ]
    assert [line for line in shown(*events) if "FR" in line] == ["user: FR(t,call_0,{'r': 1})", "user: FR(t,call_0,{'r': 2})"]


def test_a_call_without_a_response_gets_one_that_says_so() -> None:
    events = [said("user", "q"), calls(fc("slow", "1"), fc("lost", "2"), long_running_tool_ids=["1"]), said("user", "and now?")]
    (line,) = [line for line in shown(*events) if "FR" in line]
    assert "FR(slow,1,{'status': 'pending'})" in line
    assert "FR(lost,2,{'error':" in line


# contract: LIVE-18
def test_audio_is_left_out_and_other_data_stays() -> None:
    def data(mime: str, author: str = "user") -> Event:
        parts = [Part(inline_data=Blob(data=b"\0\0", mime_type=mime))]
        return Event(author=author, content=Content(role="user" if author == "user" else "model", parts=parts))

    reference = Part(file_data=FileData(file_uri="artifact://a/b", mime_type="audio/wav"))
    events = [
        data("image/png"),
        data("audio/pcm;rate=16000"),
        data("audio/wav"),
        data("audio/pcm", "bot"),
        Event(author="user", content=Content(role="user", parts=[reference])),
    ]
    assert shown(*events) == ["user: <data>", "user: <data>"]
    assert shown(*events, live=True) == ["user: <data>"]


def test_empty_parts_and_turns_of_thoughts_alone_are_left_out() -> None:
    signed = Part(text="", thought_signature=b"s")
    events = [
        said("user", "", "q"),
        said("user", ""),
        Event(author="bot", content=Content(role="model", parts=[Part(text="hm", thought=True)])),
        Event(author="bot", content=Content(role="model", parts=[Part(text="hm", thought=True), Part(text="so"), signed, Part()])),
        Event(author="bot", content=Content(role="model")),
        Event(author="bot"),
        Event(author="user", content=Content(parts=[Part(text="no role")])),
    ]
    assert shown(*events) == ["user: q", "model: hm | so | ", "user: no role"]


# contract: LIVE-18
# report: A56
def test_calls_in_words_for_a_wire_that_refuses_them() -> None:
    events = [said("user", "q"), calls(fc("t", "1", {"a": 1})), answers(fr("t", "1", {"r": 2})), said("bot", "done")]
    assert shown(*events, live=True, calls_as_text=True) == [
        "user: q",
        'user: [bot] called `t` with {"a": 1}',
        'user: [bot] got from `t`: {"r": 2}',
        "model: done",
    ]


# contract: COMP-10, LIVE-18
def test_a_summary_stands_where_its_range_began_and_the_wider_one_wins() -> None:
    def record(seq: int, first: int, last: int, text: str, excluded: list[int] | None = None) -> Event:
        summary = Compaction(first_seq=first, last_seq=last, content=Content(role="user", parts=[Part(text=text)]), excluded=excluded or [])
        return Event(author="user", seq=seq, actions=EventActions(compaction=summary))

    events = [said("user" if seq % 2 else "bot", str(seq), seq=seq) for seq in range(1, 7)]
    narrow, wide = record(7, 1, 2, "narrow"), record(8, 1, 4, "wide", excluded=[3])
    expected = ["model: wide", "user: 3", "user: 5", "model: 6"]
    assert shown(*events, narrow, wide, live=True) == expected
    assert shown(*events, narrow, live=True) == ["model: narrow", "user: 3", "model: 4", "user: 5", "model: 6"]
    sibling = said("user", "sibling", seq=2, branch="b")
    assert "user: sibling" in shown(events[0], sibling, *events[2:], wide, live=True)


# contract: COMP-10
def test_a_response_gets_its_covered_call_back() -> None:
    summary = Compaction(first_seq=1, last_seq=3, content=Content(role="model", parts=[Part(text="sum")]))
    events = [
        said("user", "q", seq=1),
        calls(fc("slow", "1"), fc("b", "2"), seq=2, long_running_tool_ids=["1"]),
        answers(fr("b", "2", {"v": 1}), seq=3),
        Event(author="user", seq=4, actions=EventActions(compaction=summary)),
        answers(fr("slow", "1", {"s": "done"}), author="user", seq=5),
    ]
    assert shown(*events) == ["model: sum", "model: FC(slow,1) | FC(b,2)", "user: FR(slow,1,{'s': 'done'}) | FR(b,2,{'v': 1})"]


def test_the_memo_keeps_nothing_alive() -> None:
    made = iter(["x", "made twice"])
    memo = Memo(lambda _source: next(made))
    source = Content(role="user", parts=[Part(text="x")])
    assert [memo.get(source) for _ in range(2)] == ["x", "x"]
    assert len(memo) == 1
    del source
    gc.collect()
    assert len(memo) == 0


_AUTHORS = st.sampled_from(["user", "bot", "other"])
_IDS = st.sampled_from(["1", "2", "adk-3", None])
_SPEECH = st.builds(lambda who, text: spoke(text, who) if who != "user" else heard(text), _AUTHORS, st.text(max_size=3))
_TEXT = st.builds(said, _AUTHORS, st.text(max_size=3))
_CALL = st.builds(
    lambda ids, who: calls(*(fc("t", i) for i in ids), author=who), st.lists(_IDS, min_size=1, max_size=3, unique=True), _AUTHORS
)
_ANSWER = st.builds(lambda ids, who: answers(*(fr("t", i) for i in ids), author=who), st.lists(_IDS, min_size=1, max_size=3), _AUTHORS)


# contract: FLOW-02
@given(events=st.lists(st.one_of(_TEXT, _SPEECH, _CALL, _ANSWER), max_size=12), live=st.booleans())
def test_every_call_is_followed_at_once_by_its_responses_and_history_is_never_changed(events: list[Event], live: bool) -> None:
    before = copy.deepcopy(events)
    try:
        contents = build_contents(events, View(agent="bot", live=live))
    except AgentError:
        assert any(event.function_responses for event in events)
        return
    assert events == before
    assert build_contents(events, View(agent="bot", live=live)) == contents
    for index, content in enumerate(contents):
        called = function_calls(content)
        answered = function_responses(contents[index + 1]) if called else function_responses(content)
        if called:
            assert [response.id for response in answered] == [call.id for call in called]
        elif answered:
            assert function_calls(contents[index - 1])
        ids = [call.id for call in called] + [response.id for response in answered]
        assert not any((call_id or "").startswith("adk-") for call_id in ids)
    if not live:
        assert contents[-1].role == "user"
