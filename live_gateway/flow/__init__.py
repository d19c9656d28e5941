"""One turn of one agent, in text: what its model is shown (`contents`, `instructions`), and how it goes on (`llm_flow`)."""
