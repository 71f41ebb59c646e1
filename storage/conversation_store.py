"""One conversation's file: messages, turns, checkpoints, overlays, working state; a commit for each step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import cast

from .conversation_identity import identified
from .conversation_reader import ConversationReader
from .database import Database, Transaction
from .errors import FencedError
from .fault_points import fault_point
from .fence import Fence
from .message_log import MessageLog
from .outbox_log import OutboxReader, remove_parked, write_cursor, write_parked
from .outbox_records import OutboxCursor, ParkedMessage
from .overlay_log import read_overlays, write_overlay
from .records import (
    Checkpoint,
    ConversationIdentity,
    Message,
    Overlay,
    Reply,
    StoredMessage,
    ToolCall,
    ToolResult,
    ToolRound,
    Turn,
    TurnId,
    TurnOwner,
    Usage,
    WorkingState,
)
from .replay import replayable
from .turn_log import TurnLog, opened_turn

TIDY_AT_MOST = 256 * 1024
"""Bytes of write-ahead log; it is read at about 2 MB a second when a file is opened after a crash."""


class ConversationStore:
    """The only writer of a conversation's file.

    Every method that writes is one transaction and one `fdatasync`: when it returns, the step survives any
    crash; when it raises, nothing of it was written. After a `StorageError` the file should be closed and
    opened again: DuckDB may have given it up, and then opening decides whether the step is there, wholly or
    not at all. Ids and times are arguments, so the same calls on an empty file give the same tables
    (`replay.py`).
    """

    def __init__(self, database: Database, identity: ConversationIdentity) -> None:
        self._database = database
        self.identity = identity
        self._messages = MessageLog(database)
        self._turns = TurnLog(database, identity.conversation_id)
        self._state = ConversationReader(database).working_state()
        self._overlays = read_overlays(database)
        self._outbox = OutboxReader(database)

    @classmethod
    def open(
        cls,
        path: Path,
        identity: ConversationIdentity,
        created_at: datetime,
        memory_limit_mib: int = 64,
        epoch: int | None = None,
    ) -> ConversationStore:
        """Open a conversation's file, or create it with this identity.

        Args:
            epoch: The number of this activation, higher than any before; None opens without a fence.

        Raises:
            ContactMismatchError: It belongs to another contact than given.
            FencedError: A newer activation has been here.
            StorageError: As `Database.open`; also when the file holds another conversation.
        """
        database = Database.open(path, "conversation", memory_limit_mib)
        try:
            store = cls(database, identified(database, identity, created_at))
            if epoch is not None:
                database.fence = Fence(path, epoch)
                database.fence.claim()
                store.record_activation(epoch=epoch)
            return store
        except BaseException:
            database.close()
            raise

    def reader(self) -> ConversationReader:
        """Reads for another thread."""
        return ConversationReader(self._database.reader())

    @property
    def path(self) -> Path:
        """The file."""
        return self._database.path

    @property
    def wal_bytes(self) -> int:
        """Size of the file's write-ahead log."""
        return self._database.wal_bytes

    def needs_tidying(self, limit_bytes: int) -> bool:
        """Is the write-ahead log over a limit, and as long as the file of which `tidy` rewrites a part?

        Each `tidy` costs time and leaves a hole in a small file, so that it pays only for much at a time.
        """
        wal_bytes = self.wal_bytes
        return wal_bytes > limit_bytes and wal_bytes > min(self._database.file_bytes, TIDY_AT_MOST)

    def tidy(self) -> None:
        """Fold the write-ahead log into the file; nothing is lost without it."""
        fault_point("tidy.before_checkpoint")
        self._database.fold_wal()
        fault_point("tidy.checkpointed")

    def close(self) -> None:
        """Release the file."""
        self._database.close()

    # What the history's view needs (jobs/context.py).

    def head(self, count: int) -> Sequence[StoredMessage]:
        """The first messages, oldest first."""
        return self._messages.head(count)

    def page_before(self, seq: int | None, count: int) -> Sequence[StoredMessage]:
        """The newest messages before a place (None: of all), oldest first."""
        return self._messages.page_before(seq, count)

    def overlays(self) -> Sequence[Overlay]:
        """The overlays, oldest range first."""
        return self._overlays

    def message_count(self) -> int:
        """How many messages there are."""
        return self._messages.count()

    def message_at(self, seq: int) -> StoredMessage:
        """The message in a place."""
        return self._messages.page_before(seq + 1, 1)[0]

    @property
    def next_seq(self) -> int:
        """The place that the next message gets."""
        return self._messages.next_seq

    def working_state(self) -> WorkingState:
        """Notes and ongoing task."""
        return self._state

    @replayable
    def record_activation(self, *, epoch: int) -> None:
        """Store the number of the activation that holds the file.

        Raises:
            FencedError: The file has been held by a newer one.
        """
        [(held,)] = self._database.query("SELECT epoch FROM conversation")
        if cast(int, held) > epoch:
            raise FencedError(str(self.path), epoch, cast(int, held))
        with self._database.transaction() as transaction:
            transaction.execute("UPDATE conversation SET epoch = ?", [epoch])

    # Turns.

    def turn(self, turn_id: TurnId) -> Turn | None:
        """A turn's record, or None."""
        return self._turns.turn(turn_id)

    def open_turns(self) -> Sequence[Turn]:
        """The turns that have not ended, oldest first."""
        return self._turns.open_turns()

    def checkpoint(self, turn_id: TurnId) -> Checkpoint:
        """What an open turn has done so far.

        Raises:
            CheckpointUnreadableError: A step of it is damaged or of another version.
        """
        return self._turns.checkpoint(turn_id)

    def readable_checkpoint(self, turn_id: TurnId) -> Checkpoint:
        """What can be read of an open turn's checkpoint: all, or the steps before a damaged one."""
        return self._turns.readable_checkpoint(turn_id)

    def is_checkpoint_readable(self, turn_id: TurnId) -> bool:
        """Can the whole checkpoint of an open turn be read?"""
        return self._turns.is_readable(turn_id)

    @replayable
    def open_turn(self, *, turn_id: TurnId, owner: TurnOwner, text_digest: str, message: Message, at: datetime) -> Turn:
        """Store a turn with its user message; its first attempt begins with it, where the runtime owns it."""
        turn = opened_turn(turn_id, owner, text_digest, self._messages.next_seq, at)
        entry = self._turns.new(turn)
        with self._database.transaction() as transaction:
            stored = self._messages.insert_opening(transaction, message, turn)
            fault_point("turn.before_open_commit")
        self._turns.committed(entry)
        self._messages.appended(stored)
        return turn

    @replayable
    def begin_attempt(self, *, turn_id: TurnId, at: datetime) -> None:
        """Count another attempt at an open turn, before it does anything."""
        self._write_attempts(turn_id, at, begun=1, ended=0)

    @replayable
    def end_attempt(self, *, turn_id: TurnId, at: datetime) -> None:
        """Note that an attempt ended in order, though the turn stays open: its process did not die."""
        self._write_attempts(turn_id, at, begun=0, ended=1)

    def _write_attempts(self, turn_id: TurnId, at: datetime, *, begun: int, ended: int) -> None:
        turn = self.require_open(turn_id)
        with self._database.transaction() as transaction:
            entry = self._turns.write_attempts(
                transaction, turn_id, turn.attempts_begun + begun, turn.attempts_ended + ended, at
            )
        self._turns.committed(entry)

    def require_open(self, turn_id: TurnId) -> Turn:
        """An open turn's record.

        Raises:
            TurnNotFoundError, TurnNotOpenError: There is none.
        """
        self._turns.readable_checkpoint(turn_id)
        return cast(Turn, self._turns.turn(turn_id))

    @replayable
    def record_calls(
        self, *, turn_id: TurnId, text: str, calls: tuple[ToolCall, ...], usage: Usage, at: datetime
    ) -> None:
        """Store a model's tool calls, all of them as started, before any of them starts."""
        asked = ToolRound(text=text, calls=calls, usage=usage, asked_at=at)
        with self._database.transaction() as transaction:
            entry = self._turns.write_step(transaction, turn_id, at, asked=asked)
            fault_point("calls.before_commit")
        self._turns.committed(entry)

    @replayable
    def record_results(
        self,
        *,
        turn_id: TurnId,
        results: tuple[ToolResult, ...],
        at: datetime,
        working_state: WorkingState | None = None,
    ) -> None:
        """Store results as they arrive, with the working state that they left, where they changed it."""
        with self._database.transaction() as transaction:
            entry = self._turns.write_step(transaction, turn_id, at, results=results)
            if working_state is not None:
                self._write_working_state(transaction, working_state)
            fault_point("result.before_commit")
        self._turns.committed(entry)
        if working_state is not None:
            self._state = working_state

    @replayable
    def record_round(
        self,
        *,
        turn_id: TurnId,
        text: str,
        calls: tuple[ToolCall, ...],
        results: tuple[ToolResult, ...],
        usage: Usage,
        at: datetime,
    ) -> None:
        """Store a whole tool round that a driver ran itself."""
        asked = ToolRound(text=text, calls=calls, usage=usage, asked_at=at)
        with self._database.transaction() as transaction:
            entry = self._turns.write_step(transaction, turn_id, at, asked=asked, results=results)
        self._turns.committed(entry)

    @replayable
    def finish_turn(
        self,
        *,
        turn_id: TurnId,
        reply: Reply,
        messages: Sequence[Message],
        absorbed: Sequence[TurnId] = (),
        at: datetime,
    ) -> None:
        """Store a turn's messages and reply; its checkpoint goes, and turns it took over end as abandoned.

        Args:
            messages: The last is the reply; its row says how the turn ended.
        """
        finished = replace(self.require_open(turn_id), state="finished", ended_at=at, reply=reply)
        taken_over = [
            replace(self.require_open(broken), state="abandoned", ended_at=at, absorbed_by=turn_id)
            for broken in absorbed
        ]
        with self._database.transaction() as transaction:
            stored = self._messages.insert_ending(transaction, messages, finished)
            for turn in (finished, *taken_over):
                self._turns.write_end(transaction, turn)
            fault_point("turn.before_finish_commit")
        self._ended([finished, *taken_over], stored)

    @replayable
    def fail_turn(self, *, turn_id: TurnId, error: str, messages: Sequence[Message], at: datetime) -> None:
        """End a turn for good, without a reply."""
        failed = replace(self.require_open(turn_id), state="failed", ended_at=at, error=error)
        self._end_unanswered(failed, messages)

    @replayable
    def abandon_turn(self, *, turn_id: TurnId, messages: Sequence[Message], at: datetime) -> None:
        """End a turn that was given up."""
        abandoned = replace(self.require_open(turn_id), state="abandoned", ended_at=at)
        self._end_unanswered(abandoned, messages)

    def _end_unanswered(self, turn: Turn, messages: Sequence[Message]) -> None:
        with self._database.transaction() as transaction:
            stored = self._messages.insert(transaction, messages)
            self._turns.write_end(transaction, turn)
        self._ended([turn], stored)

    def _ended(self, turns: Sequence[Turn], stored: Sequence[StoredMessage]) -> None:
        for turn in turns:
            self._turns.ended(turn.turn_id)
        self._messages.appended(stored)

    # Beside the turns.

    @replayable
    def append_messages(self, *, messages: Sequence[Message]) -> int:
        """Store messages at the end, but those that are stored already; returns how many were new.

        Raises:
            MessageConflictError: An id is taken by a message with other content. Nothing was written.
        """
        fresh = self._messages.unstored(messages)
        if fresh:
            with self._database.transaction() as transaction:
                stored = self._messages.insert(transaction, fresh)
            self._messages.appended(stored)
        return len(fresh)

    @replayable
    def set_working_state(self, *, working_state: WorkingState) -> None:
        """Replace notes and ongoing task."""
        with self._database.transaction() as transaction:
            self._write_working_state(transaction, working_state)
        self._state = working_state

    @replayable
    def add_overlay(self, *, overlay: Overlay) -> None:
        """Store a summary of a range of messages; an overlay of that id is stored once."""
        if any(known.overlay_id == overlay.overlay_id for known in self._overlays):
            return
        with self._database.transaction() as transaction:
            write_overlay(transaction, overlay)
        self._overlays = read_overlays(self._database)

    # The outbox.

    @replayable
    def move_outbox_cursor(self, *, kind: str, cursor: OutboxCursor) -> None:
        """Note how far a consumer is."""
        with self._database.transaction() as transaction:
            write_cursor(transaction, kind, cursor, is_new=not self._outbox.has_cursor(kind))

    @replayable
    def park_message(self, *, parked: ParkedMessage) -> None:
        """Put a message aside that a consumer could not take, and move the consumer's cursor past it."""
        with self._database.transaction() as transaction:
            write_parked(transaction, parked)
            is_new = not self._outbox.has_cursor(parked.kind)
            write_cursor(transaction, parked.kind, OutboxCursor(delivered_seq=parked.seq), is_new=is_new)

    @replayable
    def remove_parked_message(self, *, kind: str, seq: int) -> None:
        """Forget a parked message, since it has been taken after all."""
        with self._database.transaction() as transaction:
            remove_parked(transaction, kind, seq)

    def _write_working_state(self, transaction: Transaction, state: WorkingState) -> None:
        transaction.execute(
            "UPDATE conversation SET notes = ?, ongoing_task = ?, recent_changes = ?",
            [state.notes, state.ongoing_task, json.dumps(state.recent_changes)],
        )
