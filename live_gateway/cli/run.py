"""`live-gateway run`: ask an agent one thing and print the answer."""

from __future__ import annotations

import argparse
import asyncio
import sys

from live_gateway import telemetry
from live_gateway.agents.base import Agent
from live_gateway.cli.chat import MEMORY, describe
from live_gateway.cli.conversation import Conversation
from live_gateway.cli.event_printer import printable
from live_gateway.cli.load import load_agent
from live_gateway.cli.problems import CommandError, Exit
from live_gateway.cli.text_model import text_model, with_text_models
from live_gateway.errors import GatewayError
from live_gateway.events import Event, encode_event
from live_gateway.sessions import open_session_service


def run(arguments: argparse.Namespace) -> int:
    """Run the command. Raises `CommandError`."""
    telemetry.configure("error", as_json=False)
    agent = with_text_models(load_agent(arguments.agent), text_model(arguments.model))
    output = Output(as_json=arguments.json)
    try:
        waits = asyncio.run(_ask(agent, arguments, output))
    except GatewayError as error:
        raise CommandError(str(error)) from None
    if output.problem is not None:
        raise CommandError(describe(output.problem), Exit.NO_ANSWER)
    if waits:
        raise CommandError("the agent asks for a decision; answer it in live-gateway chat", Exit.NO_ANSWER)
    return int(Exit.OK if output.answered else Exit.NO_ANSWER)


class Output:
    """Prints whole events: as JSON, one a line, or their texts alone. problem: the last error."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self.answered = False
        self.problem: Exception | None = None

    def show(self, found: Event | Exception) -> None:
        """Print an event, or keep an error."""
        if isinstance(found, Exception):
            self.problem = found
            return
        self.answered = self.answered or bool(found.text)
        if self._as_json:
            print(encode_event(found).decode(), flush=True)
        elif found.text:
            print(printable(found.text), flush=True)
        if found.error_code and not self._as_json:
            print(printable(f"error: {found.error_message or ''} ({found.error_code})"), file=sys.stderr)


async def _ask(agent: Agent, arguments: argparse.Namespace, output: Output) -> bool:
    """Ask and print; whether the agent waits for something."""
    async with open_session_service(arguments.store or MEMORY) as sessions:
        conversation = Conversation(agent, sessions)
        if arguments.session is not None:
            conversation.session_id = arguments.session
        return bool(await conversation.say(arguments.text, output.show))
