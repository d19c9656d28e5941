"""Puts the pieces of a streamed answer together: texts and thoughts joined, function calls assembled from fragments of their arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from live_gateway.content import Content, FunctionCall, Part, model_content
from live_gateway.errors import ModelError

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[['\"]([^'\"]*)['\"]\]")
MAX_INDEX = 10_000


class Aggregator:
    """Takes the parts of a streamed answer as they come. `add` gives what is new and worth showing, `whole` everything so far.

    The text of the whole equals the joined texts of what `add` gave, thoughts apart from what is said.
    """

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._texts: list[str] = []
        self._call: FunctionCall | None = None
        self._args: dict[str, Any] = {}

    def add(self, parts: Sequence[Part]) -> Content | None:
        """Take in the next parts. What of them can be shown at once: texts and thoughts; None if there are none."""
        new = [part for part in parts if part.text]
        for part in parts:
            if part.function_call is not None:
                self._add_call(part, part.function_call)
            elif part.text is not None and self._continues(part):
                self._texts.append(part.text)
            else:
                self._close_text()
                self._parts.append(part)
                self._texts = [part.text] if part.text is not None else []
        return model_content(new) if new else None

    def whole(self) -> Content | None:
        """All of it as one content; None if nothing came. Raises `ModelError` where a call was not finished."""
        if self._call is not None:
            raise ModelError(f"the model's stream ended inside of a call of {self._call.name!r}")
        self._close_text()
        parts = [part for part in self._parts if part.text != "" or part.thought_signature is not None]
        return model_content(parts) if parts else None

    def _continues(self, part: Part) -> bool:
        """Whether a text goes on with the one before it. A signature closes a text: it belongs to exactly that part."""
        last = self._parts[-1] if self._parts else None
        if last is None or last.text is None or last.thought_signature is not None:
            return False
        return bool(last.thought) == bool(part.thought) and part.thought_signature is None

    def _close_text(self) -> None:
        if len(self._texts) > 1:
            self._parts[-1] = self._parts[-1].model_copy(update={"text": "".join(self._texts)})
        self._texts = []

    def _add_call(self, part: Part, call: FunctionCall) -> None:
        self._close_text()
        if self._call is None and not call.will_continue and not call.partial_args:
            self._parts.append(part)
            return
        if self._call is None:
            self._call, self._args = call, dict(call.args or {})
        for piece in call.partial_args or ():
            _put(self._args, piece.json_path or "$", piece)
        if not call.will_continue:
            whole = FunctionCall(name=self._call.name, id=self._call.id or call.id, args=self._args)
            self._parts.append(part.model_copy(update={"function_call": whole}))
            self._call, self._args = None, {}


def _put(args: dict[str, Any], path: str, piece: Any) -> None:
    """Set the value at a JSON path such as `$.a.b[0]`; texts are appended to what is there."""
    steps: list[str | int] = [int(index) if index else name or quoted for name, index, quoted in _STEP.findall(path)]
    if not steps or isinstance(steps[0], int):
        raise ModelError(f"the model sent arguments for the path {path!r}, which is none")
    target: Any = args
    for step, following in pairwise(steps):
        known = _at(target, step)
        if not isinstance(known, dict | list):
            known = [] if isinstance(following, int) else {}
            _set(target, step, known, path)
        target = known
    known = _at(target, steps[-1])
    if piece.string_value is not None:
        _set(target, steps[-1], (known if isinstance(known, str) else "") + piece.string_value, path)
    elif piece.number_value is not None:
        number = piece.number_value
        _set(target, steps[-1], int(number) if float(number).is_integer() else number, path)
    else:
        _set(target, steps[-1], piece.bool_value, path)


def _at(target: Any, step: str | int) -> Any:
    if isinstance(target, list):
        return target[step] if isinstance(step, int) and step < len(target) else None
    return target.get(step)


def _set(target: Any, step: str | int, value: Any, path: str) -> None:
    if isinstance(target, list):
        if not isinstance(step, int) or step > min(len(target), MAX_INDEX):
            raise ModelError(f"the model sent arguments for the path {path!r}, which does not fit what came before")
        target[step : step + 1] = [value]
    else:
        target[step] = value
