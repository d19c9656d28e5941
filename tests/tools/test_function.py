"""A function as a tool: what is declared, how arguments are checked, how it runs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from google.genai.types import FunctionDeclaration, LiveConnectConfig
from pydantic import BaseModel, Field

from live_gateway.errors import ConfigurationError, ToolError
from live_gateway.tools import function as function_module
from live_gateway.tools.base import Tool, ToolCallContext
from live_gateway.tools.function import FunctionTool, tool
from live_gateway.tools.schema import parameters_schema
from live_gateway.tools.threads import ToolThreads

if TYPE_CHECKING:
    from live_gateway.agents.context import ToolContext


class Unit(Enum):
    METRE = "m"
    FOOT = "ft"


@dataclass
class Point:
    x: int
    y: float = 0.0


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Place(BaseModel):
    title: str
    point: Point


class FakeContext:
    """Enough of a tool context for a tool that runs alone."""

    state: MutableMapping[str, Any]
    call_id = "fc-1"
    idempotency_key = "s:fc-1"
    confirmation = None
    transfer_to_agent: str | None = None
    end_of_agent = False

    def __init__(self) -> None:
        self.state = {}

    def request_confirmation(self, *, hint: str = "", payload: Any = None) -> None:
        raise NotImplementedError


def _tool(function: Callable[..., Any], **options: Any) -> FunctionTool:
    return FunctionTool(function, **options)


async def _run(function: Callable[..., Any], args: Mapping[str, Any], **options: Any) -> Any:
    made: Tool = _tool(function, **options)
    return await made.run(args, FakeContext())


def _property(annotation: Any, **default: Any) -> dict[str, Any]:
    def function(value: Any) -> None:
        """One argument."""

    function.__annotations__ = {"value": annotation}
    if default:
        function.__defaults__ = (default["default"],)
    schema: dict[str, Any] = parameters_schema(_tool(function).declaration)["properties"]["value"]
    return schema


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["only"], {"type": "string", "enum": ["only"]}),
        (Unit, {"type": "string", "enum": ["m", "ft"]}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Annotated[int, Field(ge=1, description="at least one")], {"type": "integer", "minimum": 1, "description": "at least one"}),
        (Point, {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "number", "default": 0.0}}, "required": ["x"]}),
    ],
)
def test_types_are_declared_plainly(annotation: Any, schema: dict[str, Any]) -> None:
    assert _property(annotation) == schema


def test_a_property_named_title_is_not_taken_for_a_title() -> None:
    assert list(_property(Place)["properties"]) == ["title", "point"]


def test_defaults_are_declared_and_make_an_argument_optional() -> None:
    def turn(angle: float = 90.0, note: str | None = None, unit: Unit = Unit.METRE, strange: Any = object()) -> None: ...  # noqa: B008

    schema = parameters_schema(_tool(turn).declaration)
    assert "required" not in schema
    assert schema["properties"] == {
        "angle": {"type": "number", "default": 90.0},
        "note": {"type": "string"},
        "unit": {"type": "string", "enum": ["m", "ft"], "default": "m"},
        "strange": {},
    }


def test_a_type_that_contains_itself_keeps_its_definition() -> None:
    def grow(tree: Tree) -> None: ...

    schema = parameters_schema(_tool(grow).declaration)
    assert schema["properties"]["tree"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert schema["$defs"]["Tree"]["properties"]["value"] == {"type": "integer"}


def google_style(city: str, days: int = 1) -> None:
    """Look up the weather.

    It is made up.

    Args:
        city: Name of the city,
            without the country.
        days (int): How many days ahead.

    Returns:
        Nothing.
    """


def sphinx_style(city: str, days: int = 1) -> None:
    """Look up the weather.

    It is made up.

    :param city: Name of the city, without the country.
    :param days: How many days ahead.
    :returns: nothing
    """


@pytest.mark.parametrize("function", [google_style, sphinx_style])
def test_texts_come_from_the_docstring(function: Callable[..., Any]) -> None:
    declaration = _tool(function).declaration
    assert declaration.name == function.__name__
    assert declaration.description == "Look up the weather.\nIt is made up."
    properties = parameters_schema(declaration)["properties"]
    assert properties["city"]["description"] == "Name of the city, without the country."
    assert properties["days"]["description"] == "How many days ahead."


def test_the_declaration_is_what_google_takes() -> None:
    declaration = _tool(google_style).declaration
    assert isinstance(declaration, FunctionDeclaration)
    config = LiveConnectConfig(tools=[{"function_declarations": [declaration]}])
    assert config.tools


def test_no_arguments_no_schema() -> None:
    def now() -> None:
        """The time."""

    declaration = _tool(now).declaration
    assert declaration.parameters_json_schema is None
    assert parameters_schema(declaration) == {"type": "object", "properties": {}}


# case: K-TOOL-04
def test_a_long_running_tool_says_so_to_the_model() -> None:
    made = _tool(google_style, long_running=True)
    assert made.long_running
    assert made.declaration.description
    assert "NOTE" in made.declaration.description
    assert "do not call it again" in made.declaration.description


# case: K-TOOL-02
def test_what_cannot_be_declared_is_refused_when_built() -> None:
    def rest(*args: int) -> None: ...
    def keywords(**kwargs: int) -> None: ...
    def positional(a: int, /) -> None: ...
    def untyped(a) -> None: ...  # type: ignore[no-untyped-def]
    def unknown(a: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821
    def odd(a: threading.Lock) -> None: ...
    def callback(a: Callable[[], None]) -> None: ...
    def pieces(a: int) -> Iterator[int]:
        yield a

    for function in (rest, keywords, positional, untyped, unknown, odd, callback, pieces):
        with pytest.raises(ConfigurationError, match=function.__name__):
            _tool(function)
    with pytest.raises(ConfigurationError, match="not a function"):
        FunctionTool(5)  # type: ignore[arg-type]
    for name in ("", "two words", "9lives", "x" * 65, "naïve"):
        with pytest.raises(ConfigurationError, match="tool name"):
            _tool(google_style, name=name)
    with pytest.raises(ConfigurationError, match="tool name"):
        FunctionTool(lambda: None)
    with pytest.raises(ConfigurationError, match="above 0"):
        _tool(google_style, timeout_s=0)


async def test_an_argument_without_annotation_takes_the_type_of_its_default() -> None:
    def step(count=3):  # type: ignore[no-untyped-def]
        return count

    assert parameters_schema(_tool(step).declaration)["properties"]["count"] == {"type": "integer", "default": 3}
    assert await _run(step, {"count": "4"}) == 4


# case: K-TOOL-01
async def test_arguments_are_converted_to_what_the_function_wants() -> None:
    def take(unit: Unit, point: Point, tree: Tree, tags: tuple[str, ...], count: int, rate: float) -> list[Any]:
        return [unit, point, tree, tags, count, rate]

    got = await _run(take, {"unit": "ft", "point": {"x": 1}, "tree": {"value": 2}, "tags": ["a"], "count": 5.0, "rate": "1.5"})
    assert got == [Unit.FOOT, Point(1, 0.0), Tree(value=2), ("a",), 5, 1.5]


# case: K-TOOL-01
@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"direction": "up", "distance": 1}, '\'direction\': expected one of "left", "right"'),
        ({"direction": "left", "distance": "far"}, "'distance': expected number"),
        ({"direction": "left", "distance": "inf"}, "'distance': expected number"),
        ({"direction": "left"}, "'distance' is missing: expected number"),
        ({"direction": "left", "distance": None}, "'distance': expected number"),
        ({"direction": "left", "distance": 1, "speed": 2}, "'speed' is not an argument; the arguments are: direction, distance"),
        ({"direction": "left", "distance": 1, "point": {"x": "q"}}, "point.x: input should be a valid integer"),
        ({}, "'direction' is missing: expected one of \"left\", \"right\"; 'distance' is missing"),
    ],
)
async def test_arguments_that_do_not_fit_are_explained_to_the_model(args: dict[str, Any], words: str) -> None:
    ran: list[str] = []

    def go(direction: Literal["left", "right"], distance: float, point: Point | None = None) -> None:
        ran.append(direction)

    with pytest.raises(ToolError) as caught:
        await _run(go, args)
    assert words in str(caught.value)
    assert not ran


async def test_the_words_do_not_repeat_what_the_model_sent() -> None:
    def go(distance: float) -> None: ...

    with pytest.raises(ToolError) as caught:
        await _run(go, {"distance": "my secret"})
    assert "secret" not in str(caught.value)


async def test_null_for_an_optional_argument_means_left_out() -> None:
    def turn(angle: float = 90.0, note: str | None = "none") -> list[Any]:
        return [angle, note]

    assert await _run(turn, {"angle": None, "note": None}) == [90.0, None]


async def test_the_context_is_passed_and_not_declared() -> None:
    def by_name(ctx: Any, x: int) -> Any:
        return ctx, x

    def untyped(x: int, tool_context=None) -> Any:  # type: ignore[no-untyped-def]
        return tool_context, x

    def by_type(where: ToolCallContext, x: int) -> Any:
        return where, x

    def hidden_type(where: ToolContext | None, x: int) -> Any:
        return where, x

    for function in (by_name, untyped, by_type, hidden_type):
        made = _tool(function)
        assert list(parameters_schema(made.declaration)["properties"]) == ["x"]
        context = FakeContext()
        assert await made.run({"x": 1}, context) == (context, 1)
        with pytest.raises(ToolError, match="not an argument"):
            await made.run({"x": 1, "where": 2, "ctx": 3, "tool_context": 4}, context)


async def test_an_argument_named_context_that_is_plain_data_is_an_argument() -> None:
    def explain(context: str, ctx: list[str]) -> str:
        return context + ctx[0]

    assert await _run(explain, {"context": "a", "ctx": ["b"]}) == "ab"


async def test_async_functions_run_on_the_loop_and_others_in_a_thread() -> None:
    async def on_loop() -> int:
        return threading.get_ident()

    def in_thread() -> int:
        return threading.get_ident()

    def makes_awaitable() -> Awaitable[int]:
        return on_loop()

    me = threading.get_ident()
    assert await _run(on_loop, {}) == me
    assert await _run(in_thread, {}) != me
    assert await _run(makes_awaitable, {}) == me


async def test_methods_can_be_tools() -> None:
    class Robot:
        def __init__(self) -> None:
            self.position = 0

        def step(self, by: int) -> int:
            """Step forward."""
            self.position += by
            return self.position

    robot = Robot()
    assert await _run(robot.step, {"by": 2}) == 2
    assert robot.position == 2


@pytest.mark.virtual_time
async def test_a_hanging_async_tool_times_out() -> None:
    async def hang() -> None:
        await asyncio.sleep(3600)

    start = asyncio.get_running_loop().time()
    with pytest.raises(ToolError, match=r"timeout: 'hang' did not finish within 30 seconds"):
        await _run(hang, {})
    assert asyncio.get_running_loop().time() - start == pytest.approx(30)


async def test_a_tools_own_timeout_error_is_not_mistaken_for_the_limit() -> None:
    async def gives_up() -> None:
        raise TimeoutError("upstream")

    with pytest.raises(TimeoutError, match="upstream"):
        await _run(gives_up, {})


async def test_a_hanging_thread_is_left_behind_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = ToolThreads(limit=1)
    monkeypatch.setattr(function_module, "TOOL_THREADS", threads)
    go, ended = threading.Event(), threading.Event()
    started: list[str] = []

    def block(name: str) -> None:
        started.append(name)
        go.wait(10)
        ended.set()

    with pytest.raises(ToolError, match="did not finish within"):
        await _run(block, {"name": "first"}, timeout_s=0.5)
    assert (threads.running, threads.leaked) == (1, 1)
    with pytest.raises(ToolError, match="was not started within"):
        await _run(block, {"name": "second"}, timeout_s=0.05)
    assert (threads.running, threads.leaked) == (1, 1)
    go.set()
    assert ended.wait(5)
    assert await _run(lambda_free_answer, {}) == 42
    assert threads.leaked == 0
    assert started == ["first"]  # who gave up in the line was never started


def lambda_free_answer() -> int:
    return 42


@pytest.mark.parametrize("raised", [StopIteration("x"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
async def test_what_a_thread_raises_only_fails_the_call(raised: BaseException) -> None:
    def bad() -> None:
        raise raised

    with pytest.raises(ToolError, match=type(raised).__name__):
        await _run(bad, {})


async def test_a_tools_own_error_comes_out() -> None:
    def bad() -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await _run(bad, {})


async def test_no_more_threads_than_the_limit_and_everybody_gets_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = ToolThreads(limit=4)
    monkeypatch.setattr(function_module, "TOOL_THREADS", threads)
    lock = threading.Lock()
    running, most = 0, 0

    def work() -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.002)
        with lock:
            running -= 1
        return threading.get_ident()

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_run(work, {})) for _ in range(40)]
    assert len([task.result() for task in tasks]) == 40
    assert most <= 4


async def test_the_decorator_makes_a_tool_that_is_still_the_function() -> None:
    @tool
    def plain(x: int) -> int:
        """Plain."""
        return x + 1

    @tool(effect="read", name="other", timeout_s=5, description="Another.")
    def with_options(x: int) -> int:
        return x + 2

    assert (plain.name, plain.effect, plain(1)) == ("plain", "write", 2)
    assert (with_options.name, with_options.effect, with_options.timeout_s) == ("other", "read", 5)
    assert with_options.declaration.description == "Another."
    assert await with_options.run({"x": 1}, FakeContext()) == 3


def test_openapi_parameters_are_read_too() -> None:
    declaration = FunctionDeclaration.model_validate(
        {
            "name": "move",
            "parameters": {
                "type": "OBJECT",
                "properties": {
                    "direction": {"type": "STRING", "enum": ["left"], "description": "where"},
                    "tags": {"type": "ARRAY", "items": {"type": "STRING"}, "nullable": True},
                },
                "required": ["direction"],
            },
        }
    )
    assert parameters_schema(declaration) == {
        "type": "object",
        "properties": {
            "direction": {"type": "string", "enum": ["left"], "description": "where"},
            "tags": {"type": ["array", "null"], "items": {"type": "string"}},
        },
        "required": ["direction"],
    }


def test_a_read_schema_may_be_changed() -> None:
    declaration = _tool(google_style).declaration
    parameters_schema(declaration)["properties"].clear()
    assert parameters_schema(declaration)["properties"]
