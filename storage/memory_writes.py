"""What writes did, kept under their ids: a repeat is told the same and does nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from .database import Database, Transaction, to_stored
from .errors import MemoryConflictError
from .memory_keys import AgentId
from .memory_records import MemoryId, VersionId, WriteId
from .memory_rows import dump_versions, load_versions
from .memory_write_records import MemoryWrite, Outcome, WriteRefused, WriteResult

ERASED = ""
"""In place of the digest of what has been erased. A late repeat of the write must not bring it back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRecord:
    """A write that was done, and what it asked for."""

    agent_id: AgentId
    digest: str
    result: WriteResult
    written_at: datetime

    def answer(self, repeated: MemoryWrite) -> WriteResult | WriteRefused:
        """What a write of the same id is told."""
        if self.digest in (ERASED, digest_of(repeated)):
            return self.result
        error = MemoryConflictError("write_id", repeated.write_id)
        return WriteRefused(write_id=repeated.write_id, error=error)


def recorded(write: MemoryWrite, result: WriteResult) -> WriteRecord:
    """The record of a write that was done."""
    return WriteRecord(agent_id=write.agent_id, digest=digest_of(write), result=result, written_at=write.at)


def digest_of(write: MemoryWrite) -> str:
    """What has to be equal for a write to be a repeat.

    Its times are not among it, nor the id that it offers, nor what it supersedes: that is found out each time anew,
    and once it was superseded it is no longer found.
    """
    asked = (
        write.scope.contact_id,
        write.key,
        write.value,
        write.fact_type,
        write.metadata,
        write.graph_id,
        write.task_id,
        write.session_id,
        write.source,
    )
    return hashlib.sha256(json.dumps(asked).encode("ascii")).hexdigest()[:32]


def read_writes(database: Database, writes: Iterable[MemoryWrite]) -> dict[tuple[AgentId, WriteId], WriteRecord]:
    """The records that there are of these writes."""
    hashes = [_hash(write.agent_id, write.write_id) for write in writes]
    return {
        (AgentId(cast(str, agent_id)), WriteId(cast(str, write_id))): WriteRecord(
            agent_id=AgentId(cast(str, agent_id)),
            digest=cast(str, digest),
            result=WriteResult(
                write_id=WriteId(cast(str, write_id)),
                outcome=cast(Outcome, outcome),
                version_id=VersionId(memory_id=MemoryId(str(memory_id)), version=cast(int, version)),
                superseded=load_versions(json.loads(cast(str, superseded))),
            ),
            written_at=cast(datetime, written_at),
        )
        for agent_id, write_id, digest, outcome, memory_id, version, superseded, written_at in database.query(
            "SELECT agent_id, write_id, digest, outcome, memory_id, version, superseded, written_at FROM memory_writes"
            " WHERE write_hash IN (SELECT unnest(?::BIGINT[]))",
            [hashes],
        )
    }


def insert_writes(transaction: Transaction, records: Sequence[WriteRecord]) -> None:
    """Keep what writes did, within their transaction."""
    if not records:
        return
    rows = [
        (
            _hash(record.agent_id, record.result.write_id),
            record.agent_id,
            record.result.write_id,
            record.digest,
            record.result.outcome,
            record.result.version_id.memory_id,
            record.result.version_id.version,
            json.dumps(dump_versions(record.result.superseded)),
            to_stored(record.written_at),
        )
        for record in records
    ]
    transaction.execute(
        "INSERT INTO memory_writes (write_hash, agent_id, write_id, digest, outcome, memory_id, version, superseded,"
        " written_at) SELECT unnest(?), unnest(?), unnest(?), unnest(?), unnest(?), unnest(?), unnest(?), unnest(?),"
        " unnest(?)",
        [list(column) for column in zip(*rows, strict=True)],
    )


def erase_writes(transaction: Transaction, memory_ids: Sequence[MemoryId]) -> None:
    """Forget what was written to these memories, but not that it was, within a transaction."""
    transaction.execute(
        "UPDATE memory_writes SET digest = ? WHERE memory_id IN (SELECT unnest(?::UUID[]))", [ERASED, list(memory_ids)]
    )


def _hash(agent_id: AgentId, write_id: WriteId) -> int:
    digest = hashlib.sha256(json.dumps([agent_id, write_id]).encode("ascii")).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
