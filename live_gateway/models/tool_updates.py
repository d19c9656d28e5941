"""Further answers to a call that was answered already: what a tool gives while it runs on."""

from __future__ import annotations

import json
from typing import Protocol, runtime_checkable

from live_gateway.content import Content, FunctionResponse, Part


@runtime_checkable
class TakesToolUpdates(Protocol):
    """A live connection that takes them as what they are. Any other is told in words (`update_in_words`), as a message of the user."""

    async def send_tool_update(self, response: FunctionResponse) -> None:
        """Hand over one more answer to a call: `will_continue` says whether more follow, `scheduling` when the model is to speak about it.

        Raises `ModelError` if it cannot be sent at all.
        """
        ...


def update_in_words(response: FunctionResponse) -> Content | None:
    """An update as words that name the tool. None where there is nothing to say: it ended, and nobody need speak about it."""
    payload = response.response or {}
    silent = response.scheduling is not None and response.scheduling.value == "SILENT"
    if silent and not response.will_continue and "error" not in payload:
        return None
    said = payload["result"] if payload.keys() == {"result"} else payload
    words = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    return Content(role="user", parts=[Part(text=f"Update from the function `{response.name}` (call {response.id}): {words}")])
