"""`KeywordModel`: what an agent can do without a language model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from live_gateway.content import (
    CONTEXT,
    TRANSFER_TO_AGENT,
    Content,
    FunctionCall,
    Part,
    function_calls,
    function_responses,
    model_content,
    text_of,
)
from live_gateway.models.base import ModelRequest, ModelResponse
from live_gateway.models.keyword import speech
from live_gateway.models.keyword.slots import Utterance, fill, fill_one
from live_gateway.models.keyword.tools import DESCRIPTION, NAME, KnownTool, Parameter, known_tool
from live_gateway.models.keyword.words import content_stems
from live_gateway.voice.numbers import normalise

ENOUGH = 1.5
"""What the words of the user must tell of a tool, together with the slots that they fill."""
MEASURED = 1.5
"""What a slot tells that only this kind of tool has: a choice, or a number with the right unit."""
CLEARLY_BETTER = 1.1
MAX_LOOK_BACK = 12
"""Messages that are looked at to find out which question is still open."""

_HELP = frozenset(["help", "what can you do", "what can i say", "what can i ask", "what do you do", "how can you help"])
_GREETINGS = frozenset(["hello", "hi", "hey", "hello there", "hi there", "hey there", "good morning", "good afternoon", "good evening"])
_NEVER_MIND = frozenset(
    ["never mind", "nevermind", "forget it", "cancel", "nothing", "stop", "no", "no thanks", "no thank you", "cancel that"]
)


@dataclass(frozen=True, slots=True)
class _Say:
    text: str


@dataclass(frozen=True, slots=True)
class _Call:
    tool: KnownTool
    args: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Ask:
    """A question for `missing`; `args` are known already. `certainty` is how well the tool fitted."""

    text: str
    tool: KnownTool
    args: dict[str, Any]
    missing: Parameter


_Decision: TypeAlias = _Say | _Call | _Ask


class KeywordModel:
    """Rules instead of a language model: no network, no weights, no key, and no pretence.

    It chooses among the tools of the request by the words of their names, descriptions, parameters and choices, fills parameters with what
    was said (numbers in digits or words with their units, choices, names after a preposition), calls the tool and reads its result out. A
    required parameter that was not said is asked for. What it does not understand it says so, with what it can do; it never makes anything
    up. The instruction is not used: there is nothing here that could follow one. English.
    """

    @property
    def name(self) -> str:
        """`keyword`."""
        return "keyword"

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelResponse]:
        """One whole answer: a text, or one call."""
        contents = _without_context(request.contents)
        here_to_stay = len(contents) < len(request.contents)
        wanted = [tool for tool in request.tools if not (here_to_stay and tool.name == TRANSFER_TO_AGENT)]
        decision = decide(contents, [known_tool(declaration) for declaration in wanted])
        if isinstance(decision, _Call):
            part = Part(function_call=FunctionCall(name=decision.tool.name, args=decision.args))
        else:
            part = Part(text=decision.text)
        yield ModelResponse(content=model_content([part]), model_version=self.name)


def _without_context(contents: Sequence[Content]) -> Sequence[Content]:
    """The conversation up to what the user said last. What another agent did after that is how it handed over: rules that know no better
    than that one would only hand back."""
    end = len(contents)
    while end > 0 and (parts := contents[end - 1].parts) and parts[0].text == CONTEXT:
        end -= 1
    return contents[:end] if end else contents


def decide(contents: Sequence[Content], tools: Sequence[KnownTool]) -> _Decision:
    """What to do about the last message. Everything it depends on is in the conversation."""
    if not contents:
        return _Say(speech.say_abilities(tools))
    if responses := function_responses(contents[-1]):
        return _Say(speech.say_results(responses))
    text = text_of(contents[-1])
    question = _open_question(contents[:-1][-MAX_LOOK_BACK:], tools)
    if question is not None:
        return _answer_to(question, text, tools)
    return _understand(text, tools)


def _understand(text: str, tools: Sequence[KnownTool]) -> _Decision:
    plain = normalise(text)
    if plain in _HELP:
        return _Say(speech.say_abilities(tools))
    if plain in _GREETINGS:
        return _Say(f"Hello. {speech.say_abilities(tools)}")
    best = _best(Utterance.of(text), tools)
    if not best:
        return _Say(speech.not_understood(tools))
    if len(best) > 1:
        return _Say(speech.ask_which([tool for tool, _ in best]))
    return _complete(*best[0])


def _complete(tool: KnownTool, args: dict[str, Any]) -> _Decision:
    missing = next((parameter for parameter in tool.parameters if parameter.required and parameter.name not in args), None)
    return _Ask(speech.ask_for(tool, missing), tool, args, missing) if missing is not None else _Call(tool, args)


def _best(utterance: Utterance, tools: Sequence[KnownTool]) -> list[tuple[KnownTool, dict[str, Any]]]:
    """The tool that fits best with what fills it; several when they fit equally well; none when nothing fits."""
    rated = []
    for tool in tools:
        told = _told(tool, utterance, tools)
        filled = fill(tool, utterance)
        if utterance.forbids(tool):
            continue
        required = sum(parameter.required for parameter in tool.parameters)
        given = sum(parameter.required and parameter.name in filled.args for parameter in tool.parameters)
        score = told + MEASURED * filled.measured
        if told >= DESCRIPTION and score >= ENOUGH:
            rated.append((score, given - required, tool, filled.args))
    if not rated:
        return []
    top = max(score for score, *_ in rated)
    close = [entry for entry in rated if entry[0] * CLEARLY_BETTER > top]
    fewest_missing = max(lack for _, lack, *_ in close)
    close = [entry for entry in close if entry[1] == fewest_missing]
    if len(close) > 1 and max(score for score, *_ in close) > min(score for score, *_ in close):
        close = [max(close, key=lambda entry: entry[0])]
    return [(tool, args) for _, _, tool, args in close]


def _told(tool: KnownTool, utterance: Utterance, tools: Sequence[KnownTool]) -> float:
    """What the user's words tell of this tool; a word that other tools have as well tells less."""
    total = 0.0
    for word in utterance.stems:
        weight = tool.vocabulary.get(word, 0.0)
        if weight:
            total += weight * weight / sum(other.vocabulary.get(word, 0.0) for other in tools)
    return total


