"""A text answer that is growing: its pieces and the whole are one record. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from live_gateway.content import Content, Part, model_content
from live_gateway.events import new_event_id
from live_gateway.live.items import TranscriptUpdate
from live_gateway.models.live import TextOut


@dataclass(slots=True)
class TextAnswer:
    """The answer of one turn. event_id: id of its pieces' events and of the complete one."""

    turn: int
    author: str
    event_id: str = field(default_factory=new_event_id)
    _text: str = ""
    _thoughts: str = ""
    _revision: int = 0

    def add(self, piece: TextOut) -> tuple[Content, TranscriptUpdate | None]:
        """One more piece: its content, and the whole so far unless it is a thought, which listeners are not shown."""
        content = model_content([Part(text=piece.text, thought=piece.thought or None)])
        if piece.thought:
            self._thoughts += piece.text
            return content, None
        self._text += piece.text
        self._revision += 1
        return content, TranscriptUpdate(
            item=self.event_id,
            turn=self.turn,
            role="model",
            author=self.author,
            text=self._text,
            delta=piece.text,
            revision=self._revision,
            source="text",
        )

    def whole(self) -> Content:
        """All of it, thoughts first."""
        parts = [Part(text=self._thoughts, thought=True)] if self._thoughts else []
        return model_content([*parts, Part(text=self._text)] if self._text else parts)

    def metadata(self, *, incomplete: bool) -> dict[str, Any]:
        """What the complete event says of itself."""
        live: dict[str, Any] = {"turn": self.turn, "source": "text"}
        return {"live": live | {"incomplete": True} if incomplete else live}
