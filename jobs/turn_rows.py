"""The message rows that a turn leaves in the history when it ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from ..storage.records import CallSummary, Message, MessageId, ToolResult, ToolRound, TurnId
from ..storage.tokens import estimate_message_tokens
from .passages import UNKNOWN_RESULT
from .turn_store import TurnStore

TURN_MESSAGE = "turn:"
"""How the ids of turns' own messages begin; no other message's id does."""


def turn_message_id(turn_id: TurnId, which: str) -> MessageId:
    """The id of one of a turn's messages: `user`, `reply`, a round by its number, a result by round and call."""
    return MessageId(f"{TURN_MESSAGE}{which}:{turn_id}")


def unknown_results(tool_round: ToolRound, at: datetime) -> tuple[ToolResult, ...]:
    """Results that close calls of which nobody can tell whether they happened."""
    return tuple(
        ToolResult(call_id=call.call_id, status="unknown", preview=UNKNOWN_RESULT, finished_at=at)
        for call in tool_round.unfinished
    )


def closed(tool_round: ToolRound, at: datetime) -> ToolRound:
    """The round with every call answered."""
    return replace(tool_round, results=tool_round.results + unknown_results(tool_round, at))


def round_rows(turn_id: TurnId, rounds: Sequence[ToolRound]) -> Iterator[Message]:
    """Tool rounds as messages: each assistant message, then a tool message a call, in the order of the calls."""
    for number, tool_round in enumerate(rounds):
        yield Message(
            message_id=turn_message_id(turn_id, str(number)),
            role="assistant",
            content=tool_round.text,
            tool_calls=tool_round.calls,
            turn_id=turn_id,
            tokens=estimate_message_tokens(tool_round.text, tool_round.calls),
            created_at=tool_round.asked_at,
        )
        for place, call in enumerate(tool_round.calls):
            result = tool_round.result(call.call_id)
            if result is None:
                raise ValueError(f"call {call.call_id!r} of turn {turn_id!r} has no result")
            yield Message(
                message_id=turn_message_id(turn_id, f"{number}.{place}"),
                role="tool",
                content=result.preview,
                call_id=call.call_id,
                tool_name=call.name,
                status=result.status,
                turn_id=turn_id,
                tokens=estimate_message_tokens(result.preview),
                created_at=result.finished_at,
            )


def reply_row(turn_id: TurnId, text: str, at: datetime) -> Message:
    """The turn's last assistant message."""
    return Message(
        message_id=turn_message_id(turn_id, "reply"),
        role="assistant",
        content=text,
        turn_id=turn_id,
        tokens=estimate_message_tokens(text),
        created_at=at,
    )


def interrupted_rows(store: TurnStore, turn_id: TurnId, at: datetime) -> Sequence[Message]:
    """What an open turn has done so far as messages, for its end without a reply; open calls end as unknown."""
    rounds = store.readable_checkpoint(turn_id).rounds
    return list(round_rows(turn_id, [closed(tool_round, at) for tool_round in rounds]))


def call_summaries(rounds: Sequence[ToolRound]) -> tuple[CallSummary, ...]:
    """The calls of a turn's rounds, for its reply."""
    return tuple(
        CallSummary(call_id=call.call_id, name=call.name, arguments=call.arguments, status=result.status)
        for tool_round in rounds
        for call in tool_round.calls
        if (result := tool_round.result(call.call_id)) is not None
    )