def _open_question(contents: Sequence[Content], tools: Sequence[KnownTool]) -> _Ask | None:
    """The question that the model's last message asked, found again from the conversation before it."""
    if len(contents) < 2 or contents[-1].role != "model" or function_calls(contents[-1]):
        return None
    said = text_of(contents[-1]).strip()
    before = contents[:-1]
    if not said or before[-1].role != "user" or function_responses(before[-1]):
        return None
    decision = decide(before, tools)
    return decision if isinstance(decision, _Ask) and decision.text.startswith(said) else None


def _answer_to(question: _Ask, text: str, tools: Sequence[KnownTool]) -> _Decision:
    """The reply to a question, unless the user asks for something else now."""
    if normalise(text) in _NEVER_MIND and not question.missing.choices and question.missing.kind != "boolean":
        return _Say("Okay.")
    utterance = Utterance.of(text)
    other = _best(utterance, tools)
    if len(other) == 1 and other[0][0].name != question.tool.name and _told(other[0][0], utterance, tools) >= NAME / 2:
        return _complete(*other[0])
    args = question.args | fill(question.tool, utterance).args
    if question.missing.name not in args and (value := fill_one(question.missing, text)) is not None:
        args[question.missing.name] = value
    if question.missing.name in args:
        return _complete(question.tool, args)
    if content_stems(normalise(text).split()) and not isinstance(understood := _understand(text, tools), _Say):
        return understood
    return _Ask(f"Sorry, I did not understand that. {question.text}", question.tool, args, question.missing)
