"""A text model of your own, with the voice of this machine. Serve it with `live-gateway serve examples/own_model.py`."""

from collections.abc import AsyncIterator

from live_gateway import LlmAgent, ModelRequest, ModelResponse, Part
from live_gateway.content import model_content, text_of


class Parrot:
    """Implements `Model`: repeats what it was told, word by word. It serves any number of requests at once and keeps nothing."""

    name = "parrot"

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelResponse]:
        """Pieces where they are wanted, and at the end exactly one whole answer."""
        words = text_of(request.contents[-1]).split() if request.contents else []
        answer = " ".join(["You said:", *words])
        if request.stream:
            for word in answer.split():
                yield ModelResponse(content=model_content([Part(text=f"{word} ")]), partial=True)
        yield ModelResponse(content=model_content([Part(text=answer)]))


agent = LlmAgent(name="parrot", model=Parrot())
