"""An agent of your own, with a tool of your own. The gateway takes it as `examples/weather_agent.py:agent`."""

from live_gateway.agents.llm import LlmAgent


def get_forecast(city: str, days_ahead: int = 1) -> dict[str, object]:
    """Tell the weather forecast for a city.

    Args:
        city: Name of the city.
        days_ahead: How many days from today; tomorrow is 1.
    """
    return {"city": city, "days_ahead": days_ahead, "summary": f"In {city} the sun will shine, as in every example."}


agent = LlmAgent(
    name="weather",
    description="Tells the weather forecast.",
    instruction="You tell the weather. Answer in one short sentence that sounds good when spoken.",
    tools=[get_forecast],
)
