"""Three agents that share one conversation: a desk that finds out what the user wants, and two who know more about it."""

from live_gateway import LlmAgent


def find_order(number: int) -> dict[str, str]:
    """Look an order up.

    Args:
        number: The number of the order.
    """
    return {"summary": f"Order {number} left the warehouse yesterday."}


orders = LlmAgent(
    name="orders",
    description="Knows where every order is.",
    instruction="Answer questions about orders. When the user wants something else, hand back to the desk.",
    tools=[find_order],
)

returns = LlmAgent(
    name="returns",
    description="Takes goods back.",
    instruction="Help the user to send something back. When the user wants something else, hand back to the desk.",
)

agent = LlmAgent(
    name="desk",
    instruction="Find out in one question what the user wants.",
    sub_agents=[orders, returns],
)
