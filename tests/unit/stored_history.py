"""A conversation's stored messages in memory, and short ways to make them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from perdure.storage.records import (
    CallId,
    CallStatus,
    MessageId,
    Overlay,
    Role,
    StoredMessage,
    ToolCall,
    ToolResult,
    ToolRound,
    TurnId,
)
from perdure.storage.tokens import estimate_message_tokens

BEGIN = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)


class StoredHistory:
    """Messages and overlays in lists; counts the rows that were asked for."""

    def __init__(self, messages: Sequence[StoredMessage] = (), overlays: Sequence[Overlay] = ()) -> None:
        self.messages = list(messages)
        self.ranges = list(overlays)
        self.pages: list[int] = []

    def head(self, count: int) -> Sequence[StoredMessage]:
        return self.messages[:count]

    def page_before(self, seq: int | None, count: int) -> Sequence[StoredMessage]:
        older = [message for message in self.messages if seq is None or message.seq < seq]
        page = older[-count:]
        self.pages.append(len(page))
        return page

    def overlays(self) -> Sequence[Overlay]:
        return self.ranges

    def message_count(self) -> int:
        return len(self.messages)


def message(
    seq: int,
    role: Role,
    content: str,
    *,
    calls: Iterable[ToolCall] = (),
    call_id: str | None = None,
    status: CallStatus | None = None,
    turn_id: str | None = "earlier",
    speaker: str | None = None,
) -> StoredMessage:
    calls = tuple(calls)
    return StoredMessage(
        seq=seq,
        message_id=MessageId(f"m{seq}"),
        role=role,
        content=content,
        speaker=speaker,
        tool_calls=calls,
        call_id=None if call_id is None else CallId(call_id),
        status=status,
        turn_id=None if turn_id is None else TurnId(turn_id),
        tokens=estimate_message_tokens(content, calls),
        created_at=BEGIN + timedelta(minutes=seq),
    )


def dialogue(texts: Iterable[str]) -> list[StoredMessage]:
    """User and assistant in turn."""
    return [message(seq, "assistant" if seq % 2 else "user", text) for seq, text in enumerate(texts)]


def of_tokens(tokens: int, word: str = "word ") -> str:
    """A text with which a message takes exactly so many tokens."""
    return (word * tokens)[: (tokens - 4) * 7 // 2]


def overlay(from_seq: int, to_seq: int, summary: str) -> Overlay:
    return Overlay(
        overlay_id=f"o{from_seq}",
        from_seq=from_seq,
        to_seq=to_seq,
        from_created_at=BEGIN + timedelta(minutes=from_seq),
        to_created_at=BEGIN + timedelta(minutes=to_seq),
        message_count=to_seq - from_seq + 1,
        summary=summary,
        tokens=estimate_message_tokens(summary),
        created_at=BEGIN + timedelta(days=1),
    )


def call(call_id: str, name: str = "search", **arguments: object) -> ToolCall:
    return ToolCall(call_id=CallId(call_id), name=name, arguments=json.dumps(arguments))


def result(
    call_id: str, preview: str, status: CallStatus = "succeeded", opened: Sequence[str] = (), closed: Sequence[str] = ()
) -> ToolResult:
    return ToolResult(
        call_id=CallId(call_id),
        status=status,
        preview=preview,
        sessions_opened=tuple(opened),
        sessions_closed=tuple(closed),
        finished_at=BEGIN,
    )


def tool_round(*results: tuple[str, str], text: str = "") -> ToolRound:
    """A round of succeeded calls, given as (call id, preview)."""
    return ToolRound(
        text=text,
        calls=tuple(call(call_id) for call_id, _ in results),
        results=tuple(result(call_id, preview) for call_id, preview in results),
        asked_at=BEGIN,
    )
