"""`@tool`: a Python function as a tool that a model may call."""

from __future__ import annotations

import functools
import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any, Generic, ParamSpec, TypeVar, overload

from ..jobs.working_tools import WORKING_TOOLS
from ..storage.agent_options import ToolRecord
from ..storage.errors import InvalidInputError
from .tool_schema import schema_of, summary_of

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Tool(Generic[Arguments, Result]):
    """A function that is offered to models. Calling it runs the function, here and now."""

    def __init__(
        self,
        function: Callable[Arguments, Result],
        *,
        name: str | None = None,
        description: str | None = None,
        idempotent: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.record = ToolRecord(
            name=_checked_name(name or _name_of(function)),
            description=description or summary_of(function),
            parameters=schema_of(function),
            idempotent=idempotent,
            timeout_s=_checked_timeout(timeout_s),
            reference=_reference(function),
            search_path=_search_path(function),
        )

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        """What the function returns."""
        return self.function(*args, **kwargs)

    @property
    def code(self) -> bytes | None:
        """The pickled function, where it has no importable place; None where it is recorded by its place."""
        if self.record.reference is not None:
            return None
        from ray import cloudpickle

        pickle: Any = cloudpickle
        try:
            return bytes(pickle.dumps(_with_types(self.function)))
        except Exception as error:  # whatever the function's closure holds decides what is raised
            raise InvalidInputError(
                f"tools[{self.record.name}]",
                f"the function cannot be sent to another process ({error})",
                "move it to a module, or keep open files, locks and connections out of its closure",
            ) from error


@overload
def tool(function: Callable[Arguments, Result], /) -> Tool[Arguments, Result]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    timeout_s: float | None = None,
) -> Callable[[Callable[Arguments, Result]], Tool[Arguments, Result]]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a tool of a function: its schema comes from signature and docstring.

    Args:
        function: Any function, `async` ones too. Annotated parameters are checked and converted before it runs.
            A parameter annotated `ToolContext` receives the call's context and is not shown to the model.
        options: `name`, the model's name for it (the function's); `description` (the docstring's first part);
            `idempotent`, True when running it again does no harm: only then is a call repeated of which it is
            not known whether it happened; `timeout_s` after which it is killed (the setting's).

    Raises:
        InvalidInputError: A parameter has no JSON form, or an option cannot be used.
    """
    if function is None:
        return lambda decorated: Tool(decorated, **options)
    return Tool(function)


def as_tool(given: object) -> Tool[..., Any]:
    """A tool, or a plain function made one.

    Raises:
        InvalidInputError: It is neither.
    """
    if isinstance(given, Tool):
        return given
    if isinstance(given, FunctionType):
        return Tool(given)
    raise InvalidInputError("tools", f"a {type(given).__name__} is no tool", "give functions decorated with @tool")


def by_name(tools: tuple[Tool[..., Any], ...]) -> Mapping[str, Tool[..., Any]]:
    """The tools under their names.

    Raises:
        InvalidInputError: Two have the same name.
    """
    named: dict[str, Tool[..., Any]] = {}
    for entry in tools:
        if named.setdefault(entry.record.name, entry) is not entry:
            raise InvalidInputError("tools", f"two are called {entry.record.name!r}", "give one another name=")
    return named


def _with_types(function: Callable[..., Any]) -> Callable[..., Any]:
    """A copy whose annotations are types: as texts they would name globals that do not travel along."""
    plain = inspect.unwrap(function)
    if not isinstance(plain, FunctionType):
        return function
    copy = FunctionType(plain.__code__, plain.__globals__, plain.__name__, plain.__defaults__, plain.__closure__)
    functools.update_wrapper(copy, plain)
    del copy.__wrapped__  # type: ignore[attr-defined]
    copy.__kwdefaults__ = plain.__kwdefaults__
    copy.__annotations__ = typing.get_type_hints(plain, include_extras=True)
    return copy


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _checked_name(name: str) -> str:
    if not (0 < len(name) <= 64 and all(char.isascii() and (char.isalnum() or char in "_-") for char in name)):
        raise InvalidInputError(
            "name",
            f"{name!r} is no tool name",
            "use 1 to 64 of a-z, A-Z, 0-9, _ and -; give one with @tool(name=…)",
        )
    if name in WORKING_TOOLS:
        raise InvalidInputError("name", f"{name!r} is a tool that every conversation has", "choose another name")
    return name


def _checked_timeout(timeout_s: float | None) -> float | None:
    if timeout_s is not None and not 0 < timeout_s < float("inf"):
        raise InvalidInputError("timeout_s", f"{timeout_s!r} is no time limit", "give seconds above 0, or leave it out")
    return timeout_s


def _reference(function: Callable[..., Any]) -> str | None:
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if module in (None, "__main__") or "<" in name or not inspect.isfunction(inspect.unwrap(function)):
        return None
    loaded = sys.modules.get(module)
    if getattr(loaded, "__file__", None) is None:  # a notebook or an interactive session
        return None
    return f"{module}:{name}"


def _search_path(function: Callable[..., Any]) -> str | None:
    module = sys.modules.get(getattr(function, "__module__", ""))
    file = getattr(module, "__file__", None)
    if module is None or file is None or _reference(function) is None:
        return None
    parts = module.__name__.split(".")
    folder = Path(file).resolve().parent
    depth = len(parts) if Path(file).name == "__init__.py" else len(parts) - 1
    for _ in range(depth):
        folder = folder.parent
    return str(folder)
