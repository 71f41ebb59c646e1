"""How far a conversation's messages have been delivered to those that follow them: the outbox.

The messages themselves are its rows: they are committed with their turn, in order, and never change. What is
kept beside them is a cursor for each consumer and the rows that a consumer could not take. So a consumer costs
a turn nothing, and one that arrives later begins at the first message.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import cast

from .database import Database, Transaction, from_stored, to_stored
from .outbox_records import OutboxCursor, ParkedMessage
from .records import MessageId


class OutboxReader:
    """Reads cursors and parked rows, straight from the file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def cursor(self, kind: str) -> OutboxCursor:
        """How far a consumer is; one that is new is at the beginning."""
        for seq, attempts in self._database.query(
            "SELECT delivered_seq, attempts FROM outbox_cursors WHERE kind = ?", [kind]
        ):
            return OutboxCursor(delivered_seq=cast(int, seq), attempts=cast(int, attempts))
        return OutboxCursor()

    def has_cursor(self, kind: str) -> bool:
        """Has a consumer been told of anything yet?"""
        return bool(self._database.query("SELECT 1 FROM outbox_cursors WHERE kind = ?", [kind]))

    def parked(self) -> Sequence[ParkedMessage]:
        """The parked rows, in order."""
        return [
            ParkedMessage(
                kind=cast(str, kind),
                seq=cast(int, seq),
                message_id=MessageId(cast(str, message_id)),
                attempts=cast(int, attempts),
                error=cast(str, error),
                parked_at=from_stored(cast(datetime, parked_at)),
            )
            for kind, seq, message_id, attempts, error, parked_at in self._database.query(
                "SELECT kind, seq, message_id, attempts, error, parked_at FROM outbox_parked ORDER BY kind, seq"
            )
        ]


def write_cursor(transaction: Transaction, kind: str, cursor: OutboxCursor, *, is_new: bool) -> None:
    """Set a consumer's cursor within a transaction."""
    if is_new:
        transaction.execute(
            "INSERT INTO outbox_cursors (kind, delivered_seq, attempts) VALUES (?, ?, ?)",
            [kind, cursor.delivered_seq, cursor.attempts],
        )
    else:
        transaction.execute(
            "UPDATE outbox_cursors SET delivered_seq = ?, attempts = ? WHERE kind = ?",
            [cursor.delivered_seq, cursor.attempts, kind],
        )


def write_parked(transaction: Transaction, parked: ParkedMessage) -> None:
    """Add a parked row within a transaction."""
    transaction.execute(
        "INSERT INTO outbox_parked (kind, seq, message_id, attempts, error, parked_at) VALUES (?, ?, ?, ?, ?, ?)",
        [
            parked.kind,
            parked.seq,
            parked.message_id,
            parked.attempts,
            parked.error,
            to_stored(parked.parked_at),
        ],
    )


def remove_parked(transaction: Transaction, kind: str, seq: int) -> None:
    """Take a parked row away within a transaction."""
    transaction.execute("DELETE FROM outbox_parked WHERE kind = ? AND seq = ?", [kind, seq])
