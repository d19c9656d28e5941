"""Agents: what runs. `llm` is an agent with a model, `context` what a run hands around, `config` what may differ per run."""
