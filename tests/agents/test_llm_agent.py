"""An LLM agent refuses what cannot work, when it is built."""

from __future__ import annotations

import pytest

from live_gateway.agents.context import InvocationContext
from live_gateway.agents.llm import LlmAgent
from live_gateway.errors import ConfigurationError
from live_gateway.tools.function import FunctionTool
from tests.support.invocations import make_invocation


def look(place: str) -> str:
    """Look somewhere."""
    return place


# contract: NEW-03
@pytest.mark.parametrize("name", ["", "  ", "user", None, 5])
def test_illegal_names_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError):
        LlmAgent(name=name)


# case: K-TREE-05
# contract: NEW-03
def test_the_same_child_twice_is_refused() -> None:
    child = LlmAgent(name="child")
    with pytest.raises(ConfigurationError, match=r"'root'.*twice"):
        LlmAgent(name="root", sub_agents=[child, LlmAgent(name="other"), child])


# case: K-TOOL-10
def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'look'.*duplicate tool"):
        LlmAgent(name="a", tools=[look, FunctionTool(look)])
    assert list(LlmAgent(name="a", tools=[look, FunctionTool(look, name="see")]).toolbox) == ["look", "see"]


def test_functions_become_tools_and_tools_stay_what_they_are() -> None:
    ready = FunctionTool(look, name="ready", effect="read")
    agent = LlmAgent(name="a", tools=[look, ready])
    assert isinstance(agent.toolbox["look"], FunctionTool)
    assert agent.toolbox["ready"] is ready


@pytest.mark.parametrize("entry", [5, "look", object(), FunctionTool])
def test_what_is_no_tool_is_refused(entry: object) -> None:
    with pytest.raises(ConfigurationError, match="neither a function nor a tool"):
        LlmAgent(name="a", tools=[entry])  # type: ignore[list-item]


async def test_an_instruction_is_a_text_or_made_for_the_run() -> None:
    async def later(invocation: InvocationContext) -> str:
        return f"later {invocation.user_id}"

    for instruction, text in [("plain", "plain"), (lambda invocation: f"now {invocation.user_id}", "now user-1"), (later, "later user-1")]:
        agent = LlmAgent(name="a", instruction=instruction)  # type: ignore[arg-type]
        assert await agent.resolve_instruction(make_invocation(agent)) == text
