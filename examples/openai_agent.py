"""An agent on a chat-completions server (Ollama, vLLM, llama.cpp, a hosted one), with the voice of this machine.

Set OPENAI_BASE_URL, MODEL and, where the server wants one, OPENAI_API_KEY; serve it with `live-gateway serve examples/openai_agent.py`.
"""

import os

from live_gateway import LlmAgent
from live_gateway.demo import INSTRUCTION, get_time, get_weather, move, set_timer
from live_gateway.models.openai import OpenAIModel

model = OpenAIModel(
    os.environ.get("MODEL", "qwen3:4b"),
    base_url=os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:11434/v1"),
    api_key=os.environ.get("OPENAI_API_KEY"),
)

agent = LlmAgent(name="demo", instruction=INSTRUCTION, model=model, tools=[get_weather, get_time, move, set_timer])
