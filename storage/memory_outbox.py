"""What the indexes derived from memories have yet to be told: the outbox of memories.

A row says that something changed under an id, and is committed with the change. What is true now is read with
it, so an index that is told twice, or late, or of several changes at once, ends up right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from .database import Database, Transaction, from_stored, to_stored
from .errors import InvalidInputError
from .memory_index_records import IndexedChange, IndexKind, ParkedChange, PendingChange
from .memory_keys import AgentId, VectorId, Visibility
from .memory_reader import MemoryReader
from .memory_records import Memory
from .outbox_log import OutboxReader, write_cursor
from .outbox_records import OutboxCursor

MOST_RECENT = 1024
"""Changes that are kept in memory: an index that keeps up is told of them without a look at the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A row of the outbox."""

    seq: int
    agent_id: AgentId
    vector_id: VectorId
    at: datetime


def with_memories(
    kind: IndexKind,
    changes: Sequence[Change],
    by_vector_ids: Callable[[Visibility, set[VectorId]], Mapping[VectorId, Memory]],
) -> list[PendingChange]:
    """Changes with what is true now, which is read here: never older than they are."""
    ids: dict[AgentId, set[VectorId]] = {}
    for change in changes:
        ids.setdefault(change.agent_id, set()).add(change.vector_id)
    memories = {
        vector_id: memory
        for agent_id, wanted in ids.items()
        for vector_id, memory in by_vector_ids(Visibility.of_agent(agent_id), wanted).items()
        if kind != "vector" or memory.kind != "task"
    }
    return [
        PendingChange(
            seq=change.seq,
            kind=kind,
            agent_id=change.agent_id,
            vector_id=change.vector_id,
            changed_at=change.at,
            memory=memories.get(change.vector_id),
        )
        for change in changes
    ]


class MemoryOutboxReader:
    """Reads the outbox straight from the file: for one thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cursors = OutboxReader(database)
        self._memories = MemoryReader(database)

    def cursor(self, kind: IndexKind) -> OutboxCursor:
        """How far an index is."""
        return self._cursors.cursor(kind)

    def pending(self, kind: IndexKind, after: int = -1, limit: int = 100) -> list[PendingChange]:
        """The next changes that an index has not been told of, in order.

        Args:
            after: A place up to which the caller has them already.
        """
        rows = self._database.query(
            "SELECT seq, agent_id, vector_id, changed_at FROM memory_outbox WHERE kind = ? AND seq > ?"
            " ORDER BY seq LIMIT ?",
            [kind, after, limit],
        )
        changes = [
            Change(
                seq=cast(int, seq),
                agent_id=AgentId(cast(str, agent_id)),
                vector_id=VectorId(cast(str, vector_id)),
                at=from_stored(cast(datetime, at)),
            )
            for seq, agent_id, vector_id, at in rows
        ]
        return with_memories(kind, changes, self._memories.by_vector_ids)

    def parked(self) -> list[ParkedChange]:
        """Changes that an index could not take, in order."""
        return [
            ParkedChange(
                kind=cast(IndexKind, kind),
                seq=cast(int, seq),
                agent_id=AgentId(cast(str, agent_id)),
                vector_id=VectorId(cast(str, vector_id)),
                attempts=cast(int, attempts),
                error=cast(str, error),
                parked_at=from_stored(cast(datetime, parked_at)),
            )
            for kind, seq, agent_id, vector_id, attempts, error, parked_at in self._database.query(
                "SELECT kind, seq, agent_id, vector_id, attempts, error, parked_at FROM memory_outbox_parked"
                " ORDER BY kind, seq"
            )
        ]


