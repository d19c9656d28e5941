"""What a page is shown of a tool that answers piece by piece, when it reads the stored events."""

from __future__ import annotations

from typing import Any

from live_gateway.content import Content, FunctionResponse, Part
from live_gateway.events import Event
from live_gateway.server.outgoing import Outgoing


# contract: LIVE-17
def test_a_piece_is_progress_and_the_last_one_is_the_result() -> None:
    def shown(payload: dict[str, Any], *, more: bool) -> tuple[Any, Any]:
        response = FunctionResponse(id="c", name="f", response=payload, will_continue=more)
        event = Event(author="agent", seq=1, content=Content(role="user", parts=[Part(function_response=response)]))
        (message,) = Outgoing("s", {}).durable(event)
        return message["status"], message.get("result", message.get("error"))

    assert shown({"result": "chunk 0"}, more=True) == ("progress", "chunk 0")
    assert shown({"result": "chunk 0chunk 1"}, more=False) == ("done", "chunk 0chunk 1")
    assert shown({"error": "cancelled", "result": "chunk 0"}, more=False) == ("cancelled", "cancelled")
