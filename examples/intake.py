"""Two agents that work one after the other: one asks, the other writes up what it heard."""

from live_gateway import LlmAgent, SequentialAgent

ask = LlmAgent(
    name="ask",
    instruction="Ask for the user's name and what is broken. Ask one thing at a time.",
    output_key="last_words",
)

confirm = LlmAgent(
    name="confirm",
    instruction="Say in one sentence what the user reported, and that somebody will call back.",
)

agent = SequentialAgent(name="intake", sub_agents=[ask, confirm])
