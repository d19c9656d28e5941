"""An agent on a Gemini Live model, which hears and speaks itself. The key is taken from GEMINI_API_KEY or GOOGLE_API_KEY.

Set MODEL to a model of yours that can go live, and serve it with `live-gateway serve examples/gemini_live_agent.py`.
"""

import os

from live_gateway import LlmAgent
from live_gateway.demo import INSTRUCTION, get_time, get_weather, move, set_timer
from live_gateway.models.gemini_live import GeminiLiveModel

model = GeminiLiveModel(os.environ.get("MODEL", "gemini-live-2.5-flash-preview"), base_url=os.environ.get("GEMINI_BASE_URL"))

agent = LlmAgent(name="demo", instruction=INSTRUCTION, live_model=model, tools=[get_weather, get_time, move, set_timer])
