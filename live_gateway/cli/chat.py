"""`live-gateway chat`: talk to an agent in the terminal. The conversation runs in a loop beside, so that Ctrl-C can stop one answer."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TextIO

from anyio.from_thread import BlockingPortal, start_blocking_portal

from live_gateway import telemetry
from live_gateway.agents.base import Agent
from live_gateway.agents.llm import LlmAgent
from live_gateway.agents.sequential import in_order
from live_gateway.cli.conversation import Conversation, Question
from live_gateway.cli.event_printer import EventPrinter, printable
from live_gateway.cli.load import load_agent
from live_gateway.cli.problems import CommandError, Exit
from live_gateway.cli.text_model import text_model, with_text_models
from live_gateway.content import Content, user_content
from live_gateway.errors import GatewayError
from live_gateway.events import USER, Event
from live_gateway.sessions import open_session_service

PROMPT = "you        "
MEMORY = "memory://"
_POLL_S = 0.1
"""How long a wait may be that Ctrl-C cannot end on every platform."""


def run(arguments: argparse.Namespace) -> int:
    """Run the command. Raises `CommandError`."""
    telemetry.configure("error", as_json=False)
    agent = with_text_models(load_agent(arguments.agent), text_model(arguments.model))
    store = arguments.store or MEMORY
    try:
        with start_blocking_portal() as portal, portal.wrap_async_context_manager(open_session_service(store)) as sessions:
            conversation = Conversation(agent, sessions, streaming=True)
            if arguments.session is not None:
                conversation.session_id = arguments.session
            _greet(agent, conversation, store)
            Chat(portal, conversation, sys.stdout, ask=_line).talk()
    except GatewayError as error:
        raise CommandError(str(error)) from None
    return int(Exit.OK)


class Chat:
    """Reads what the person says, shows what the agent answers, and asks what the agent wants to be told. ask: reads a line after a prompt;
    raises `EOFError` at the end."""

    def __init__(self, portal: BlockingPortal, conversation: Conversation, stream: TextIO, ask: Callable[[str], str]) -> None:
        self._portal = portal
        self._conversation = conversation
        self._printer = EventPrinter(stream)
        self._ask = ask

    def talk(self) -> None:
        """Until the person ends it (Ctrl-D)."""
        while True:
            try:
                text = self._ask(PROMPT)
            except EOFError:
                self._printer.note("")
                return
            except KeyboardInterrupt:
                self._printer.note("(Ctrl-D ends)")
                continue
            if text.strip():
                self._converse(text)

    def _converse(self, text: str) -> None:
        message: Content | None = user_content(text)
        while message is not None:
            questions = self._answer(message)
            message = self._answers(questions)

    def _answer(self, message: Content) -> list[Question]:
        """One run. Ctrl-C stops it, and waits until it has stopped; another one ends the program."""
        running = self._portal.start_task_soon(self._conversation.send, message, self._show)
        try:
            return _result(running)
        except KeyboardInterrupt:
            self._portal.call(self._conversation.stop)
            _result(running)
            self._printer.line("stopped", "the answer was stopped")
            return []
        finally:
            self._printer.finish()

    def _answers(self, questions: list[Question]) -> Content | None:
        """A message with the person's answers; None where there is nothing to answer, or he does not."""
        try:
            parts = [question.answered(self._decide(question)) for question in questions]
        except (EOFError, KeyboardInterrupt):
            self._printer.note("(not answered)")
            return None
        return Content(role=USER, parts=parts) if parts else None

    def _decide(self, question: Question) -> bool | str:
        self._printer.line("asked", question.text)
        if not question.yes_or_no:
            return self._ask(PROMPT)
        while (answer := self._ask("yes or no? ").strip().lower()) not in ("y", "yes", "n", "no"):
            pass
        return answer in ("y", "yes")

    def _show(self, found: Event | Exception) -> None:
        if isinstance(found, Event):
            self._printer.show(found)
        else:
            self._printer.line("error", describe(found))


def describe(error: Exception) -> str:
    """What went wrong, for the person at the terminal, who may see everything."""
    return str(error) if isinstance(error, GatewayError) else f"{type(error).__name__}: {error}"


def _result(running: Future[list[Question]]) -> list[Question]:
    while not running.done():
        wait([running], timeout=_POLL_S)
    return running.result()


def _line(prompt: str) -> str:
    return input(prompt if sys.stdin.isatty() else "")


def _greet(agent: Agent, conversation: Conversation, store: str) -> None:
    first = in_order(agent)[0]
    model = first.model.name if isinstance(first, LlmAgent) and first.model is not None else "none"
    kept = "in memory only" if store == MEMORY else f"as session {conversation.session_id}"
    print(printable(f"Talking to {agent.name!r} (model {model}); the conversation is kept {kept}."))
    print("Ctrl-C stops an answer, Ctrl-D ends.", flush=True)
