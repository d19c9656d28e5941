"""An agent on a Gemini text model, with the voice of this machine. The key is taken from GEMINI_API_KEY or GOOGLE_API_KEY.

Serve it with `live-gateway serve examples/gemini_agent.py`.
"""

import os

from live_gateway import LlmAgent
from live_gateway.demo import INSTRUCTION, get_time, get_weather, move, set_timer
from live_gateway.models.gemini import GeminiModel

model = GeminiModel(os.environ.get("MODEL", "gemini-2.5-flash"), base_url=os.environ.get("GEMINI_BASE_URL"))

agent = LlmAgent(name="demo", instruction=INSTRUCTION, model=model, tools=[get_weather, get_time, move, set_timer])
