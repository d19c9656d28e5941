"""What a live model is told when a connection begins anew, and which earlier live session the new one goes straight on from."""

from __future__ import annotations

from dataclasses import replace

from live_gateway.agents.context import InvocationContext
from live_gateway.agents.llm import LlmAgent
from live_gateway.content import is_reference
from live_gateway.events import USER, Event
from live_gateway.flow.contents import build_contents
from live_gateway.flow.request import view_of
from live_gateway.models.live import History


async def live_history(invocation: InvocationContext, agent: LlmAgent) -> History:
    """What is stored by now, as this agent's live model may see it: transcripts as text, calls in words, no audio, summaries applied."""
    view = replace(view_of(invocation, agent), live=True, calls_as_text=True)
    contents = build_contents(invocation.session.events, view)
    newest = _newest_words(invocation)
    unanswered = newest is not None and (_asks(newest) or _hands_over(newest, invocation, agent))
    return History(contents, unanswered=unanswered and bool(contents))


def _asks(event: Event) -> bool:
    return event.author == USER and not event.function_responses


def _hands_over(event: Event, invocation: InvocationContext, agent: LlmAgent) -> bool:
    """Whether these words are another agent's of this very live session: it handed over to this one, who is to speak now."""
    return event.author not in (USER, agent.name) and event.invocation_id == invocation.invocation_id


def continued(invocation: InvocationContext, agent: LlmAgent) -> str | None:
    """Id of the invocation that said the newest words of the session, if it was this agent's; None where the model has changed."""
    newest = _newest_words(invocation)
    if newest is None:
        return None
    authors = {event.author for event in invocation.session.events if event.invocation_id == newest.invocation_id} - {USER}
    return newest.invocation_id if authors == {agent.name} else None


def _newest_words(invocation: InvocationContext) -> Event | None:
    said = (event for event in reversed(invocation.session.events) if event.content is not None or event.transcription is not None)
    return next((event for event in said if not is_reference(event.content)), None)
