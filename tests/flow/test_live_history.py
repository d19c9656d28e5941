"""What a live model is told when its connection begins anew."""

from __future__ import annotations

from live_gateway.agents.config import LiveRunConfig
from live_gateway.agents.context import InvocationContext
from live_gateway.agents.llm import LlmAgent
from live_gateway.content import Content, FunctionCall, FunctionResponse, Part, Transcription, text_of, user_content
from live_gateway.events import USER, Event
from live_gateway.flow.live_history import continued, live_history
from live_gateway.sessions.base import Session

AGENT = LlmAgent(name="agent")


def heard(text: str, invocation_id: str = "e-1") -> Event:
    return Event(author=USER, invocation_id=invocation_id, input_transcription=Transcription(text=text, finished=True))


def spoke(text: str, author: str = "agent", invocation_id: str = "e-1") -> Event:
    return Event(author=author, invocation_id=invocation_id, output_transcription=Transcription(text=text, finished=True))


def mark(invocation_id: str = "e-1") -> Event:
    return Event(author="agent", invocation_id=invocation_id, turn_complete=True)


CALL = Event(
    author="agent",
    invocation_id="e-1",
    content=Content(role="model", parts=[Part(function_call=FunctionCall(id="1", name="f", args={"x": 1}))]),
)
ANSWER = Event(
    author="agent",
    invocation_id="e-1",
    content=Content(role="user", parts=[Part(function_response=FunctionResponse(id="1", name="f", response={"y": 2}))]),
)


def on(*events: Event) -> InvocationContext:
    session = Session(id="s", app_name="app", user_id="u", state={}, events=list(events))
    return InvocationContext(app_name="app", user_id="u", session=session, agent=AGENT, invocation_id="e-9", run_config=LiveRunConfig())


async def told(*events: Event) -> tuple[list[str], bool]:
    history = await live_history(on(*events), AGENT)
    return [f"{content.role}: {text_of(content)}" for content in history.contents], history.unanswered


# contract: LIVE-18
# case: K-LHIST-01
# report: A54, A56
async def test_words_are_told_as_text_and_calls_in_words() -> None:
    assert await told(heard("q"), CALL, ANSWER, spoke("a"), mark()) == (
        ["user: q", 'user: [agent] called `f` with {"x": 1}', 'user: [agent] got from `f`: {"y": 2}', "model: a"],
        False,
    )


# contract: LIVE-18
# report: A57
async def test_only_a_message_of_the_user_is_unanswered() -> None:
    assert (await told(heard("q"), mark()))[1]
    assert (await told(Event(author=USER, content=user_content("typed"))))[1]
    assert not (await told(heard("q"), CALL))[1], "the call will be answered, and then the model speaks"
    assert not (await told(heard("q"), CALL, ANSWER))[1]
    assert not (await told(heard("q"), spoke("a"), mark()))[1]
    assert await told() == ([], False)


# report: A14, A16
def test_a_session_is_continued_only_by_the_agent_that_spoke_last() -> None:
    assert continued(on(heard("q"), spoke("a"), mark()), AGENT) == "e-1"
    assert continued(on(heard("q"), spoke("a"), mark("e-2")), AGENT) == "e-1", "a mark says nothing"
    assert continued(on(heard("q"), spoke("a"), heard("text", "e-2"), spoke("b", invocation_id="e-2")), AGENT) == "e-2"
    assert continued(on(heard("q"), spoke("a"), spoke("b", author="other")), AGENT) is None
    assert continued(on(heard("q"), spoke("a", author="other")), AGENT) is None
    assert continued(on(), AGENT) is None


# contract: LIVE-18, LIVE-21
# report: A16
async def test_words_of_another_agent_in_this_live_session_mean_that_it_handed_over() -> None:
    def by(invocation_id: str) -> Event:
        answer = FunctionResponse(id="t", name="transfer_to_agent", response={})
        content = Content(role="user", parts=[Part(function_response=answer)])
        return Event(author="desk", invocation_id=invocation_id, content=content)

    assert (await told(heard("q"), by("e-9")))[1]
    assert not (await told(heard("q"), by("e-1")))[1]
    assert not (await told(heard("q"), by("e-9"), spoke("a")))[1]
