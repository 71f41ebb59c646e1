"""A conversation's messages in groups: a message of somebody, or a tool round with its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...storage.records import StoredMessage, ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class RanCall:
    """A tool call of a round."""

    call: ToolCall
    result: StoredMessage | None
    """The tool message that answers it; None where it is not among the messages."""

    @property
    def status(self) -> str:
        """How it ended."""
        return (self.result.status if self.result else None) or "no result"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A message, with the calls it asked for."""

    message: StoredMessage
    calls: tuple[RanCall, ...] = ()


def entries(messages: Sequence[StoredMessage]) -> Sequence[Entry]:
    """The messages, results put to their calls; a result whose call is not among them stands by itself."""
    by_call = {(message.turn_id, message.call_id): message for message in messages if message.role == "tool"}
    found: list[Entry] = []
    taken: set[int] = set()
    for message in messages:
        if message.role != "tool":
            calls = tuple(
                RanCall(call=call, result=by_call.get((message.turn_id, call.call_id))) for call in message.tool_calls
            )
            taken.update(ran.result.seq for ran in calls if ran.result is not None)
            found.append(Entry(message=message, calls=calls))
        elif message.seq not in taken:
            found.append(Entry(message=message))
    return found
