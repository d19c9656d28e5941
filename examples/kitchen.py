"""A kitchen with one tool of each kind. Serve it with `live-gateway serve examples/kitchen.py`."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated, Literal

from pydantic import Field

from live_gateway import LlmAgent, ToolContext, ToolError, tool


@tool(effect="read")
def read_thermometer(place: Literal["fridge", "freezer", "oven"]) -> dict[str, object]:
    """Tell how warm it is somewhere in the kitchen.

    Args:
        place: Where to look.
    """
    time.sleep(0.05)  # a plain function may block: it runs in a thread of its own
    degrees = {"fridge": 5, "freezer": -18, "oven": 180}[place]
    return {"temperature_c": degrees, "summary": f"The {place} has {degrees} degrees."}


@tool(effect="write")
async def add_to_list(item: str, ctx: ToolContext, amount: Annotated[int, Field(ge=1, le=99)] = 1) -> dict[str, object]:
    """Put something on the shopping list.

    Args:
        item: What to buy.
        amount: How many of it.
    """
    ctx.state["user:shopping"] = [*ctx.state.get("user:shopping", []), {"item": item, "amount": amount}]
    return {"summary": f"{amount} {item} added."}


@tool(effect="write")
async def brew_coffee(cups: int, ctx: ToolContext) -> dict[str, object]:
    """Brew coffee.

    Args:
        cups: How many cups.
    """
    left = ctx.state.get("beans_for_cups", 10)
    if cups > left:
        raise ToolError(f"there are beans for {left} cups only; ask the user whether that is enough")
    ctx.state["beans_for_cups"] = left - cups
    return {"order": ctx.idempotency_key, "summary": f"{cups} cups are on their way."}


@tool(effect="read", timeout_s=2)
async def find_recipe(dish: str) -> dict[str, object]:
    """Look a recipe up.

    Args:
        dish: What to cook.
    """
    await asyncio.sleep(60)  # a service that does not answer
    return {"dish": dish}


@tool(effect="write", long_running=True)
async def bake(dish: str, ctx: ToolContext) -> dict[str, object]:
    """Bake something.

    Args:
        dish: What to bake.
    """
    return {"status": "pending", "ticket": ctx.call_id, "summary": f"The {dish} is in the oven."}


@tool(effect="read")
async def watch_oven(dish: str) -> AsyncIterator[dict[str, object]]:
    """Watch the oven and tell how a dish comes along.

    Args:
        dish: What is in the oven.
    """
    for percent in (50, 100):
        await asyncio.sleep(5)
        yield {"percent": percent, "summary": f"The {dish} is {percent} percent done."}


agent = LlmAgent(
    name="kitchen",
    description="Helps in the kitchen.",
    instruction="You help in a kitchen. Answer in one short sentence that sounds good when spoken.",
    tools=[read_thermometer, add_to_list, brew_coffee, find_recipe, bake, watch_oven],
)
