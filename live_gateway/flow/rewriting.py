"""How single events look to a model: which parts stay, what others did, what was said aloud. Nothing here changes what it is given."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from live_gateway.confirmation import CONFIRM
from live_gateway.content import CONTEXT, Content, FunctionCall, FunctionResponse, Part
from live_gateway.events import USER

GENERATED_ID = "adk-"
"""Prefix of call ids that were made here because the model gave none; no model sees one."""

_HIDDEN = frozenset({CONFIRM, "adk_request_credential"})


@dataclass(frozen=True, slots=True)
class Shape:
    """What a model is shown of one content, and its tool side.

    same: the content itself will do; otherwise `shown` stands for it, and None means that nothing is left to show (or that it is about a
    confirmation or a credential, which no model sees). calls, names: keys and names of its calls, in order. answers: keys of its
    responses, responses: their parts, in the same order. others: what else a content with responses holds.
    """

    same: bool
    shown: Content | None
    calls: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    responses: tuple[Part, ...] = ()
    others: tuple[Part, ...] = ()


def shape(content: Content, role: str, live: bool) -> Shape:
    """Take a content apart. `role` is used where the content has none."""
    if is_hidden(content):
        return Shape(same=False, shown=None)
    kept = [part for part in content.parts or () if keeps(part, live=live)]
    if all(part.thought for part in kept):
        return Shape(same=False, shown=None)
    parts = [_as_shown(part) for part in kept]
    same = content.role is not None and len(parts) == len(content.parts or ()) and all(map(_is, parts, kept))
    calls = [part.function_call for part in kept if part.function_call is not None]
    answers = [part.function_response for part in kept if part.function_response is not None]
    return Shape(
        same=same,
        shown=None if same else Content(role=content.role or role, parts=parts),
        calls=tuple(key_of(call) for call in calls),
        names=tuple(call.name or "" for call in calls),
        answers=tuple(key_of(answer) for answer in answers),
        responses=tuple(part for part in parts if part.function_response is not None),
        others=tuple(part for part in parts if part.function_response is None) if answers else (),
    )


def key_of(called: FunctionCall | FunctionResponse) -> str:
    """What pairs a call with its response: the id, or the name where a program wrote events without ids."""
    return called.id or f"name:{called.name}"


def is_hidden(content: Content) -> bool:
    """Whether the content is about a confirmation or a credential."""
    return any(
        (part.function_call is not None and part.function_call.name in _HIDDEN)
        or (part.function_response is not None and part.function_response.name in _HIDDEN)
        for part in content.parts or ()
    )


def keeps(part: Part, *, live: bool) -> bool:
    """Whether a model is shown this part: not if it is empty, not the voice of a live turn (its transcript stands for it).

    Raw samples come from live turns only; another audio file that a user sent is shown, but not on a live connection.
    """
    if part.inline_data is not None:
        return not _is_voice(part.inline_data.mime_type or "", live=live)
    if part.file_data is not None:
        if (part.file_data.file_uri or "").startswith("artifact:"):
            return False  # a reference into our own store, which no provider can open
        return not _is_voice(part.file_data.mime_type or "", live=live)
    if part.text:
        return True
    return any(value is not None for name, value in vars(part).items() if name not in ("text", "thought"))


def foreign(content: Content, author: str, live: bool) -> Content | None:
    """What another agent said or did, as context in the user's role, its thoughts left out; None where nothing is left to show."""
    if is_hidden(content):
        return None
    parts: list[Part] = []
    for part in content.parts or ():
        if not keeps(part, live=live):
            continue
        if (told := describe(part, author)) is not None:
            parts.append(Part(text=told))
        elif part.text is None and not part.thought:
            parts.append(part)
    return Content(role=USER, parts=[Part(text=CONTEXT), *parts]) if parts else None


def foreign_speech(text: str, author: str) -> Content:
    """What another agent said aloud, as context in the user's role."""
    return Content(role=USER, parts=[Part(text=CONTEXT), Part(text=f"[{author}] said: {text}")])


def describe(part: Part, author: str) -> str | None:
    """A line about a text, a call or a response; None for anything else, and for thoughts."""
    if part.function_call is not None:
        return f"[{author}] called `{part.function_call.name}` with {_json(part.function_call.args or {})}"
    if part.function_response is not None:
        return f"[{author}] got from `{part.function_response.name}`: {_json(part.function_response.response)}"
    if part.text and not part.thought:
        return f"[{author}] said: {part.text}"
    return None


def tools_as_text(content: Content, author: str) -> Content:
    """A tool content in words, for a wire that takes no calls in its history."""
    lines = [Part(text=line) for part in content.parts or () if (line := describe(part, author)) is not None]
    return Content(role=USER, parts=lines)


def spoken(role: str, texts: Sequence[str]) -> Content:
    """What was said aloud, as text."""
    return Content(role=role, parts=[Part(text="".join(texts))])


def stand_in(key: str, name: str, *, pending: bool) -> Part:
    """A response for a call that has none: providers refuse a history with an unanswered call."""
    answer = {"status": "pending"} if pending else {"error": "No result of this call was recorded."}
    shown = None if key.startswith((GENERATED_ID, "name:")) else key
    return Part(function_response=FunctionResponse(id=shown, name=name, response=answer))


def _as_shown(part: Part) -> Part:
    """Without an id that was made here, and without what only a live connection takes: when to speak about an answer, whether more come."""
    call, response = part.function_call, part.function_response
    if call is not None and (call.id or "").startswith(GENERATED_ID):
        return part.model_copy(update={"function_call": call.model_copy(update={"id": None})})
    if response is not None:
        changes = {name: None for name in ("scheduling", "will_continue") if getattr(response, name) is not None}
        if (response.id or "").startswith(GENERATED_ID):
            changes["id"] = None
        if changes:
            return part.model_copy(update={"function_response": response.model_copy(update=changes)})
    return part


def _is(one: Part, other: Part) -> bool:
    return one is other


def _is_voice(mime_type: str, *, live: bool) -> bool:
    kind = mime_type.lower()
    return kind.startswith("audio/") if live else kind.startswith(("audio/pcm", "audio/l16"))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
