"""What a turn tells while it runs."""

from __future__ import annotations

from dataclasses import dataclass

from ..storage.records import CallStatus, Reply, ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPiece:
    """A piece of the turn's text, in its place."""

    attempt: int
    """Counted from 1; a turn that is continued after a crash starts another."""
    offset: int
    """Where in the attempt's text it stands, in characters."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted:
    """A call is committed and starts now."""

    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFinished:
    """A call has ended and its result is committed."""

    call: ToolCall
    status: CallStatus
    preview: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFinished:
    """The turn is stored; the last event of every turn that ends well."""

    reply: Reply


TurnEvent = TextPiece | ToolStarted | ToolFinished | TurnFinished
