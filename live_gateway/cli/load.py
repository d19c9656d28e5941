"""Find the agent that a command names: `package.module:attribute`, `path/to/file.py:attribute`, or either without the attribute."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from live_gateway.cli.problems import CommandError

if TYPE_CHECKING:
    from live_gateway.agents.llm import LlmAgent
    from live_gateway.agents.sequential import SequentialAgent

DEMO = "live_gateway.demo:agent"
DEFAULT_ATTRIBUTE = "agent"
_PACKAGE = str(Path(__file__).parent.parent)


def load_agent(reference: str) -> LlmAgent | SequentialAgent:
    """Import the module or file and take the agent out of it.

    Modules are looked for in the working directory too; a file finds the modules beside it. Raises `CommandError` with one sentence that
    says what is wrong and where.
    """
    target, attribute = split_reference(reference)
    module = _import_file(Path(target)) if target.endswith(".py") else _import_module(target)
    return _agent_in(module, attribute, target)


def split_reference(reference: str) -> tuple[str, str]:
    """Module or file, and attribute (`agent` where none is named). A drive letter's colon separates nothing."""
    target, colon, attribute = reference.rpartition(":")
    if not colon or reference.endswith(".py"):
        target, attribute = reference, DEFAULT_ATTRIBUTE
    if not target or not attribute.isidentifier():
        raise CommandError(f"{reference!r} names no agent: write module:attribute or path/to/file.py:attribute")
    return target, attribute


def _import_module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise CommandError(f"{name!r} is not the name of a module; a file ends in .py")
    _look_in(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise CommandError(f"there is no module {name!r}: neither installed nor in {Path.cwd()}") from None
        raise CommandError(_failure(name, error)) from None
    except (Exception, SystemExit) as error:  # the user's own code: whatever it raises is said in one sentence
        raise CommandError(_failure(name, error)) from None


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise CommandError(f"there is no file {str(path)!r}")
    path = path.resolve()
    name = f"agent_file_{path.stem}"  # not the bare stem: a file named json.py must not become everybody's json
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CommandError(f"{str(path)!r} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    _look_in(path.parent)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # the user's own code: whatever it raises is said in one sentence
        del sys.modules[name]
        raise CommandError(_failure(path.name, error)) from None
    return module


def _look_in(directory: Path) -> None:
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))


def _agent_in(module: ModuleType, attribute: str, target: str) -> LlmAgent | SequentialAgent:
    from live_gateway.agents.llm import LlmAgent
    from live_gateway.agents.sequential import SequentialAgent

    if not hasattr(module, attribute):
        agents = sorted(name for name, value in vars(module).items() if isinstance(value, LlmAgent | SequentialAgent))
        hint = f"; it has the agent{'s' if len(agents) > 1 else ''} {' and '.join(agents)}" if agents else ""
        raise CommandError(f"{target} has no attribute {attribute!r}{hint}")
    found: Any = getattr(module, attribute)
    if not isinstance(found, LlmAgent | SequentialAgent):
        kind = f"the class {found.__name__}" if isinstance(found, type) else f"a value of type {type(found).__name__}"
        raise CommandError(f"{target}:{attribute} is {kind}, neither an LlmAgent nor a SequentialAgent")
    return found


def _failure(name: str, error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        place = f" (line {error.lineno})" if error.lineno else ""
        return f"{name} is not valid Python: {error.msg}{place}"
    return f"{name} cannot be imported: {type(error).__name__}: {error}{_place(error)}"


def _place(error: BaseException) -> str:
    """The line of the user's own code where it went wrong, the gateway's and the import machinery's left out."""
    trace, place = error.__traceback__, ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith((_PACKAGE, "<")) and "importlib" not in file:
            place = f" ({Path(file).name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return place
