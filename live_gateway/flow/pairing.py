"""Brings every call together with its response, as providers want it: the call, then at once one content with all of its responses."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from live_gateway.content import Content, Part
from live_gateway.errors import AgentError
from live_gateway.events import USER, Event
from live_gateway.flow.rewriting import Shape, describe, stand_in

Placed: TypeAlias = tuple[int, Event, Shape]
"""A tool content: its place among the contents, the event that it comes from, and what it holds."""


@dataclass(slots=True, eq=False)
class _Call:
    """A content with calls, and what answers it: the newest response per call, and where the responses stood."""

    index: int
    event: Event
    shape: Shape
    answers: dict[str, Part] = field(default_factory=dict)
    others: list[Part] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    in_place: bool = False

    def response(self, waiting: Collection[str]) -> Content:
        """All responses merged, in the order of the calls, then the texts that came with them."""
        pending = {*self.event.long_running_tool_ids, *waiting}
        parts: list[Part] = []
        for key, name in zip(self.shape.calls, self.shape.names, strict=True):
            answer = self.answers.get(key)
            parts.append(stand_in(key, name, pending=key in pending) if answer is None else answer)
        return Content(role=USER, parts=[*parts, *self.others])


def pair(given: list[Content], tools: Sequence[Placed], *, live: bool, waiting: Collection[str] = ()) -> list[Content]:
    """The contents with every call followed by its merged responses. waiting: keys of calls that a person has not approved yet.

    A response belongs to the latest call of its id before it; a newer response replaces an older one. While the newest content is a
    late response, texts between its call and it are left out, so that the model speaks about the response. A response of the user
    without a call is told in words; one of an agent is dropped, and is an `AgentError` where it is all that is to be answered.
    """
    if _all_in_place(tools):
        return given
    contents: list[Content | None] = list(given)
    calls, orphans = _bind(tools)
    for index, event, shape in orphans:
        contents[index] = _told(event, shape)
    if not live and tools[-1][0] == len(contents) - 1:
        _check_last(tools[-1], contents)
        _drop_interim(contents, tools, calls)
    after: dict[int, Content] = {}
    for call in calls:
        if not call.in_place:
            after[call.index] = call.response(waiting)
            for source in call.sources:
                contents[source] = None
    paired: list[Content] = []
    for index, content in enumerate(contents):
        if content is not None:
            paired.append(content)
        if index in after:
            paired.append(after[index])
    return paired


def _all_in_place(tools: Sequence[Placed]) -> bool:
    """Whether calls and responses alternate, each response right behind its call and complete: what most histories look like."""
    if len(tools) % 2:
        return False
    pairs = zip(tools[::2], tools[1::2], strict=True)
    return all(shape.calls and shape.calls == answer.answers and index + 1 == behind for (index, _, shape), (behind, _, answer) in pairs)


def _bind(tools: Sequence[Placed]) -> tuple[list[_Call], list[Placed]]:
    calls: list[_Call] = []
    orphans: list[Placed] = []
    latest: dict[str, _Call] = {}
    for placed in tools:
        index, event, shape = placed
        if shape.calls:
            call = _Call(index, event, shape)
            calls.append(call)
            latest.update(dict.fromkeys(shape.calls, call))
        elif not _answer(index, shape, latest):
            orphans.append(placed)
    return calls, orphans


def _answer(index: int, shape: Shape, latest: dict[str, _Call]) -> bool:
    """Hand the responses to their calls. False if there is no call for any of them."""
    first: _Call | None = None
    for key, part in zip(shape.answers, shape.responses, strict=True):
        call = latest.get(key)
        if call is None:
            continue
        call.answers[key] = part
        if not call.sources or call.sources[-1] != index:
            call.sources.append(index)
        first = first or call
    if first is None:
        return False
    first.others.extend(shape.others)
    first.in_place = len(first.sources) == 1 and index == first.index + 1 and shape.answers == first.shape.calls
    return True


def _told(event: Event, shape: Shape) -> Content | None:
    if event.author != USER:
        return None
    lines = [line for part in shape.responses if (line := describe(part, USER)) is not None]
    return Content(role=USER, parts=[*shape.others, *(Part(text=line) for line in lines)])


def _check_last(last: Placed, contents: list[Content | None]) -> None:
    index, event, shape = last
    if contents[index] is None:
        ids = ", ".join(shape.answers)
        raise AgentError(
            f"no function call event found for function responses ids: {ids}; the stored history of {event.author!r} is broken"
        )


def _drop_interim(contents: list[Content | None], tools: Sequence[Placed], calls: Sequence[_Call]) -> None:
    last = tools[-1][0]
    begin = max((call.index for call in calls if last in call.sources), default=last)
    for (index, _, _), (following, _, _) in pairwise(tools):
        for between in range(max(index, begin) + 1, following):
            contents[between] = None
