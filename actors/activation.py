"""A conversation while its file is open."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from ..jobs.conversation import Conversation
from ..storage.records import TurnId
from .calls import OpenTurn

if TYPE_CHECKING:
    from ..storage.conversation_reader import ConversationReader
    from ..storage.conversation_store import ConversationStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """An open conversation, and the ways to read it."""

    store: ConversationStore
    conversation: Conversation
    reader: ConversationReader
    """For the control group's threads."""
    outbox_reader: ConversationReader
    """For the thread that delivers the outbox."""

    def close(self) -> None:
        """Let go of the file."""
        self.store.close()

    def has_driver_turn_since(self, limit: datetime) -> bool:
        """Is a driver's own turn open whose last step came after this?"""
        return any(
            self.store.readable_checkpoint(turn.turn_id).touched_at > limit
            for turn in self.store.open_turns()
            if turn.owner == "driver"
        )

    def open_turns(self, running: TurnId | None) -> tuple[OpenTurn, ...]:
        """The turns that have not ended, read by the control group."""
        return tuple(
            OpenTurn(
                turn_id=turn.turn_id,
                state=turn.state,
                is_running=turn.turn_id == running,
                attempts=turn.attempts_begun,
                opened_at=turn.opened_at,
                touched_at=touched_at,
                tool_rounds=rounds,
            )
            for turn, touched_at, rounds in self.reader.open_turns()
        )
