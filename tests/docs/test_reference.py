"""The reference pages say what the code says: commands, settings, messages, frames, notices, close codes, errors."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import msgspec
import pytest

from live_gateway import errors
from live_gateway.cli.main import _parser
from live_gateway.cli.problems import Exit
from live_gateway.errors import ErrorFacts, facts
from live_gateway.server import messages
from live_gateway.server.duration import DURATION_LIMIT
from live_gateway.server.live_socket import TAKEN_OVER
from live_gateway.server.outgoing import _RETRY
from live_gateway.server.wire import HEADER_BYTES, Codec, Flag, Kind
from live_gateway.settings import PREFIX, Settings
from tests.support.docs import ROOT, section, tables, text_of, words

WIRE = text_of("reference/wire.md")
SERVER = ROOT / "live_gateway" / "server"


def first_words(table: str) -> dict[str, list[str]]:
    """The rows of the tables in a text, by the first word in backticks."""
    return {words(row[0])[0]: row for row in tables(table) if words(row[0])}


# Commands and settings.

COMMANDS: dict[str, argparse.ArgumentParser] = next(
    action.choices for action in _parser()._actions if isinstance(action, argparse._SubParsersAction)
)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command: str) -> None:
    parser = COMMANDS[command]
    text = section(text_of("reference/cli.md"), f"## {command}")
    expected = [[f"`{form_of(action)}`", help_of(parser, action)] for action in parser._actions if action.dest != "help"]
    assert [row for row in tables(text) if row != ["Argument", "Meaning"]] == expected
    assert parser.description is not None
    assert " ".join(parser.description.split()) in " ".join(text.split())


def form_of(action: argparse.Action) -> str:
    names = ", ".join(action.option_strings)
    if action.nargs == 0:
        return names
    value = action.metavar or (f"{{{','.join(action.choices)}}}" if action.choices else action.dest.upper())
    return f"{names} {value}".strip()


def help_of(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    return parser._get_formatter()._expand_help(action)


def test_all_commands_and_exit_codes_are_listed() -> None:
    text = text_of("reference/cli.md")
    headings = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert headings == [*COMMANDS, "Exit codes"]
    listed = [row[0] for row in tables(section(text, "## Exit codes")) if row[0] != "Code"]
    assert listed == [str(int(code)) for code in Exit]


def test_settings() -> None:
    rows = [row for row in tables(text_of("reference/settings.md")) if row[0].startswith(f"`{PREFIX}")]
    assert [words(row[0])[0] for row in rows] == [f"{PREFIX}{name.upper()}" for name in Settings.model_fields]
    options = {option for action in COMMANDS["serve"]._actions for option in action.option_strings}
    for (name, field), (_, option, default, meaning) in zip(Settings.model_fields.items(), rows, strict=True):
        assert default == ("none" if field.default is None else f"`{field.default}`"), name
        expected = f"--{name.replace('_', '-')}"
        assert words(option) == ([expected] if expected in options else []), name
        if get_origin(field.annotation) is Literal:
            assert set(get_args(field.annotation)) <= {*words(meaning), str(field.default)}, name


# Messages.

CLIENT: dict[str, type[msgspec.Struct]] = {kind.__struct_config__.tag: kind for kind in get_args(messages.ClientMessage)}


def test_all_messages_of_a_client_with_all_their_fields() -> None:
    rows = first_words(section(WIRE, "## Client to server").partition("\n### ")[0])
    assert list(rows) == list(CLIENT)
    for name, kind in CLIENT.items():
        assert words(rows[name][1]) == [field.encode_name for field in msgspec.structs.fields(kind)], name


def test_all_fields_of_hello() -> None:
    listed = {word for row in tables(section(WIRE, "### hello")) for word in words(row[0])}
    assert listed == {field.encode_name for field in msgspec.structs.fields(messages.Hello)}
    config = first_words(section(WIRE, "### hello"))["config"][1]
    for kind in (messages.ClientConfig, messages.VadConfig, messages.TranscriptionConfig):
        assert {field.encode_name for field in msgspec.structs.fields(kind)} <= set(words(config))


def test_what_is_not_carried_out_is_said_to_be() -> None:
    """By the branches of `ClientInput.message` that raise `NotSupported`, whatever is asked."""
    tree = ast.parse((SERVER / "client_input.py").read_text(encoding="utf-8"))
    refused = set()
    for case in (node for node in ast.walk(tree) if isinstance(node, ast.match_case)):
        raises = isinstance(first := case.body[0], ast.Raise) and "NotSupported" in ast.unparse(first)
        if raises:
            refused |= {
                node.cls.id for node in ast.walk(case.pattern) if isinstance(node, ast.MatchClass) and isinstance(node.cls, ast.Name)
            }
    assert refused
    rows = first_words(section(WIRE, "## Client to server"))
    said = {CLIENT[name].__name__ for name, row in rows.items() if name in CLIENT and "not carried out yet" in row[2]}
    assert said == refused


def test_all_messages_of_the_server_with_all_their_fields() -> None:
    rows = first_words(section(WIRE, "## Server to client").partition("\n### ")[0])
    made = fields_by_type()
    assert set(rows) == set(made)
    for name, fields in made.items():
        assert fields <= {*words(rows[name][1]), "type"}, name


def fields_by_type() -> dict[str, set[str]]:
    """The message types that `server/outgoing.py` makes, each with the keys that stand beside its `type` in a literal."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse((SERVER / "outgoing.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Dict):
            pairs = {key.value: value for key, value in zip(node.keys, node.values, strict=True) if isinstance(key, ast.Constant)}
            if isinstance(kind := pairs.get("type"), ast.Constant):
                found.setdefault(str(kind.value), set()).update(str(key) for key in pairs)
    return found


