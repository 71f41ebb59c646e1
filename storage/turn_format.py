"""How checkpoints and the ends of turns stand in the file: JSON with a version, read back strictly."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, cast, get_args

from .database import from_stored, to_stored
from .records import (
    CallId,
    CallStatus,
    CallSummary,
    Message,
    Reply,
    ToolCall,
    ToolResult,
    Turn,
    TurnId,
    TurnOwner,
    TurnState,
    Usage,
)

VERSION = 1


class UnreadableStepError(ValueError):
    """A stored step is damaged or of a version that this code does not know."""


def dump_calls(text: str, calls: tuple[ToolCall, ...], usage: Usage) -> str:
    """A round's assistant message and what it cost, as its checkpoint step."""
    return _dump({"v": VERSION, "text": text, "calls": [_call(call) for call in calls], "usage": _usage(usage)})


def load_calls(body: str) -> tuple[str, tuple[ToolCall, ...], Usage]:
    """Text, calls and usage of a round's first step.

    Raises:
        UnreadableStepError: Damaged, or of another version.
    """
    data = _load(body)
    with _garbled("calls"):
        return _text(data["text"]), tuple(_to_call(call) for call in data["calls"]), _to_usage(data["usage"])


def dump_results(results: tuple[ToolResult, ...]) -> str:
    """Results that came in together, as a checkpoint step."""
    return _dump({"v": VERSION, "results": [_result(result) for result in results]})


def load_results(body: str) -> tuple[ToolResult, ...]:
    """The results of a step.

    Raises:
        UnreadableStepError: Damaged, or of another version.
    """
    data = _load(body)
    with _garbled("results"):
        return tuple(_to_result(entry) for entry in data["results"])


def dump_attempts(begun: int, ended: int) -> str:
    """How many attempts have begun and ended, as a checkpoint step."""
    return _dump({"v": VERSION, "begun": begun, "ended": ended})


def load_attempts(body: str) -> tuple[int, int]:
    """How many attempts had begun and ended with a step.

    Raises:
        UnreadableStepError: Damaged, or of another version.
    """
    data = _load(body)
    with _garbled("attempts"):
        return _count(data["begun"]), _count(data["ended"])


def dump_tool(message: Message) -> str | None:
    """The calls that a message makes, or the call that it answers; None where it has to do with none."""
    if message.tool_calls:
        return _dump({"v": VERSION, "calls": [_call(call) for call in message.tool_calls]})
    if message.call_id is None and message.tool_name is None and message.status is None:
        return None
    return _dump({"v": VERSION, "id": message.call_id, "name": message.tool_name, "status": message.status})


def load_tool(body: str | None) -> tuple[tuple[ToolCall, ...], CallId | None, str | None, CallStatus | None]:
    """The calls that a stored message makes; id, tool and status of the call that it answers.

    Raises:
        UnreadableStepError: Damaged, or of another version.
    """
    if body is None:
        return (), None, None, None
    data = _load(body)
    with _garbled("tool calls"):
        if "calls" in data:
            return tuple(_to_call(call) for call in data["calls"]), None, None, None
        call_id, name, status = data["id"], data["name"], data["status"]
        return (
            (),
            CallId(_text(call_id)) if call_id is not None else None,
            _text(name) if name is not None else None,
            _status(status) if status is not None else None,
        )


def dump_opening(turn: Turn) -> str:
    """How a turn was opened: what its user message does not say."""
    at = to_stored(turn.opened_at).isoformat()
    return _dump({"v": VERSION, "owner": turn.owner, "digest": turn.text_digest, "at": at})


def load_opening(body: str) -> tuple[TurnOwner, str, datetime]:
    """Owner, digest of the text and time of a turn's opening.

    Raises:
        UnreadableStepError: Damaged, or of another version.
    """
    data = _load(body)
    with _garbled("opening"):
        return _owner(data["owner"]), _text(data["digest"]), from_stored(datetime.fromisoformat(data["at"]))


def dump_end(turn: Turn) -> str:
    """How a turn ended: all of its record that its opening does not say."""
    if turn.ended_at is None:
        raise ValueError(f"turn {turn.turn_id!r} has not ended")
    return _dump(
        {
            "v": VERSION,
            "state": turn.state,
            "at": to_stored(turn.ended_at).isoformat(),
            "attempted": to_stored(turn.attempted_at).isoformat(),
            "begun": turn.attempts_begun,
            "ended": turn.attempts_ended,
            "reply": _reply(turn.reply) if turn.reply else None,
            "error": turn.error,
            "absorbed_by": turn.absorbed_by,
        }
    )


