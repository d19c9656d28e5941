"""Several agents in `run`: who may take over from whom, a transfer, and a sequence."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from live_gateway.agents.context import ToolContext
from live_gateway.agents.custom import CustomAgent
from live_gateway.agents.llm import LlmAgent
from live_gateway.agents.sequential import SequentialAgent
from live_gateway.content import TASK_COMPLETED, TRANSFER_TO_AGENT, FunctionCall
from live_gateway.errors import AgentError, ConfigurationError, ModelError
from live_gateway.runner import Runner
from live_gateway.runner.tree import AgentTree
from tests.support.runs import Recorder, bot, call, model_of, outcomes, run, saying, short, snapshot, stored


def to(name: Any) -> FunctionCall:
    return call(TRANSFER_TO_AGENT, "t-1", agent_name=name)


def runner_of(agent: Any, *plugins: Any) -> Runner:
    return Runner.in_memory("app", agent, plugins=plugins)


def names(tree: AgentTree, name: str) -> list[str]:
    agent = tree.find(name)
    assert isinstance(agent, LlmAgent)
    return [target.name for target in tree.targets(agent)]


# case: K-INST-07
def test_whom_an_agent_may_hand_over_to() -> None:
    under_sequence = LlmAgent(name="under_sequence", sub_agents=[LlmAgent(name="leaf")])
    loner = LlmAgent(name="loner", disallow_transfer_to_parent=True, disallow_transfer_to_peers=True)
    a = LlmAgent(name="a", sub_agents=[LlmAgent(name="a1")])
    custom = CustomAgent(name="custom", run=saying("x").run, sub_agents=[LlmAgent(name="under_custom")])
    workers = [LlmAgent(name="worker", mode="task"), LlmAgent(name="once", mode="single_turn")]
    sequence = SequentialAgent(name="sequence", sub_agents=[under_sequence, LlmAgent(name="second")])
    tree = AgentTree(LlmAgent(name="root", sub_agents=[a, loner, custom, sequence, *workers]))
    assert names(tree, "root") == ["a", "loner", "custom", "sequence"]
    assert names(tree, "a") == ["a1", "root", "loner", "custom", "sequence"]
    assert names(tree, "loner") == []
    assert names(tree, "under_custom") == []
    assert names(tree, "under_sequence") == ["leaf"]
    assert names(tree, "second") == []
    assert TRANSFER_TO_AGENT not in tree.overlays["loner"].tools
    assert TRANSFER_TO_AGENT in tree.overlays["a"].tools


# case: K-INST-07
async def test_the_model_is_told_whom_it_may_hand_over_to_and_only_then() -> None:
    bills = bot(name="bills", description="Knows every bill.")
    root = bot("hello", name="root", instruction="Be kind.", sub_agents=[bills])
    await run(runner_of(root))
    (request,) = model_of(root).requests
    assert [tool.name for tool in request.tools] == [TRANSFER_TO_AGENT]
    schema: Any = request.tools[0].parameters_json_schema
    assert schema["properties"]["agent_name"]["enum"] == ["bills"]
    assert request.instruction.startswith("Be kind.\n\n")
    assert "- bills: Knows every bill." in request.instruction
    alone = bot("hello", name="root", instruction="Be kind.")
    await run(runner_of(alone))
    assert (model_of(alone).requests[0].tools, model_of(alone).requests[0].instruction) == ((), "Be kind.")


# case: K-INST-08
@pytest.mark.parametrize("args", [{}, {"agent_name": None}, {"agent_name": 123}, {"agent_name": ""}])
async def test_a_transfer_to_nobody_is_an_error_that_the_model_reads(args: dict[str, Any]) -> None:
    root = bot(call(TRANSFER_TO_AGENT, "t-1", **args), "sorry", name="root", sub_agents=[bot(name="bills")])
    events = await run(runner_of(root))
    assert "agent_name must name an agent: one of bills" in short(events)[1]
    assert short(events)[2] == "root: sorry"
    assert all(event.actions.transfer_to_agent is None for event in events)


# case: K-FLOW-12
async def test_a_transfer_to_somebody_else_is_an_error_that_the_model_reads() -> None:
    root = bot(to("nobody"), "sorry", name="root", sub_agents=[bot(name="bills"), bot(name="worker", mode="single_turn")])
    assert "failed to find agent: nobody" in short(await run(runner_of(root)))[1]
    again = bot(to("worker"), "sorry", name="root", sub_agents=[bot(name="bills"), bot(name="worker", mode="single_turn")])
    assert "failed to find agent: worker. agent 'worker' works on tasks" in short(await run(runner_of(again)))[1]


# case: K-FLOW-12
async def test_a_tool_that_names_a_stranger_ends_the_run() -> None:
    def leave(ctx: ToolContext) -> str:
        """Leave."""
        ctx.transfer_to_agent = "stranger"
        return "gone"

    got = await outcomes(runner_of(bot(call("leave", "c-1"), name="root", tools=[leave])))
    assert isinstance(got[-1], AgentError)
    assert "failed to find agent: stranger" in str(got[-1])


# contract: PICK-03, NEW-08, RUN-18
async def test_the_other_agent_goes_on_in_the_same_invocation_and_answers_next_time() -> None:
    bills = bot("You owe 3.", "Still 3.", name="bills")
    root = bot(to("bills"), name="root", sub_agents=[bills])
    seen: list[str] = []
    runner = runner_of(root, Recorder(seen))
    before = copy.copy(snapshot(root)), copy.copy(snapshot(bills))
    events = await run(runner, "what do I owe?")
    assert short(events) == [
        "root: FC(transfer_to_agent)",
        "root: FR(transfer_to_agent:{'status': 'bills goes on with the conversation.'})",
        "bills: You owe 3.",
    ]
    assert events[1].actions.transfer_to_agent == "bills"
    assert len({event.invocation_id for event in events}) == 1
    assert short(await run(runner, "sure?")) == ["bills: Still 3."]
    assert (snapshot(root), snapshot(bills)) == before
    hooks = [hook for hook in seen if hook.startswith(("before_agent", "after_agent"))]
    assert hooks[:4] == ["before_agent root", "after_agent root", "before_agent bills", "after_agent bills"]
    assert seen.count("after_run") == 2


async def test_an_agent_hands_back_and_to_a_peer() -> None:
    a = bot(to("b"), "a again", name="a")
    b = bot(to("root"), name="b")
    root = bot(to("a"), to("a"), name="root", sub_agents=[a, b])
    events = await run(runner_of(root))
    assert [event.author for event in events if event.function_calls] == ["root", "a", "b", "root"]
    assert short(events)[-1] == "a: a again"


async def test_agents_that_hand_over_in_a_circle_end_at_the_bound_of_model_calls() -> None:
    a = bot(*[to("root")] * 60, name="a")
    got = await outcomes(runner_of(bot(*[to("a")] * 60, name="root", sub_agents=[a])))
    assert isinstance(got[-1], AgentError)
    assert "max_llm_calls" in str(got[-1])


async def test_a_rejected_transfer_does_not_happen() -> None:
    class Refuse(Recorder):
        async def on_event(self, invocation: Any, event: Any) -> Any:
            if event.function_responses:
                raise ValueError("no")

    bills = bot(name="bills")
    await outcomes(runner_of(bot(to("bills"), name="root", sub_agents=[bills]), Refuse([])))
    assert model_of(bills).requests == []


async def test_a_custom_agent_and_a_sequence_can_take_over() -> None:
    sequence = SequentialAgent(name="steps", sub_agents=[saying("one", name="first"), bot("two", name="second")])
    root = bot(to("custom"), to("steps"), name="root", sub_agents=[saying("custom"), sequence])
    runner = runner_of(root)
    assert short(await run(runner))[-1] == "custom: custom"
    assert short(await run(runner))[-2:] == ["first: one", "second: two"]


# case: K-AGENT-08
async def test_a_sequence_runs_in_order_also_past_an_error() -> None:
    first, second = bot(ModelError("broken"), name="first"), bot("two", name="second")
    nested = SequentialAgent(name="inner", sub_agents=[second])
    runner = runner_of(SequentialAgent(name="steps", sub_agents=[first, nested, saying("three", name="third")]))
    assert short(await outcomes(runner)) == ["ModelError", "second: two", "third: three"]
    assert short(await stored(runner)) == ["user: hello", "second: two", "third: three"]


# case: K-AGENT-08
async def test_whoever_stops_at_an_error_stops_the_sequence() -> None:
    first, second = bot(ModelError("broken"), name="first"), bot(name="second")
    with pytest.raises(ModelError):
        await run(runner_of(SequentialAgent(name="steps", sub_agents=[first, second])))
    assert model_of(second).requests == []


async def test_in_a_text_run_nobody_has_to_say_that_a_part_is_done() -> None:
    first = bot("one", name="first", instruction="Begin.")
    await run(runner_of(SequentialAgent(name="steps", sub_agents=[first])))
    assert (model_of(first).requests[0].tools, model_of(first).requests[0].instruction) == ((), "Begin.")


def test_a_sequence_needs_agents_each_once() -> None:
    with pytest.raises(ConfigurationError, match="no sub-agents"):
        SequentialAgent(name="steps", sub_agents=[])
    twice = bot(name="twice")
    with pytest.raises(ConfigurationError, match="twice"):
        SequentialAgent(name="steps", sub_agents=[twice, twice])


@pytest.mark.parametrize("name", [TRANSFER_TO_AGENT, TASK_COMPLETED])
def test_the_names_of_the_gateways_own_tools_are_taken(name: str) -> None:
    def own() -> None:
        """Do it."""

    own.__name__ = name
    with pytest.raises(ConfigurationError, match=name):
        LlmAgent(name="agent", tools=[own])
