"""One question to the model, with everybody who may answer instead, change the answer, or help out when it fails."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

from live_gateway.agents.config import RunConfig
from live_gateway.agents.context import InvocationContext
from live_gateway.agents.llm import LlmAgent
from live_gateway.errors import ModelError, ModelUnavailable
from live_gateway.flow.closing import close
from live_gateway.models.base import Model, ModelRequest, ModelResponse
from live_gateway.plugins.callbacks import ModelHooks
from live_gateway.plugins.chain import PluginChain

_DEFAULTS = RunConfig()


class ModelCall:
    """Asks the model of an agent: plugins' `before_model`, the agent's, the model, on failure `on_model_error`, then `after_model`.

    The first answer that is not None wins at each place. An answer of `before_model` is final: neither the model nor `after_model` runs.
    """

    def __init__(self, invocation: InvocationContext, chain: PluginChain, agent: LlmAgent) -> None:
        self._invocation = invocation
        self._agent = agent
        self._hooks = ModelHooks(chain, invocation, agent)

    async def answers(self, request: ModelRequest) -> AsyncGenerator[ModelResponse, None]:
        """The pieces, then the whole answer, after which the model's stream is closed.

        Raises what the model raised and nobody answered, `PluginError`, `AgentError` beyond `max_llm_calls`, `ModelUnavailable` without a
        model.
        """
        instead = await self._hooks.before(request)
        if instead is not None:
            yield instead
            return
        stream = self._model().generate(request)
        try:
            complete = False
            while not complete:
                response = await self._next(stream, request)
                complete = not response.partial
                yield await self._hooks.after(response)
        finally:
            await close(stream)

    def _model(self) -> Model:
        if self._agent.model is None:
            raise ModelUnavailable(f"agent {self._agent.name!r} has no model")
        config = self._invocation.run_config
        limit = config.max_llm_calls if isinstance(config, RunConfig) else _DEFAULTS.max_llm_calls
        self._invocation.budget.spend(limit, self._agent.name)
        return self._agent.model

    async def _next(self, stream: AsyncIterator[ModelResponse], request: ModelRequest) -> ModelResponse:
        try:
            return await anext(stream)
        except StopAsyncIteration:
            error: Exception = ModelError(f"the model of agent {self._agent.name!r} ended its stream without a whole answer")
        except Exception as failure:  # the model is foreign code; its failure is offered to whoever can answer instead
            error = failure
        answer = await self._hooks.on_error(request, error)
        if answer is None:
            raise error
        return answer