def load_end(opened: Turn, body: str) -> Turn:
    """The turn as it ended.

    Raises:
        UnreadableStepError: Damaged, or of another version.
    """
    data = _load(body)
    with _garbled("end"):
        return replace(
            opened,
            state=_state(data["state"]),
            ended_at=from_stored(datetime.fromisoformat(data["at"])),
            attempted_at=from_stored(datetime.fromisoformat(data["attempted"])),
            attempts_begun=_count(data["begun"]),
            attempts_ended=_count(data["ended"]),
            reply=_to_reply(data["reply"]) if data["reply"] is not None else None,
            error=_text(data["error"]) if data["error"] is not None else None,
            absorbed_by=TurnId(_text(data["absorbed_by"])) if data["absorbed_by"] is not None else None,
        )


@contextmanager
def _garbled(what: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableStepError(f"{what} garbled: {type(error).__name__}: {error}") from error


def _dump(data: Mapping[str, object]) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _load(body: str) -> dict[str, Any]:
    try:
        data = json.loads(body)
    except ValueError as error:
        raise UnreadableStepError(f"damaged JSON: {error}") from error
    if not isinstance(data, dict):
        raise UnreadableStepError(f"an object was expected, {type(data).__name__} found")
    if data.get("v") != VERSION:
        raise UnreadableStepError(f"format version {data.get('v')!r}, this code reads {VERSION}")
    return data


def _usage(usage: Usage) -> list[int | bool]:
    return [usage.prompt_tokens, usage.completion_tokens, usage.model_calls, usage.is_estimated]


def _to_usage(data: list[int]) -> Usage:
    prompt_tokens, completion_tokens, model_calls, is_estimated = data
    return Usage(
        prompt_tokens=int(prompt_tokens),
        completion_tokens=int(completion_tokens),
        model_calls=int(model_calls),
        is_estimated=bool(is_estimated),
    )


def _call(call: ToolCall) -> dict[str, str]:
    return {"id": call.call_id, "name": call.name, "arguments": call.arguments}


def _to_call(data: Mapping[str, Any]) -> ToolCall:
    return ToolCall(call_id=CallId(_text(data["id"])), name=_text(data["name"]), arguments=_text(data["arguments"]))


def _result(result: ToolResult) -> dict[str, object]:
    entry: dict[str, object] = {
        "id": result.call_id,
        "status": result.status,
        "preview": result.preview,
        "at": result.finished_at.isoformat(),
    }
    if result.sessions_opened:
        entry["opened"] = list(result.sessions_opened)
    if result.sessions_closed:
        entry["closed"] = list(result.sessions_closed)
    return entry


def _to_result(entry: Mapping[str, Any]) -> ToolResult:
    return ToolResult(
        call_id=CallId(_text(entry["id"])),
        status=_status(entry["status"]),
        preview=_text(entry["preview"]),
        sessions_opened=tuple(map(_text, entry.get("opened", ()))),
        sessions_closed=tuple(map(_text, entry.get("closed", ()))),
        finished_at=datetime.fromisoformat(entry["at"]),
    )


def _reply(reply: Reply) -> dict[str, object]:
    return {
        "turn": reply.turn_id,
        "text": reply.text,
        "calls": [
            {"id": call.call_id, "name": call.name, "arguments": call.arguments, "status": call.status}
            for call in reply.tool_calls
        ],
        "usage": _usage(reply.usage),
        "resumed": reply.resumed,
    }


def _to_reply(data: Mapping[str, Any]) -> Reply:
    return Reply(
        turn_id=TurnId(_text(data["turn"])),
        text=_text(data["text"]),
        tool_calls=tuple(
            CallSummary(
                call_id=CallId(_text(call["id"])),
                name=_text(call["name"]),
                arguments=_text(call["arguments"]),
                status=_status(call["status"]),
            )
            for call in data["calls"]
        ),
        usage=_to_usage(data["usage"]),
        resumed=bool(data["resumed"]),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"text expected, {type(value).__name__} found")
    return value


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"a count expected, {value!r} found")
    return value


def _status(text: str) -> CallStatus:
    if text not in get_args(CallStatus):
        raise ValueError(f"call status {text!r}")
    return cast(CallStatus, text)


def _owner(text: str) -> TurnOwner:
    if text not in get_args(TurnOwner):
        raise ValueError(f"turn owner {text!r}")
    return cast(TurnOwner, text)


def _state(text: str) -> TurnState:
    if text not in get_args(TurnState) or text == "open":
        raise ValueError(f"state {text!r} of an ended turn")
    return cast(TurnState, text)
