"""Messages that were recalled, as records: each can be shown without its conversation, which may be dormant."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from ..storage.records import ContactId, ConversationId, ConversationIdentity, MessageId, Role, StoredMessage
from ..storage.text import cut_text
from .recalled import Channel, ChannelRank

MAX_SHOWN_CHARS = 1000
"""A longer message is cut in a tool's result."""
WAYS: Mapping[Channel, str] = {"vector": "meaning", "keyword": "words"}
SPOKEN: frozenset[Role] = frozenset({"user", "assistant"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidMessage:
    """A message as it was said, and where."""

    conversation_id: ConversationId
    contact: ContactId | None
    message_id: MessageId
    seq: int
    """Its place in its conversation."""
    role: Role
    speaker: str | None
    created_at: datetime
    """When it was said, UTC."""
    text: str

    @classmethod
    def of(cls, conversation: ConversationIdentity, message: StoredMessage) -> SaidMessage:
        """A message of a conversation."""
        return cls(
            conversation_id=conversation.conversation_id,
            contact=conversation.contact,
            message_id=message.message_id,
            seq=message.seq,
            role=message.role,
            speaker=message.speaker,
            created_at=message.created_at,
            text=message.content,
        )

    @classmethod
    def from_json(cls, text: str) -> SaidMessage:
        """Read back what `to_json` wrote."""
        fields = json.loads(text)
        return cls(**{**fields, "created_at": datetime.fromisoformat(fields["created_at"])})

    def to_json(self) -> str:
        """As it is kept beside the index."""
        return json.dumps(
            {
                "conversation_id": self.conversation_id,
                "contact": self.contact,
                "message_id": self.message_id,
                "seq": self.seq,
                "role": self.role,
                "speaker": self.speaker,
                "created_at": self.created_at.isoformat(),
                "text": self.text,
            },
            ensure_ascii=False,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageHit:
    """A recalled message, and why it was."""

    message: SaidMessage
    score: float
    """The fused score; of hits of one answer only, higher is better."""
    ranks: tuple[ChannelRank, ...]
    """The channels that found it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledMessages:
    """What a query recalled."""

    hits: tuple[MessageHit, ...] = ()
    """Best first."""
    unanswered: Mapping[Channel, str] = field(default_factory=dict)
    """The channels that could not answer, each with its reason; the other one stands in."""
    not_yet_indexed: int = 0
    """Messages of the asking conversation that could not be looked at yet."""


def is_spoken(message: StoredMessage) -> bool:
    """Is there something that somebody said? Tool results, and calls without a word, are not."""
    return message.role in SPOKEN and bool(message.content.strip())


def messages_shown(recalled: RecalledMessages) -> str:
    """What was recalled as a tool's result shows it: a line each, the best first."""
    lines = [_line(hit) for hit in recalled.hits] or ["Nothing was found."]
    lines += [f"(Not searched by {WAYS[channel]}: {reason}.)" for channel, reason in recalled.unanswered.items()]
    return "\n".join(lines)


def _line(hit: MessageHit) -> str:
    message = hit.message
    text = cut_text(message.text, MAX_SHOWN_CHARS)
    said_by = message.role if message.speaker is None else f"{message.speaker} ({message.role})"
    where = f"conversation {message.conversation_id}"
    line = f"[{message.created_at:%Y-%m-%d %H:%M}; {where}; score {hit.score:.4f}] {said_by}: {text}"
    return " ".join(line.split())  # no text can look like another hit
