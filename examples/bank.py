"""A bank whose agent asks before it does something that cannot be undone. Try it with `live-gateway chat examples/bank.py`."""

from collections.abc import Mapping
from typing import Any

from live_gateway import LlmAgent, ToolContext, tool


def is_much(args: Mapping[str, Any], ctx: ToolContext) -> bool:
    return bool(args["amount"] > 100)


@tool(effect="write", require_confirmation=is_much)
async def send_money(to: str, amount: int, ctx: ToolContext) -> dict[str, object]:
    """Send money to somebody.

    Args:
        to: Who gets it.
        amount: How many euros.
    """
    return {"transfer": ctx.idempotency_key, "summary": f"{amount} euros are on their way to {to}."}


@tool(effect="write")
async def close_account(ctx: ToolContext) -> dict[str, object]:
    """Close the account."""
    left = ctx.state.get("balance", 250)
    if left and ctx.confirmation is None:
        ctx.request_confirmation(hint=f"There are {left} euros in the account. Who gets them?", payload={"to": ""})
        return {}
    heir = ctx.confirmation.payload["to"] if ctx.confirmation is not None and ctx.confirmation.payload else "nobody"
    ctx.state["balance"] = 0
    return {"summary": f"The account is closed; {left} euros go to {heir}."}


agent = LlmAgent(
    name="bank",
    description="Sends money and closes accounts.",
    instruction="You work in a bank. Answer in one short sentence that sounds good when spoken.",
    tools=[send_money, close_account],
)
