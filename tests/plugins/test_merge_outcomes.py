"""The responses of one message's calls, merged into one event."""

from __future__ import annotations

from live_gateway.events import EventActions
from live_gateway.plugins.tool_call import merge_outcomes
from tests.support.tool_calls import ids, outcome


# case: K-FLOW-05
# contract: EVT-03
def test_responses_are_merged_in_call_order_without_those_that_say_nothing() -> None:
    assert ids([outcome(None), outcome({}, "2"), outcome({}, "3")]) == ["2", "3"]
    assert ids([outcome({}, "1"), outcome(None), outcome({}, "3")]) == ["1", "3"]
    assert ids([outcome(None), outcome(None)]) is None
    assert ids([]) is None


# case: K-FLOW-03
# report: A70
def test_side_effects_are_merged() -> None:
    _, actions = merge_outcomes(
        [
            outcome(
                state_delta={"a": {"x": 1, "deep": {"p": 1}}, "b": 1, "c": {"kept": 1}},
                artifact_delta={"a": 0, "b": 0, "n": -2},
                transfer_to_agent="first",
                skip_summarization=True,
                requested_tool_confirmations={"1": {"hint": "one"}},
            ),
            outcome(
                state_delta={"a": {"y": 2, "deep": {"q": 2}}, "b": 2, "c": None},
                artifact_delta={"b": 1, "n": -3},
                transfer_to_agent="second",
                escalate=True,
                requested_tool_confirmations={"2": {"hint": "two"}},
            ),
            outcome(artifact_delta={"b": 0}),
        ]
    )
    assert actions == EventActions(
        state_delta={"a": {"x": 1, "deep": {"p": 1, "q": 2}, "y": 2}, "b": 2, "c": None},
        artifact_delta={"a": 0, "b": 1, "n": -2},
        transfer_to_agent="second",
        escalate=True,
        skip_summarization=True,
        requested_tool_confirmations={"1": {"hint": "one"}, "2": {"hint": "two"}},
    )


# case: K-FLOW-03
def test_merging_changes_none_of_its_parts_and_nothing_gives_nothing() -> None:
    first, second = outcome(state_delta={"a": {"x": 1}}), outcome(state_delta={"a": {"y": 2}})
    merge_outcomes([first, second])
    assert first.actions.state_delta == {"a": {"x": 1}}
    assert merge_outcomes([]) == (None, EventActions())


# case: K-COMP-20
def test_a_tool_cannot_plant_a_compaction_record() -> None:
    _, actions = merge_outcomes([outcome(compaction=object())])
    assert actions.compaction is None
