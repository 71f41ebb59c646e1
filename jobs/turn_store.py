"""The store as turns need it; `storage.conversation_store.ConversationStore` is the one that lasts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from ..storage.records import (
    Checkpoint,
    ConversationIdentity,
    Message,
    Reply,
    StoredMessage,
    ToolCall,
    ToolResult,
    Turn,
    TurnId,
    TurnOwner,
    Usage,
    WorkingState,
)
from .context import History


class TurnStore(History, Protocol):
    """Every write is durable when it returns, and not there at all when it raises."""

    identity: ConversationIdentity

    def turn(self, turn_id: TurnId) -> Turn | None: ...
    def open_turns(self) -> Sequence[Turn]: ...
    def checkpoint(self, turn_id: TurnId) -> Checkpoint: ...
    def readable_checkpoint(self, turn_id: TurnId) -> Checkpoint: ...
    def is_checkpoint_readable(self, turn_id: TurnId) -> bool: ...
    def working_state(self) -> WorkingState: ...
    def message_at(self, seq: int) -> StoredMessage: ...

    def open_turn(
        self, *, turn_id: TurnId, owner: TurnOwner, text_digest: str, message: Message, at: datetime
    ) -> Turn: ...
    def begin_attempt(self, *, turn_id: TurnId, at: datetime) -> None: ...
    def end_attempt(self, *, turn_id: TurnId, at: datetime) -> None: ...
    def record_calls(
        self, *, turn_id: TurnId, text: str, calls: tuple[ToolCall, ...], usage: Usage, at: datetime
    ) -> None: ...
    def record_results(
        self,
        *,
        turn_id: TurnId,
        results: tuple[ToolResult, ...],
        at: datetime,
        working_state: WorkingState | None = None,
    ) -> None: ...
    def record_round(
        self,
        *,
        turn_id: TurnId,
        text: str,
        calls: tuple[ToolCall, ...],
        results: tuple[ToolResult, ...],
        usage: Usage,
        at: datetime,
    ) -> None: ...
    def finish_turn(
        self,
        *,
        turn_id: TurnId,
        reply: Reply,
        messages: Sequence[Message],
        absorbed: Sequence[TurnId] = (),
        at: datetime,
    ) -> None: ...
    def fail_turn(self, *, turn_id: TurnId, error: str, messages: Sequence[Message], at: datetime) -> None: ...
    def abandon_turn(self, *, turn_id: TurnId, messages: Sequence[Message], at: datetime) -> None: ...
    def append_messages(self, *, messages: Sequence[Message]) -> int: ...
    def set_working_state(self, *, working_state: WorkingState) -> None: ...