def test_acks() -> None:
    rows = {words(row[0])[0]: words(row[1])[0] for row in tables(section(WIRE, "### Acks")) if row[0] != "`state`"}
    assert rows == dict(_RETRY)


def test_notices() -> None:
    listed = {words(row[0])[0] for row in tables(section(WIRE, "### Notices")) if row[0] != "Code"}
    assert listed == set(notice_codes())


def notice_codes() -> Iterator[str]:
    """The codes with which notices are made anywhere in the package."""
    for path in (ROOT / "live_gateway").rglob("*.py"):
        if path.is_relative_to(ROOT / "live_gateway" / "testing"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        constants = {
            node.targets[0].id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Constant)
        }
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            name = ast.unparse(call.func).rpartition(".")[2]
            place = {"ConnectionNotice": 0, "Notice": 1, "notice": 1}.get(name)
            if place is not None and len(call.args) > place:
                code = call.args[place]
                value = code.value if isinstance(code, ast.Constant) else constants.get(ast.unparse(code))
                if isinstance(value, str):
                    yield value


def test_binary_frames() -> None:
    rows = {row[2]: row for row in tables(section(WIRE, "## Binary frames")) if row[0].isdigit()}
    assert list(rows) == ["version", "kind", "flags", "codec", "stream", "frame_no", "pos", "t"]
    sizes = {"u8": 1, "u32": 4, "f64": 8}
    offset = 0
    for row in rows.values():
        assert int(row[0]) == offset
        offset += sizes[row[1]]
    assert offset == HEADER_BYTES
    assert all(str(kind.value) in rows["kind"][3] for kind in Kind)
    assert all(f"{flag.value} {flag.name}" in rows["flags"][3] for flag in Flag if flag)
    assert all(str(codec.value) in rows["codec"][3] for codec in Codec)


# Close codes and errors.


def test_close_codes() -> None:
    rows = {int(row[0]): row for row in tables(section(WIRE, "## Close codes")) if row[0].isdigit()}
    sent = {fact.close_code for fact in errors._FACTS.values()} | {*literal_close_codes(), TAKEN_OVER.close_code, DURATION_LIMIT.close_code}
    assert set(rows) == sent
    for kind in error_kinds():
        code = facts_of(kind).close_code
        if code not in (1000, 1011, 4500):  # these stand for many
            assert kind.code in words(rows[code][1]) or kind.code in DELIVERY, kind
    reserved = {
        int(number) for number in range(4000, 5000) if str(number) in section(WIRE, "## Close codes").partition("Kept for later")[2]
    }
    assert not reserved & sent
    assert 4501 in reserved | sent


DELIVERY = {"not_delivered", "delivered_not_persisted", "unknown"}
"""Never the end of a connection: each is the answer to one message."""


def literal_close_codes() -> Iterator[int]:
    """Close codes that stand in the server's own code, as an `Ending`."""
    for path in SERVER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id="Ending"), args=[ast.Constant(value=int(code)), *_]):
                    yield code


def error_kinds() -> list[Any]:
    kinds = [getattr(errors, name) for name in errors.__all__]
    return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Exception)]


def facts_of(kind: Any) -> ErrorFacts:
    return facts(kind.__new__(kind))


def test_errors() -> None:
    rows = {words(row[0])[0]: row for row in tables(text_of("reference/errors.md")) if len(row) == 6 and words(row[0])}
    assert set(rows) == {kind.__name__ for kind in error_kinds()}
    for kind in error_kinds():
        fact = facts_of(kind)
        expected = [f"`{kind.code}`", str(fact.http_status), str(fact.close_code), "yes" if fact.retryable else "no"]
        assert rows[kind.__name__][1:5] == expected, kind


def test_words_of_the_server_s_own_edge() -> None:
    """`PublicError("word", ...)` in the socket's code, and what `Edge` refuses."""
    said = set()
    for name in ("live_socket.py", "edge.py"):
        for node in ast.walk(ast.parse((SERVER / name).read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id="PublicError"), args=[ast.Constant(value=str(word)), *_]):
                    said.add(word)
                case ast.Tuple(elts=[ast.Constant(value=int()), ast.Constant(value=str(word)), _]):
                    said.add(word)
    assert said
    for page in ("reference/errors.md", "reference/wire.md"):
        assert said <= {word for row in tables(text_of(page)) for cell in row for word in words(cell)}, page
