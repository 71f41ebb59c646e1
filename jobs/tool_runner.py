"""Tools as a turn needs them: calls go out together, outcomes come back as they end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..storage.records import CallId, CallStatus, ContactId, ConversationId, ToolCall, TurnId
from .chat_model import ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOrigin:
    """Where calls come from; what a tool may learn of it."""

    agent: str
    conversation_id: ConversationId
    contact: ContactId | None
    turn_id: TurnId


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutcome:
    """How a call ended."""

    call_id: CallId
    status: CallStatus
    content: str
    """The result's text, or what went wrong."""
    sessions_opened: tuple[str, ...] = ()
    """Ids of browser sessions that the tool reported as opened, and below as closed."""
    sessions_closed: tuple[str, ...] = ()


class ToolRunner(Protocol):
    """Runs tools outside the turn's process, each call at most once: it never retries by itself."""

    def run(self, calls: Sequence[tuple[ToolCall, ToolSpec]], origin: CallOrigin) -> Iterator[Sequence[ToolOutcome]]:
        """Start all calls side by side; give the outcomes in the order they end, together where they end together.

        Every call gets exactly one outcome: a tool that raises, hangs beyond its timeout, kills its process or
        cannot be found ends with a status that says so.
        """
        ...
