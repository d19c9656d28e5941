"""The question to a text model, made from the stored events and the agent."""

from __future__ import annotations

from live_gateway.agents.config import RunConfig
from live_gateway.agents.context import InvocationContext
from live_gateway.agents.llm import LlmAgent
from live_gateway.agents.services import ArtifactAccess
from live_gateway.content import GenerateContentConfig, Part
from live_gateway.errors import ConfigurationError
from live_gateway.flow.contents import View, build_contents
from live_gateway.flow.instructions import fill
from live_gateway.models.base import ModelRequest
from live_gateway.tools.set_model_response import SET_MODEL_RESPONSE
from live_gateway.tools.streaming import StopStreaming

_ANSWER_BY_TOOL = f"Give your final answer by calling the tool `{SET_MODEL_RESPONSE}`, not as text."


async def build_request(invocation: InvocationContext, agent: LlmAgent) -> ModelRequest:
    """What the agent's model is asked next. Built afresh each time; nothing is kept from one request to the next.

    Raises `ConfigurationError` for an instruction that cannot be filled, `AgentError` for a history that cannot be shown.
    """
    return ModelRequest(
        contents=build_contents(invocation.session.events, view_of(invocation, agent)),
        instruction=await instruction_of(invocation, agent),
        tools=tuple(tool.declaration for tool in agent.tools_in(invocation) if not isinstance(tool, StopStreaming)),
        config=_config(agent),
        stream=isinstance(invocation.run_config, RunConfig) and invocation.run_config.streaming_mode == "sse",
    )


def view_of(invocation: InvocationContext, agent: LlmAgent) -> View:
    """What of the session this agent may see in this invocation."""
    return View(
        agent=agent.name,
        branch=invocation.branch,
        scope=invocation.isolation_scope,
        current_turn_only=agent.include_contents == "none",
    )


async def instruction_of(invocation: InvocationContext, agent: LlmAgent) -> str:
    """The system instruction: the agent's own, templates filled; what a callable gives is taken as it is."""
    if isinstance(agent.instruction, str):
        text = await inject_state(agent.instruction, invocation)
    else:
        text = await agent.resolve_instruction(invocation)
    by_tool = _ANSWER_BY_TOOL if SET_MODEL_RESPONSE in agent.toolbox else ""
    return "\n\n".join(words for words in (text, by_tool, invocation.overlay.instruction) if words)


async def inject_state(template: str, invocation: InvocationContext) -> str:
    """Fill a template from the invocation's state and artifacts; for callable instructions, which are not filled by themselves."""
    artifacts = invocation.artifacts
    return await fill(template, invocation.state, None if artifacts is None else _Texts(artifacts))


class _Texts:
    """Loads artifacts as text."""

    def __init__(self, artifacts: ArtifactAccess) -> None:
        self._artifacts = artifacts

    async def __call__(self, name: str) -> str | None:
        part = await self._artifacts.load(name)
        return None if part is None else _text(name, part)


def _text(name: str, part: Part) -> str:
    if part.text is not None:
        return part.text
    data = part.inline_data.data if part.inline_data is not None else None
    try:
        return (data or b"").decode()
    except UnicodeDecodeError:
        raise ConfigurationError(f"artifact {name!r} is not text; an instruction asks for it") from None


def _config(agent: LlmAgent) -> GenerateContentConfig | None:
    """The agent's generation settings, with its output schema where no tool takes the answer."""
    if agent.output_schema is None or SET_MODEL_RESPONSE in agent.toolbox:
        return agent.config
    wanted = {"response_schema": agent.output_schema, "response_mime_type": "application/json"}
    return (agent.config or GenerateContentConfig()).model_copy(update=wanted)
