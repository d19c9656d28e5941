"""The agent tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from live_gateway.agents.base import Agent
from live_gateway.agents.llm import LlmAgent
from live_gateway.content import model_content, user_content
from live_gateway.errors import ConfigurationError
from live_gateway.events import Compaction, Event, EventActions
from live_gateway.runner.tree import AgentTree


@dataclass(frozen=True)
class CustomAgent:
    name: str
    description: str = ""
    sub_agents: Sequence[Agent] = ()


def said(author: str) -> Event:
    return Event(author=author, content=user_content("x"))


# contract: NEW-03
# case: K-TREE-01
def test_parents_of_a_small_tree() -> None:
    grandchild = LlmAgent(name="child1_1")
    first = LlmAgent(name="child1", sub_agents=[grandchild])
    second = CustomAgent("child2")
    root = LlmAgent(name="root", sub_agents=[first, second])
    assert AgentTree(root).parents == {"child1": root, "child1_1": first, "child2": root}


# contract: NEW-03
# case: K-TREE-03
def test_one_agent_under_two_parents_is_refused_naming_both() -> None:
    shared = LlmAgent(name="shared")
    left = LlmAgent(name="left", sub_agents=[shared])
    right = LlmAgent(name="right", sub_agents=[shared])
    with pytest.raises(ConfigurationError, match=r">1 parents.*left.*right"):
        AgentTree(LlmAgent(name="root", sub_agents=[left, right]))


# contract: NEW-03
# case: K-TREE-04
@pytest.mark.parametrize("name", ["root", "twin"])
def test_two_agents_of_one_name_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="must be unique"):
        AgentTree(LlmAgent(name="root", sub_agents=[LlmAgent(name="twin"), LlmAgent(name=name)]))


# contract: NEW-03
@pytest.mark.parametrize("name", ["", " ", "user"])
def test_illegal_names_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError):
        AgentTree(CustomAgent(name))


# contract: PICK-01, PICK-03
# case: K-SEL-01
def test_the_newest_agent_that_may_transfer_goes_on() -> None:
    helper = LlmAgent(name="helper")
    tree = AgentTree(LlmAgent(name="root", sub_agents=[helper]))
    assert tree.pick([said("root"), said("helper"), said("user")]) is helper
    assert tree.pick([]) is tree.root
    assert tree.pick([said("user")]) is tree.root


# contract: PICK-03
# case: K-SEL-02, K-SEL-06, K-SEL-07, K-SEL-08
def test_who_may_not_transfer_up_to_the_root_is_passed_over() -> None:
    locked = LlmAgent(name="locked", disallow_transfer_to_parent=True)
    under_custom = LlmAgent(name="under_custom")
    custom = CustomAgent("custom", sub_agents=[under_custom])
    helper = LlmAgent(name="helper")
    root = LlmAgent(name="root", sub_agents=[locked, custom, helper])
    tree = AgentTree(root)
    assert tree.pick([said("locked")]) is root
    assert tree.pick([said("custom")]) is root
    assert tree.pick([said("under_custom")]) is root
    assert tree.pick([said("helper"), said("locked"), said("stranger")]) is helper


# contract: PICK-03
def test_a_summary_does_not_count_as_somebody_speaking() -> None:
    helper = LlmAgent(name="helper")
    tree = AgentTree(LlmAgent(name="root", sub_agents=[helper]))
    record = Compaction(first_seq=1, last_seq=2, content=model_content([]))
    summary = Event(author="root", actions=EventActions(compaction=record))
    assert tree.pick([said("helper"), summary]) is helper