class MemoryOutbox(MemoryOutboxReader):
    """Writes the outbox within the transactions of the only writer, and remembers what it wrote last."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        [(highest,)] = database.query(
            "SELECT greatest((SELECT coalesce(max(seq), -1) FROM memory_outbox),"
            " (SELECT coalesce(max(delivered_seq), -1) FROM outbox_cursors))"
        )
        self.next_seq = cast(int, highest) + 1
        """The place that the next change gets; `told` moves it once its transaction has been committed."""
        self._recent: tuple[tuple[IndexKind, Change], ...] = ()

    def tell(self, transaction: Transaction, changes: Sequence[IndexedChange], at: datetime) -> None:
        """Add changes within a transaction."""
        if not changes:
            return
        transaction.execute(
            "INSERT INTO memory_outbox (seq, kind, agent_id, vector_id, changed_at)"
            " SELECT unnest(?), unnest(?), unnest(?), unnest(?), ?::TIMESTAMP",
            [
                [self.next_seq + place for place in range(len(changes))],
                [change.kind for change in changes],
                [change.agent_id for change in changes],
                [change.vector_id for change in changes],
                to_stored(at),
            ],
        )

    def told(self, changes: Sequence[IndexedChange], at: datetime) -> None:
        """Take note of changes whose transaction has been committed."""
        told = tuple(
            (change.kind, Change(seq=seq, agent_id=change.agent_id, vector_id=change.vector_id, at=at))
            for seq, change in enumerate(changes, start=self.next_seq)
        )
        self._recent = (*self._recent, *told)[-MOST_RECENT:]  # replaced whole: other threads read it
        self.next_seq += len(changes)

    def recent(self, kind: IndexKind, after: int, limit: int) -> list[Change] | None:
        """The next changes after a place; None where some may be older than what is remembered.

        Every thread may ask. Those that were acknowledged or parked meanwhile are among them.
        """
        recent = self._recent
        if not recent or recent[0][1].seq > after + 1:
            return None
        return [change for of, change in recent if of == kind and change.seq > after][:limit]

    def acknowledge(self, transaction: Transaction, kind: IndexKind, seq: int) -> None:
        """Note that an index has been told of all changes up to a place."""
        cursor = self.cursor(kind)
        if seq > cursor.delivered_seq:
            self._move(transaction, kind, OutboxCursor(delivered_seq=min(seq, self.next_seq - 1)))
            transaction.execute("DELETE FROM memory_outbox WHERE kind = ? AND seq <= ?", [kind, seq])

    def fail(self, transaction: Transaction, kind: IndexKind) -> None:
        """Count a try of the next change that was in vain."""
        cursor = self.cursor(kind)
        attempts = cursor.attempts + 1
        self._move(transaction, kind, OutboxCursor(delivered_seq=cursor.delivered_seq, attempts=attempts))

    def park(self, transaction: Transaction, kind: IndexKind, seq: int, error: str, at: datetime) -> None:
        """Put the next change aside; a change that is behind the cursor already is left alone.

        Raises:
            InvalidInputError: It is not the next one.
        """
        cursor = self.cursor(kind)
        if seq <= cursor.delivered_seq:
            return
        rows = self._database.query(
            "SELECT seq, agent_id, vector_id FROM memory_outbox WHERE kind = ? ORDER BY seq LIMIT 1", [kind]
        )
        if not rows or rows[0][0] != seq:
            raise InvalidInputError("seq", f"change {seq} is not the next one", "park the first that is pending")
        [(_, agent_id, vector_id)] = rows
        transaction.execute(
            "INSERT INTO memory_outbox_parked (kind, seq, agent_id, vector_id, attempts, error, parked_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            [kind, seq, agent_id, vector_id, cursor.attempts, error, to_stored(at)],
        )
        self._move(transaction, kind, OutboxCursor(delivered_seq=seq))
        transaction.execute("DELETE FROM memory_outbox WHERE kind = ? AND seq <= ?", [kind, seq])

    def unpark(self, transaction: Transaction, kind: IndexKind, seq: int, at: datetime) -> Sequence[IndexedChange]:
        """Tell of a parked change once more, behind all others; `told` has to follow the commit."""
        found = [change for change in self.parked() if (change.kind, change.seq) == (kind, seq)]
        if found:
            self.tell(transaction, found, at)
            transaction.execute("DELETE FROM memory_outbox_parked WHERE kind = ? AND seq = ?", [kind, seq])
        return found

    def forget_parked(self, transaction: Transaction, vector_ids: Sequence[VectorId]) -> None:
        """Take away what is parked of these ids."""
        transaction.execute(
            "DELETE FROM memory_outbox_parked WHERE vector_id IN (SELECT unnest(?::VARCHAR[]))", [list(vector_ids)]
        )

    def _move(self, transaction: Transaction, kind: IndexKind, cursor: OutboxCursor) -> None:
        write_cursor(transaction, kind, cursor, is_new=not self._cursors.has_cursor(kind))
