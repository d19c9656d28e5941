"""The demo agent and the example: they load, their tools work without a network, and they say what they are."""

from __future__ import annotations

import re
import runpy
import socket
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from live_gateway import demo
from live_gateway.agents.context import InvocationContext
from live_gateway.agents.llm import LlmAgent
from live_gateway.content import FunctionCall
from live_gateway.plugins.chain import PluginChain
from live_gateway.plugins.tool_call import ToolOutcome, call_tool
from live_gateway.tools.schema import parameters_schema
from tests.support.invocations import make_invocation

EXAMPLE = Path(__file__).parent.parent / "examples" / "weather_agent.py"


@pytest.fixture
def invocation() -> InvocationContext:
    return make_invocation(demo.agent)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("the demo must not use the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)


async def _outcome(invocation: InvocationContext, name: str, **args: Any) -> ToolOutcome:
    agent = invocation.agent
    assert isinstance(agent, LlmAgent)
    return await call_tool(PluginChain(), agent, invocation, FunctionCall(id="fc", name=name, args=args))


async def _result(invocation: InvocationContext, name: str, **args: Any) -> dict[str, Any]:
    outcome = await _outcome(invocation, name, **args)
    assert outcome.error is None
    assert outcome.response is not None
    assert outcome.response.response is not None
    return outcome.response.response


def test_the_agent_declares_four_documented_tools() -> None:
    assert list(demo.agent.toolbox) == ["get_weather", "get_time", "move", "set_timer"]
    assert {name: tool.effect for name, tool in demo.agent.toolbox.items()} == {
        "get_weather": "read",
        "get_time": "read",
        "move": "write",
        "set_timer": "write",
    }
    for tool in demo.agent.toolbox.values():
        assert tool.declaration.description
        for schema in parameters_schema(tool.declaration)["properties"].values():
            assert schema["description"]
    move = parameters_schema(demo.agent.toolbox["move"].declaration)
    assert move["required"] == ["direction"]
    assert move["properties"]["direction"]["enum"] == ["forward", "backward", "left", "right"]
    assert "ctx" not in move["properties"]


async def test_the_weather_is_made_up_says_so_and_stays_the_same(invocation: InvocationContext) -> None:
    first = await _result(invocation, "get_weather", city="Paris")
    assert first == await _result(invocation, "get_weather", city=" Paris ")
    assert first["made_up"] is True
    assert "made that up" in first["summary"]
    assert (await _result(invocation, "get_weather", city="paris"))["temperature_c"] == first["temperature_c"]
    cities = ["Paris", "Oslo", "Lima", "Cairo", "Tokyo", "Rome", "Delhi", "Perth"]
    weathers = [await _result(invocation, "get_weather", city=city) for city in cities]
    assert len({(weather["sky"], weather["temperature_c"]) for weather in weathers}) > 4
    assert all(-5 <= weather["temperature_c"] <= 30 for weather in weathers)
    assert all(weather["sky"] == "snowy" for weather in weathers if weather["temperature_c"] < 0)


@pytest.mark.parametrize(
    ("city", "zone"),
    [("Tokyo", "Asia/Tokyo"), ("new york", "America/New_York"), ("MUNICH", "Europe/Berlin"), ("Port-au-Prince", "America/Port-au-Prince")],
)
async def test_the_time_of_a_known_city(invocation: InvocationContext, city: str, zone: str) -> None:
    before = datetime.now(ZoneInfo(zone)).replace(microsecond=0)
    result = await _result(invocation, "get_time", city=city)
    told = datetime.fromisoformat(result["time"])
    assert before <= told <= datetime.now(ZoneInfo(zone))
    assert told.utcoffset() == before.utcoffset()
    assert re.fullmatch(rf"In {city} it is \d\d:\d\d on \w+day\.", result["summary"])


async def test_an_unknown_city_is_admitted(invocation: InvocationContext) -> None:
    result = await _result(invocation, "get_time", city="Atlantis")
    assert result["known"] is False
    assert "do not know" in result["summary"]


async def test_the_time_without_any_time_zone_data_is_admitted_too(invocation: InvocationContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "available_timezones", set)
    demo._zones.cache_clear()
    try:
        assert (await _result(invocation, "get_time", city="Munich"))["known"] is False
    finally:
        demo._zones.cache_clear()


async def test_moves_add_up_in_the_state(invocation: InvocationContext) -> None:
    first = await _result(invocation, "move", direction="forward", distance_m=2)
    assert first["summary"] == "The simulated robot moved 2 meters forward."
    await _result(invocation, "move", direction="left", distance_m=0.5)
    outcome = await _outcome(invocation, "move", direction="backward")
    assert outcome.actions.state_delta == {demo.POSITION: {"x_m": -0.5, "y_m": 1.0}}
    assert outcome.response is not None
    assert outcome.response.response is not None
    assert outcome.response.response["summary"] == "The simulated robot moved 1 meter backward."


async def test_a_move_starts_where_the_stored_state_says() -> None:
    invocation = make_invocation(demo.agent, {demo.POSITION: {"x_m": 5.0, "y_m": 5.0}})
    assert (await _result(invocation, "move", direction="right", distance_m=1))["position"] == {"x_m": 6.0, "y_m": 5.0}


@pytest.mark.parametrize("args", [{"direction": "up"}, {"direction": "left", "distance_m": 0}, {"direction": "left", "distance_m": 1e9}])
async def test_impossible_moves_are_refused_and_change_nothing(invocation: InvocationContext, args: dict[str, Any]) -> None:
    outcome = await _outcome(invocation, "move", **args)
    assert outcome.status == "error"
    assert outcome.actions.state_delta == {}


@pytest.mark.parametrize(
    ("seconds", "words"), [(1, "1 second"), (90, "1 minute and 30 seconds"), (7200, "2 hours"), (3661, "1 hour and 1 minute and 1 second")]
)
async def test_a_timer_is_noted_and_admits_that_it_does_not_ring(invocation: InvocationContext, seconds: int, words: str) -> None:
    outcome = await _outcome(invocation, "set_timer", seconds=seconds)
    assert outcome.response is not None
    assert outcome.response.response is not None
    assert outcome.response.response["summary"].startswith(f"I noted a timer of {words}. It will not ring")
    assert [timer["seconds"] for timer in outcome.actions.state_delta[demo.TIMERS]] == [seconds]


async def test_only_the_latest_timers_are_kept() -> None:
    noted = [{"seconds": seconds, "set_at": "2026-01-01T00:00:00+00:00"} for seconds in range(1, demo.MAX_TIMERS + 1)]
    outcome = await _outcome(make_invocation(demo.agent, {demo.TIMERS: noted}), "set_timer", seconds=999)
    kept = [timer["seconds"] for timer in outcome.actions.state_delta[demo.TIMERS]]
    assert kept == [*range(2, demo.MAX_TIMERS + 1), 999]


async def test_every_summary_can_be_spoken(invocation: InvocationContext) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("get_weather", {"city": "Rome"}),
        ("get_time", {"city": "Rome"}),
        ("move", {"direction": "left"}),
        ("set_timer", {"seconds": 5}),
    ]
    for name, args in calls:
        summary = (await _result(invocation, name, **args))["summary"]
        assert re.fullmatch(r"[\w ,.:'-]+\.", summary)


async def test_the_example_loads_and_its_tool_works() -> None:
    agent = runpy.run_path(str(EXAMPLE))["agent"]
    assert isinstance(agent, LlmAgent)
    result = await _result(make_invocation(agent), "get_forecast", city="Bern", days_ahead=2)
    assert result["days_ahead"] == 2
    assert "Bern" in result["summary"]
