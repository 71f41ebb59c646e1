"""What happens in the worker process that runs one tool call."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..jobs.tool_runner import CallOrigin, ToolOutcome
from ..storage.agent_options import ToolRecord
from ..storage.errors import InvalidInputError, ToolUnavailableError
from ..storage.records import ToolCall
from ..storage.text import clean_text, cut_text
from .tool_context import ToolContext


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTask:
    """One call and all that its process needs."""

    call: ToolCall
    record: ToolRecord
    code: bytes | None
    """The pickled function, where the record has no reference."""
    origin: CallOrigin
    result_chars: int
    """Longer results are cut before they leave the process."""


def run_tool(task: ToolTask) -> ToolOutcome:
    """Run the call; whatever goes wrong becomes its outcome."""
    try:
        function = _function(task)
    except ToolUnavailableError as error:
        return ToolOutcome(call_id=task.call.call_id, status="unavailable", content=f"ToolUnavailableError: {error}")
    return run_function(function, task.call, task.origin, task.result_chars)


def run_function(function: Callable[..., Any], call: ToolCall, origin: CallOrigin, result_chars: int) -> ToolOutcome:
    """Run a tool's function with a call's arguments; whatever it raises becomes its outcome."""
    from .tool_schema import bind_arguments

    context = ToolContext(
        agent=origin.agent,
        conversation_id=origin.conversation_id,
        contact=origin.contact,
        turn_id=origin.turn_id,
        call_id=call.call_id,
    )
    try:
        arguments = bind_arguments(function, json.loads(call.arguments or "{}"), context)
        result = function(**arguments)
        if inspect.isawaitable(result):
            result = asyncio.run(_awaited(result))
        content, has_failed = _text_of(result), False
    except InvalidInputError as error:
        return ToolOutcome(call_id=call.call_id, status="failed", content=str(error))
    except (Exception, SystemExit, asyncio.CancelledError) as error:  # noqa: BLE001 - the edge: a tool may raise anything
        content, has_failed = _failure(error), True
    return ToolOutcome(
        call_id=call.call_id,
        status="failed" if has_failed else "succeeded",
        content=cut_text(clean_text(content), result_chars),
        sessions_opened=tuple(context._opened),
        sessions_closed=tuple(context._closed),
    )


async def _awaited(result: Any) -> object:
    return await result


def _function(task: ToolTask) -> Callable[..., Any]:
    """The tool's code.

    Raises:
        ToolUnavailableError: It is not to be had in this process.
    """
    name = task.record.name
    if task.code is not None:
        from ray import cloudpickle

        try:
            loaded = cloudpickle.loads(task.code)
        except Exception as error:  # unpickling imports modules, which may raise anything
            raise ToolUnavailableError(name, f"its code cannot be loaded here ({error})") from error
        return _unwrapped(name, loaded)
    if task.record.reference is None:
        raise ToolUnavailableError(
            name, "its code lives in the script or notebook that defined it, which is not part of this call"
        )
    module_name, _, path = task.record.reference.partition(":")
    if task.record.search_path and task.record.search_path not in sys.path and os.path.isdir(task.record.search_path):
        sys.path.append(task.record.search_path)
    try:
        found: Any = importlib.import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as error:  # importing a user's module may raise anything
        raise ToolUnavailableError(name, f"{task.record.reference} cannot be imported ({error})") from error
    return _unwrapped(name, found)


def _unwrapped(name: str, found: Any) -> Callable[..., Any]:
    from .tool_definition import Tool

    function = found.function if isinstance(found, Tool) else found
    if not callable(function):
        raise ToolUnavailableError(name, f"a {type(found).__name__} stands in its place")
    return function


def _text_of(result: object) -> str:
    if isinstance(result, str):
        return result
    if isinstance(result, bytes | bytearray | memoryview):
        return f"[{len(result):,} bytes of binary data]"
    try:
        return json.dumps(result, ensure_ascii=False, default=str)
    except (TypeError, ValueError):
        return repr(result)


def _failure(error: BaseException) -> str:
    """What the model is told: the error, and the last line of the tool that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" (line {frames[-1].lineno} of {os.path.basename(frames[-1].filename)})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"
