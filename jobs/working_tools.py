"""The tools by which a model keeps its conversation's working notes and ongoing task.

They change the working state and nothing else, so the change and the call's result share one commit: such a
call is never half done, and one without a result did not happen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..storage.errors import InvalidInputError
from ..storage.records import ToolCall, WorkingState
from ..storage.text import clean_text
from .chat_model import ToolSpec
from .tool_runner import ToolOutcome

NOTES_MODES = ("replace", "append", "clear")
MAX_NOTES_CHARS = 100_000


def set_context(state: WorkingState, notes: object, mode: str = "replace") -> WorkingState:
    """The working state with notes replaced, extended by a line, or cleared.

    Raises:
        InvalidInputError: Unknown mode, or notes too long.
    """
    if mode not in NOTES_MODES:
        raise InvalidInputError("mode", f"{mode!r} is unknown", f"use one of {', '.join(NOTES_MODES)}")
    if not isinstance(notes, str):
        raise InvalidInputError("notes", f"a {type(notes).__name__} was given", "give a text")
    if mode == "clear":
        text = ""
    elif mode == "append" and state.notes:
        text = f"{state.notes}\n{clean_text(notes)}"
    else:
        text = clean_text(notes)
    if len(text) > MAX_NOTES_CHARS:
        raise InvalidInputError(
            "notes",
            f"{len(text):,} characters in all",
            f"keep them below {MAX_NOTES_CHARS:,}; replace instead of append",
        )
    return replace(state, notes=text)


def set_ongoing_task(state: WorkingState, task: object) -> WorkingState:
    """The working state with this ongoing task.

    Raises:
        InvalidInputError: Blank, or too long.
    """
    if not isinstance(task, str) or not task.strip():
        raise InvalidInputError("task", "it is blank or no text", "describe the task, or clear it")
    if len(task) > MAX_NOTES_CHARS:
        raise InvalidInputError("task", f"{len(task):,} characters", f"keep it below {MAX_NOTES_CHARS:,}")
    return replace(state, ongoing_task=clean_text(task))


def clear_ongoing_task(state: WorkingState) -> WorkingState:
    """The working state without an ongoing task."""
    return replace(state, ongoing_task=None)


def _schema(properties: Mapping[str, Mapping[str, Any]], required: tuple[str, ...] = ()) -> Mapping[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


WORKING_TOOLS: Mapping[str, ToolSpec] = {
    spec.name: spec
    for spec in (
        ToolSpec(
            name="set_context",
            description="Keep working notes for yourself in this conversation; you see them at every turn.",
            parameters=_schema(
                {
                    "notes": {"type": "string", "description": "The notes; may be empty with mode=clear."},
                    "mode": {"type": "string", "enum": list(NOTES_MODES), "default": "replace"},
                },
                ("notes",),
            ),
            idempotent=True,
        ),
        ToolSpec(
            name="set_ongoing_task",
            description="Note the task that this conversation is working on, until it is cleared.",
            parameters=_schema({"task": {"type": "string"}}, ("task",)),
            idempotent=True,
        ),
        ToolSpec(
            name="get_ongoing_task",
            description="The task that this conversation is working on.",
            parameters=_schema({}),
            idempotent=True,
        ),
        ToolSpec(
            name="clear_ongoing_task",
            description="The ongoing task is done or dropped.",
            parameters=_schema({}),
            idempotent=True,
        ),
    )
}
"""The tools by name, as they are offered to every model."""


def run_working_tool(call: ToolCall, state: WorkingState) -> tuple[ToolOutcome, WorkingState]:
    """The outcome of a call of one of these tools, and the working state it leaves."""
    try:
        arguments = json.loads(call.arguments or "{}")
        if not isinstance(arguments, dict):
            raise InvalidInputError("arguments", f"a {type(arguments).__name__} was given", "give a JSON object")
        changed, content = _ACTIONS[call.name](state, arguments)
    except (ValueError, TypeError, KeyError) as error:
        reason = f"missing argument {error}" if isinstance(error, KeyError) else str(error)
        return ToolOutcome(call_id=call.call_id, status="failed", content=reason), state
    return ToolOutcome(call_id=call.call_id, status="succeeded", content=content), changed


def _set_context(state: WorkingState, arguments: Mapping[str, Any]) -> tuple[WorkingState, str]:
    mode = arguments.get("mode", "replace")
    changed = set_context(state, arguments.get("notes", "") if mode == "clear" else arguments["notes"], mode)
    return changed, f"Notes saved ({len(changed.notes)} characters)." if changed.notes else "Notes cleared."


def _set_ongoing_task(state: WorkingState, arguments: Mapping[str, Any]) -> tuple[WorkingState, str]:
    return set_ongoing_task(state, arguments["task"]), "Ongoing task set."


def _get_ongoing_task(state: WorkingState, _: Mapping[str, Any]) -> tuple[WorkingState, str]:
    return state, state.ongoing_task or "There is no ongoing task."


def _clear_ongoing_task(state: WorkingState, _: Mapping[str, Any]) -> tuple[WorkingState, str]:
    return clear_ongoing_task(state), "Ongoing task cleared."


_ACTIONS: Mapping[str, Callable[[WorkingState, Mapping[str, Any]], tuple[WorkingState, str]]] = {
    "set_context": _set_context,
    "set_ongoing_task": _set_ongoing_task,
    "get_ongoing_task": _get_ongoing_task,
    "clear_ongoing_task": _clear_ongoing_task,
}
