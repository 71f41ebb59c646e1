"""What the indexes are told of a message: it is found by who said it, when, and what it answers.

Measured on LoCoMo (1,536 questions, share of the evidence among ten hits): by words, the message alone 0.507; with
its speaker 0.608, the date 0.633, the message before 0.705, the one before that 0.717. By vector, speaker and message
0.579, with the date 0.562, with the message before as well 0.513. Both fused: 0.737.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..storage.index_records import SourceId, TextRow, VectorRow
from ..storage.memory_keys import joined
from ..storage.records import ConversationIdentity, StoredMessage
from .embedder import Vectors
from .recalled_messages import SaidMessage, is_spoken

BEFORE = 2
"""Messages before one that tell what it is about: an answer seldom names what was asked."""
BEFORE_CHARS = 1000
"""Of each of them, the end."""
REVISION = 1
"""Raised when what is indexed of a message changes. Messages themselves never do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedMessage:
    """A message of a conversation with what was said before it."""

    conversation: ConversationIdentity
    message: StoredMessage
    before: tuple[StoredMessage, ...]
    """At most two, oldest first."""

    @property
    def vector_text(self) -> str:
        """What is embedded: speaker and message. With the date, or what was said before, its vector finds less."""
        return f"{self.message.speaker or self.message.role}: {self.message.content}"

    @property
    def keyword_text(self) -> str:
        """What is looked through for words: date, speaker, the message, and what was said before it."""
        before = [message.content[-BEFORE_CHARS:] for message in reversed(self.before)]
        said_at = self.message.created_at
        return "\n".join([f"{said_at.day} {said_at:%B %Y}", self.vector_text, *before])

    @property
    def text_row(self) -> TextRow:
        """The row of the keyword index."""
        payload = SaidMessage.of(self.conversation, self.message).to_json()
        return TextRow(text=self.keyword_text, payload=payload, **self._about())

    def vector_row(self, vectors: Vectors) -> VectorRow:
        """The row of the vector index."""
        return VectorRow(vectors=vectors, **self._about())

    def _about(self) -> dict[str, Any]:
        conversation, message = self.conversation, self.message
        parts = ("msg", conversation.agent, conversation.conversation_id, message.message_id)
        return {
            "source": SourceId(joined(parts)),
            "agent": conversation.agent,
            "contact": conversation.contact,
            "conversation": conversation.conversation_id,
            "role": message.role,
            "created_at": message.created_at,
            "revision": REVISION,
        }


def indexed_messages(
    conversation: ConversationIdentity, messages: Sequence[StoredMessage], before: Sequence[StoredMessage]
) -> Iterator[IndexedMessage]:
    """Those of the messages that are indexed.

    Args:
        before: What stands before the first of them, oldest first.
    """
    said = [message for message in before if is_spoken(message)][-BEFORE:]
    for message in messages:
        if is_spoken(message):
            yield IndexedMessage(conversation=conversation, message=message, before=tuple(said))
            said = [*said, message][-BEFORE:]
