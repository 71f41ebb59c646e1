"""Erasing memories for good: rows that are gone, not superseded."""

from __future__ import annotations

from collections.abc import Sequence

from .database import Transaction
from .memory_outbox import MemoryOutbox
from .memory_records import Memory
from .memory_writes import erase_writes


def erase(transaction: Transaction, outbox: MemoryOutbox, versions: Sequence[Memory]) -> None:
    """Take versions away within a transaction, and with them what is kept beside them but the registry of vectors."""
    transaction.execute(
        "DELETE FROM agent_state WHERE row_id IN (SELECT unnest(?::BIGINT[]))", [[memory.row_id for memory in versions]]
    )
    erase_writes(transaction, list({memory.memory_id: None for memory in versions}))
    outbox.forget_parked(transaction, list({memory.vector_id: None for memory in versions}))
