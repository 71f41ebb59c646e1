"""How far consumers of a conversation's messages are, as records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from .records import MessageId

NOTHING_DELIVERED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxCursor:
    """How far one consumer is."""

    delivered_seq: int = NOTHING_DELIVERED
    """The place of the last message that it has taken, or that was parked."""
    attempts: int = 0
    """How often the next message has been tried in vain; a try whose process died counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedMessage:
    """A message that a consumer could not take; those behind it went on."""

    kind: str
    """The consumer's name."""
    seq: int
    message_id: MessageId
    attempts: int
    error: str
    parked_at: datetime
