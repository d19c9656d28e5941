"""A rover to drive around by voice: the agent of the tutorial. Serve it with `live-gateway serve examples/rover.py`."""

from typing import Literal

from live_gateway import LlmAgent, ToolContext

STEPS = {"forward": (0, 1), "backward": (0, -1), "left": (-1, 0), "right": (1, 0)}


async def drive(direction: Literal["forward", "backward", "left", "right"], distance_m: float, ctx: ToolContext) -> dict[str, object]:
    """Drive the rover: go in a direction.

    Args:
        direction: Where to go.
        distance_m: How far, in meters.
    """
    x, y = ctx.state.get("position", (0.0, 0.0))
    step_x, step_y = STEPS[direction]
    ctx.state["position"] = [x + step_x * distance_m, y + step_y * distance_m]
    return {"summary": f"I drove {distance_m:g} meters {direction}."}


async def report_position(ctx: ToolContext) -> dict[str, object]:
    """Tell where the rover is."""
    x, y = ctx.state.get("position", (0.0, 0.0))
    return {"x_m": x, "y_m": y, "summary": f"I am {x:g} meters to the right of the start and {y:g} meters ahead of it."}


agent = LlmAgent(
    name="rover",
    description="Drives a rover.",
    instruction="You drive a rover. Answer in one short sentence that sounds good when spoken.",
    tools=[drive, report_position],
)
