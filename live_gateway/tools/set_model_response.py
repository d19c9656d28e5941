"""How an agent that has both tools and an output schema gives its answer: by calling this tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from live_gateway.content import FunctionDeclaration
from live_gateway.errors import ToolError
from live_gateway.tools.base import Effect, ToolCallContext

SET_MODEL_RESPONSE = "set_model_response"


class SetModelResponse:
    """Takes the fields of the answer as arguments and checks them. What does not fit goes back to the model as an error."""

    name = SET_MODEL_RESPONSE
    effect: Effect = "read"
    long_running = False

    def __init__(self, schema: type[BaseModel]) -> None:
        self._schema = schema
        self.declaration = FunctionDeclaration(
            name=self.name,
            description="Give the final answer. Call this once, when you know all that the answer needs, and write no answer as text.",
            parameters_json_schema=schema.model_json_schema(),
        )

    async def run(self, args: Mapping[str, Any], context: ToolCallContext) -> dict[str, Any]:
        """The answer as JSON. Raises `ToolError` where the arguments do not fit the schema."""
        try:
            return self._schema.model_validate(dict(args)).model_dump(mode="json", by_alias=True)
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'answer'}: {each['msg']}" for each in error.errors())
            raise ToolError(f"the answer does not fit: {wrong}") from None
