"""The demo agent: something to talk to without a network, a key or an account.

Its tools say honestly what they are: the weather is made up, the robot is simulated, a timer is noted and does not ring; only the time is
real. Each result has a `summary` that can be spoken as it is.
"""

from __future__ import annotations

import zlib
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, available_timezones

from pydantic import Field

from live_gateway.agents.context import ToolContext
from live_gateway.agents.llm import LlmAgent
from live_gateway.tools.function import tool

City = Annotated[str, Field(min_length=1, max_length=80)]

POSITION = "robot_position"
TIMERS = "timers"
MAX_TIMERS = 20

_SKIES = ("sunny", "partly cloudy", "cloudy", "foggy", "windy", "rainy", "stormy", "snowy")
_STEPS = {"forward": (0.0, 1.0), "backward": (0.0, -1.0), "left": (-1.0, 0.0), "right": (1.0, 0.0)}
_CONTINENTS = frozenset(["Africa", "America", "Antarctica", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific"])
_ALSO = {  # well-known cities that no time zone is named after
    "barcelona": "Europe/Madrid",
    "beijing": "Asia/Shanghai",
    "boston": "America/New_York",
    "cologne": "Europe/Berlin",
    "delhi": "Asia/Kolkata",
    "edinburgh": "Europe/London",
    "frankfurt": "Europe/Berlin",
    "geneva": "Europe/Zurich",
    "hamburg": "Europe/Berlin",
    "houston": "America/Chicago",
    "kyoto": "Asia/Tokyo",
    "miami": "America/New_York",
    "milan": "Europe/Rome",
    "montreal": "America/Toronto",
    "mumbai": "Asia/Kolkata",
    "munich": "Europe/Berlin",
    "new york city": "America/New_York",
    "osaka": "Asia/Tokyo",
    "rio de janeiro": "America/Sao_Paulo",
    "san francisco": "America/Los_Angeles",
    "seattle": "America/Los_Angeles",
    "washington": "America/New_York",
}

INSTRUCTION = """You are a friendly voice assistant, and you are being shown to somebody who tries this gateway out.
Answer in the language of the user, in one or two short sentences that sound good when spoken: no lists, no markup.
Use your tools: the time in a city, the weather (made up; say so), moving a simulated robot, noting a timer (it will not ring; say so).
When a tool gives a summary, say that. When you cannot do something, say so and name what you can do."""


@tool(effect="read")
def get_weather(city: City) -> dict[str, Any]:
    """Tell the weather in a city: temperature and sky. The weather is made up, since this demo uses no network.

    Args:
        city: Name of the city, for example Paris.
    """
    name = city.strip()
    chance = zlib.crc32(name.casefold().encode("utf-8", "replace"))
    degrees = -5 + chance // 8 % 36
    sky = "snowy" if degrees < 0 else _SKIES[chance % 7]
    summary = f"In {name} it is {sky} and {degrees} degrees. I made that up: this demo has no weather service."
    return {"city": name, "sky": sky, "temperature_c": degrees, "made_up": True, "summary": summary}


@tool(effect="read")
def get_time(city: City) -> dict[str, Any]:
    """Tell what time it is now in a city.

    Args:
        city: Name of the city, for example Tokyo.
    """
    name = city.strip()
    zone = _zones().get(_folded(name))
    if zone is None:
        summary = f"I do not know the time zone of {name}. Try a large city, such as London, New York or Tokyo."
        return {"city": name, "known": False, "summary": summary}
    now = datetime.now(UTC).astimezone(ZoneInfo(zone))
    summary = f"In {name} it is {now:%H:%M} on {now:%A}."
    return {"city": name, "known": True, "time": now.isoformat(timespec="seconds"), "zone": zone, "summary": summary}


@tool(effect="write")
async def move(
    direction: Literal["forward", "backward", "left", "right"],
    ctx: ToolContext,
    distance_m: Annotated[float, Field(gt=0, le=100)] = 1.0,
) -> dict[str, Any]:
    """Move the robot: go forward, back, left or right by a distance in meters. The robot is simulated.

    Args:
        direction: Where to go, as the robot sees it.
        distance_m: How far to go, in meters.
    """
    before = ctx.state.get(POSITION) or {"x_m": 0.0, "y_m": 0.0}
    step_x, step_y = _STEPS[direction]
    after = {"x_m": round(before["x_m"] + step_x * distance_m, 3), "y_m": round(before["y_m"] + step_y * distance_m, 3)}
    ctx.state[POSITION] = after
    summary = f"The simulated robot moved {_count(distance_m, 'meter')} {direction}."
    return {"direction": direction, "distance_m": distance_m, "position": after, "simulated": True, "summary": summary}


@tool(effect="write")
async def set_timer(seconds: Annotated[int, Field(ge=1, le=86_400)], ctx: ToolContext) -> dict[str, Any]:
    """Set a timer for a number of seconds. The demo only notes it; it does not ring.

    Args:
        seconds: How long the timer runs, in seconds; one minute is 60.
    """
    timers = [*(ctx.state.get(TIMERS) or []), {"seconds": seconds, "set_at": datetime.now(UTC).isoformat(timespec="seconds")}]
    ctx.state[TIMERS] = timers[-MAX_TIMERS:]
    summary = f"I noted a timer of {_duration(seconds)}. It will not ring: this demo only keeps a note."
    return {"seconds": seconds, "rings": False, "summary": summary}


@cache
def _zones() -> dict[str, str]:
    """City names, folded, to time zones: those that a zone is named after, and some more."""
    named = {_folded(zone.rpartition("/")[2]): zone for zone in sorted(available_timezones()) if zone.partition("/")[0] in _CONTINENTS}
    return {**named, **_ALSO} if named else {}


def _folded(city: str) -> str:
    return " ".join(city.replace("_", " ").replace("-", " ").casefold().split())


def _duration(seconds: int) -> str:
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    parts = [_count(amount, unit) for amount, unit in ((hours, "hour"), (minutes, "minute"), (rest, "second")) if amount]
    return " and ".join(parts)


def _count(amount: float, unit: str) -> str:
    return f"{amount:g} {unit}" if amount == 1 else f"{amount:g} {unit}s"


agent = LlmAgent(
    name="demo",
    description="Shows what the gateway does: tells the time and a made-up weather, moves a simulated robot, notes timers.",
    instruction=INSTRUCTION,
    tools=[get_weather, get_time, move, set_timer],
)
"""What the gateway serves when nobody names an agent of his own. It has no model: the gateway puts in what the machine has."""
