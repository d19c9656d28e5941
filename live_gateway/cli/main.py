"""`live-gateway`: the commands and their options. Each command's module is imported when it runs, so that help costs nothing."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from live_gateway import __version__
from live_gateway.cli.load import DEMO
from live_gateway.cli.problems import CommandError, Exit

EXIT_CODES = """exit codes:
  0  the recording was answered
  1  no answer came
  2  wrong usage, or a file that cannot be used
  3  the server cannot be reached
  4  the server reported an error or ended the connection
"""

STORES = """stores (--store or LIVE_GATEWAY_STORE):
  sqlite:///path/to/file  one file, one server process (the default, in the user's data directory)
  memory://               gone when the server stops
  postgresql://user@host/database  needs: pip install 'live-gateway[postgres]'

other settings come from the environment: LIVE_GATEWAY_HOST, LIVE_GATEWAY_PORT, LIVE_GATEWAY_APP_NAME,
LIVE_GATEWAY_LOG_LEVEL (debug, info, warning, error) and LIVE_GATEWAY_LOG_FORMAT (auto, json, text)
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; what goes wrong is one sentence on standard error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character shows another one instead of failing
    arguments = _parser().parse_args(argv)
    try:
        return int(import_module(f"live_gateway.cli.{arguments.command.replace('-', '_')}").run(arguments))
    except CommandError as error:
        print(f"live-gateway: {error}", file=sys.stderr)
        return int(error.code)
    except KeyboardInterrupt:
        return int(Exit.INTERRUPTED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="live-gateway", description="Put a voice agent behind one WebSocket.")
    parser.add_argument("--version", action="version", version=f"live-gateway {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_serve(commands)
    _add_talk(commands)
    _add_chat(commands)
    _add_run(commands)
    _add_db(commands)
    _add_fake_gemini(commands)
    _add_record(commands)
    return parser


def _add_serve(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    serve = commands.add_parser(
        "serve",
        help="run a gateway",
        description="Run a gateway: the agent behind a WebSocket at /live. An agent without a live model of its own hears and speaks with "
        "the local voice of this machine, or with Gemini Live where a live model is named.",
        epilog=STORES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    serve.add_argument("agent", nargs="?", default=DEMO, metavar="module:agent", help="or path/to/file.py:agent (default: the demo agent)")
    serve.add_argument("--host", help="address to listen on (default: 127.0.0.1, which only this machine can reach)")
    serve.add_argument("--port", type=int, help="port to listen on (default: 8080)")
    serve.add_argument("--store", metavar="URL", help="where conversations are kept, see below")
    serve.add_argument("--artifacts", metavar="DIR", help="where the files of conversations are kept (default: the user's data directory)")
    serve.add_argument(
        "--record-calls", metavar="DIR", help="record every call here, the user left and the agent right; the directory must be there"
    )
    serve.add_argument("--app-name", metavar="NAME", help="name under which conversations are kept (default: the agent's name)")
    serve.add_argument(
        "--live-model",
        metavar="NAME",
        help="a Gemini Live model for agents that bring none, with the key in GEMINI_API_KEY (default: the local voice)",
    )
    serve.add_argument(
        "--gemini-base-url", "--gemini-url", metavar="URL", help="where Gemini Live is, if not at its own address: a fake one, a recorder"
    )


def _add_talk(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    talk = commands.add_parser(
        "talk",
        help="play a recording to a gateway and get the answer",
        description="Speak a recording to a gateway as a microphone would, in real time; show the transcript, the tools and the answer.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = talk.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "file", nargs="?", metavar="FILE.wav", help="a sound file: WAV, FLAC, OGG, MP3; any sample rate, any number of channels"
    )
    what.add_argument("--text", metavar="TEXT", help="type this instead of speaking a recording")
    talk.add_argument("--url", default="ws://127.0.0.1:8080/live", help="the gateway (default: %(default)s)")
    talk.add_argument("--out", metavar="FILE.wav", help="write the spoken answer: WAV, 24 kHz, mono")
    talk.add_argument("--answer", choices=["voice", "text"], default="voice", help="how the agent should answer (default: voice)")
    talk.add_argument("--session", metavar="ID", help="go on with this conversation")
    talk.add_argument(
        "--wait", type=_seconds, default=30.0, metavar="SECONDS", help="give up when nothing happens for so long (default: 30)"
    )
    talk.add_argument("--json", action="store_true", help="print one JSON object per line: the server's messages, then a talk.result")


def _add_chat(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    chat = commands.add_parser(
        "chat",
        help="talk to an agent in the terminal",
        description="Talk to an agent in the terminal, in writing. Ctrl-C stops an answer, Ctrl-D ends the conversation.",
    )
    chat.add_argument("agent", nargs="?", default=DEMO, metavar="module:agent", help="or path/to/file.py:agent (default: the demo agent)")
    _add_text_options(chat)


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    run = commands.add_parser(
        "run",
        help="ask an agent one thing and print the answer",
        description="Ask an agent one thing and print its answer. Exit code 0: it answered; 1: it did not; 2: wrong usage.",
    )
    run.add_argument("agent", metavar="module:agent", help="or path/to/file.py:agent")
    run.add_argument("text", help="what to say")
    run.add_argument("--json", action="store_true", help="print the events, one JSON object per line")
    _add_text_options(run)


def _add_text_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="a Gemini model for agents that bring none, with the key in GEMINI_API_KEY (default: rules that need no network)",
    )
    parser.add_argument("--store", metavar="URL", help="where the conversation is kept (default: in memory only)")
    parser.add_argument("--session", metavar="ID", help="go on with this conversation, or begin it under this id")


def _add_db(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    db = commands.add_parser("db", help="look after the stored conversations", description="Look after the stored conversations.")
    tasks = db.add_subparsers(dest="task", required=True, metavar="TASK", help="upgrade: bring a store of an older version to this one")
    task = tasks.add_parser(
        "upgrade",
        help="bring a store of an older version to this one",
        description="Bring the stored conversations to the schema of this version, all of them or none. Make a copy first, and stop the "
        "servers that write to them.",
        epilog=STORES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    task.add_argument("--store", metavar="URL", help="where conversations are kept, see below")


def _add_fake_gemini(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    fake = commands.add_parser(
        "fake-gemini",
        help="play Gemini Live on this machine, from a script",
        description="Be a Gemini Live that follows a script, to develop without a key. Everybody who connects gets the script from its "
        "beginning.",
    )
    fake.add_argument(
        "script", metavar="SCRIPT", help="echo, talk, tools, interruption, rotations, or the path of a recording (see: live-gateway record)"
    )
    fake.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    fake.add_argument("--port", type=_port, default=8090, help="port to listen on; 0 takes a free one (default: %(default)s)")


def _add_record(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    record = commands.add_parser(
        "record",
        help="record what a gateway and Gemini Live say to each other",
        description="Stand between a gateway and Gemini Live, and write down what they say to each other, for fake-gemini to say it again. "
        "No key is written; what people said is.",
    )
    record.add_argument("file", metavar="FILE", help="where to write; a file that is there is not overwritten")
    record.add_argument(
        "--upstream", metavar="URL", default="https://generativelanguage.googleapis.com", help="the service (default: %(default)s)"
    )
    record.add_argument("--shorten-ms", type=int, metavar="MS", help="keep only so much of each piece of audio (default: all)")
    record.add_argument("--port", type=_port, default=8091, help="port to listen on; 0 takes a free one (default: %(default)s)")


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError("give a port, 0 to 65535")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise argparse.ArgumentTypeError("give a number of seconds above 0 and at most 3600")
    return seconds
