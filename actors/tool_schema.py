"""A function's parameters as a JSON schema, and a model's arguments as the function's."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, ValidationError, create_model
from pydantic.errors import PydanticSchemaGenerationError

from ..storage.errors import InvalidInputError
from .tool_context import ToolContext


def schema_of(function: Callable[..., Any]) -> Mapping[str, Any]:
    """JSON schema of an object with the function's parameters, described as its docstring does.

    Raises:
        InvalidInputError: A parameter cannot be given by name or has no JSON form.
    """
    schema = arguments_model(function).model_json_schema()
    schema.pop("title", None)
    for described in schema.get("properties", {}).values():
        described.pop("title", None)
    schema.setdefault("properties", {})
    return schema


def summary_of(function: Callable[..., Any]) -> str:
    """The docstring up to its sections."""
    text = inspect.getdoc(function) or ""
    return re.split(r"\n\s*(?:Args|Arguments|Parameters|Returns|Raises|Yields)\s*:?\s*\n", text, maxsplit=1)[0].strip()


def bind_arguments(
    function: Callable[..., Any], arguments: Mapping[str, Any], context: ToolContext
) -> Mapping[str, Any]:
    """Keyword arguments for the function: the model's, checked and converted, and the context where asked for.

    Raises:
        InvalidInputError: They do not fit; the message is meant for the model.
    """
    try:
        checked = arguments_model(function).model_validate(arguments)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in problem['loc']) or 'arguments'}: {problem['msg']}"
            for problem in error.errors(include_url=False)
        )
        raise InvalidInputError("arguments", problems, "call the tool again with arguments of its schema") from error
    bound = {name: getattr(checked, _field_name(name)) for name in arguments_names(function) if _given(checked, name)}
    for name, annotation in _annotations(function).items():
        if annotation is ToolContext:
            bound[name] = context
    return bound


def arguments_names(function: Callable[..., Any]) -> list[str]:
    """The parameters that a model gives."""
    return [name for name, annotation in _annotations(function).items() if annotation is not ToolContext]


def arguments_model(function: Callable[..., Any]) -> type[BaseModel]:
    """The parameters that a model gives, as a pydantic model."""
    described = _descriptions(function)
    fields: dict[str, Any] = {}
    for name, annotation in _annotations(function).items():
        if annotation is ToolContext:
            continue
        default = inspect.signature(function).parameters[name].default
        fields[_field_name(name)] = (
            annotation,
            Field(
                default=... if default is inspect.Parameter.empty else default,
                alias=name,
                description=described.get(name),
            ),
        )
    try:
        return create_model(
            getattr(function, "__name__", "tool"),
            __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=False, populate_by_name=False),
            **fields,
        )
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError) as error:
        raise InvalidInputError(
            f"{getattr(function, '__name__', 'tool')}()",
            f"a parameter has no JSON form ({str(error).splitlines()[0]})",
            "annotate its parameters with JSON types, dataclasses or pydantic models",
        ) from error


def _given(checked: BaseModel, name: str) -> bool:
    """Was it given? What was not is left to the function's own default."""
    return _field_name(name) in checked.model_fields_set


def _field_name(name: str) -> str:
    return f"argument_{name}"  # a parameter may be called like a method of pydantic's models


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise InvalidInputError(
            f"{getattr(function, '__name__', 'tool')}()",
            f"an annotation cannot be read ({error})",
            "import the type where the function's module can see it",
        ) from error
    annotations = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY or parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            raise InvalidInputError(
                name,
                "a parameter that is only positional cannot be called by name",
                "make it an ordinary parameter",
            )
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            raise InvalidInputError(name, "**keywords have no schema", "name the parameters")
        annotations[name] = hints.get(name, Any)
    return annotations


def _descriptions(function: Callable[..., Any]) -> Mapping[str, str]:
    """What a docstring in Google's style says of each parameter."""
    text = inspect.getdoc(function) or ""
    section = re.search(r"^(?:Args|Arguments|Parameters):\s*\n((?:[ \t]+.*\n?|\n)+)", text, re.MULTILINE)
    if section is None:
        return {}
    described: dict[str, str] = {}
    current, indent = None, None
    for line in section.group(1).splitlines():
        stripped = line.strip()
        if not stripped:
            continue
        depth = len(line) - len(line.lstrip())
        indent = depth if indent is None else indent
        entry = re.match(r"(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)", stripped) if depth == indent else None
        if entry:
            current = entry.group(1)
            described[current] = entry.group(2)
        elif current:
            described[current] = f"{described[current]} {stripped}".strip()
    return described
