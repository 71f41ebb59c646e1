"""Rows of `agent_state`: reading them as records, adding versions, changing what is said about them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, cast

from .database import Database, Transaction, from_stored, to_stored
from .memory_keys import AGENT_WIDE, AgentId, Scope
from .memory_records import Kind, Memory, MemoryId, Provenance, Verification, VersionId
from .records import ContactId, ConversationId, MessageId

_SELECT = (
    "SELECT row_id, memory_id, version, agent_id, contact_id, key, value, fact_type, kind, metadata, graph_id, task_id,"
    " session_id, source, provenance, confidence, verification, access_count, created_at, updated_at, accessed_at,"
    " decayed_at, valid_from, valid_to, superseded_at, superseded_by_id, superseded_by_version, reason FROM agent_state"
)


def select_memories(database: Database, rest: str, parameters: Sequence[object] = ()) -> list[Memory]:
    """The memories that a `WHERE` and what follows it choose."""
    return [_to_memory(row) for row in database.query(f"{_SELECT} {rest}", parameters)]


def insert_memories(transaction: Transaction, memories: Sequence[Memory]) -> None:
    """Add versions within a transaction; one statement, however many they are."""
    if memories:
        transaction.execute(
            "INSERT INTO agent_state (row_id, memory_id, version, agent_id, contact_id, key, value, fact_type, kind,"
            " metadata, graph_id, task_id, session_id, source, provenance, confidence, verification, access_count,"
            " created_at, updated_at, accessed_at, decayed_at, valid_from, valid_to, superseded_at, superseded_by_id,"
            " superseded_by_version, reason)"
            " SELECT unnest(?), unnest(?), unnest(?), unnest(?), unnest(?), unnest(?), unnest(?), unnest(?), unnest(?),"
            " unnest(?), unnest(?), unnest(?), unnest(?), unnest(?), unnest(?), unnest(?), unnest(?), unnest(?),"
            " unnest(?), unnest(?), unnest(?), unnest(?), unnest(?), unnest(?), unnest(?), unnest(?), unnest(?),"
            " unnest(?)",
            _columns((*_kept(memory), *_said(memory)) for memory in memories),
        )


def update_memories(transaction: Transaction, memories: Sequence[Memory]) -> None:
    """Write what is said about versions, all that may change of a row, within a transaction."""
    if memories:
        transaction.execute(
            "UPDATE agent_state SET confidence = changed.confidence, verification = changed.verification,"
            " access_count = changed.access_count, created_at = changed.created_at, updated_at = changed.updated_at,"
            " accessed_at = changed.accessed_at, decayed_at = changed.decayed_at,"
            " valid_from = changed.valid_from, valid_to = changed.valid_to,"
            " superseded_at = changed.superseded_at, superseded_by_id = changed.superseded_by_id,"
            " superseded_by_version = changed.superseded_by_version, reason = changed.reason"
            " FROM (SELECT unnest(?::BIGINT[]) AS row_id, unnest(?::DOUBLE[]) AS confidence,"
            " unnest(?::VARCHAR[]) AS verification, unnest(?::BIGINT[]) AS access_count,"
            " unnest(?::TIMESTAMP[]) AS created_at, unnest(?::TIMESTAMP[]) AS updated_at,"
            " unnest(?::TIMESTAMP[]) AS accessed_at, unnest(?::TIMESTAMP[]) AS decayed_at,"
            " unnest(?::TIMESTAMP[]) AS valid_from, unnest(?::TIMESTAMP[]) AS valid_to,"
            " unnest(?::TIMESTAMP[]) AS superseded_at, unnest(?::UUID[]) AS superseded_by_id,"
            " unnest(?::INTEGER[]) AS superseded_by_version,"
            " unnest(?::VARCHAR[]) AS reason) AS changed WHERE agent_state.row_id = changed.row_id",
            _columns((memory.row_id, *_said(memory)) for memory in memories),
        )


def _columns(rows: Iterable[tuple[object, ...]]) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _kept(memory: Memory) -> tuple[object, ...]:
    return (
        memory.row_id,
        memory.memory_id,
        memory.version,
        memory.agent_id,
        memory.scope.contact_id,
        memory.key,
        memory.value,
        memory.fact_type,
        memory.kind,
        memory.metadata,
        memory.graph_id,
        memory.task_id,
        memory.session_id,
        memory.source,
        _dump_provenance(memory.provenance),
    )


def _said(memory: Memory) -> tuple[object, ...]:
    by = memory.superseded_by
    return (
        memory.confidence,
        memory.verification,
        memory.access_count,
        to_stored(memory.created_at),
        to_stored(memory.updated_at),
        _to_stored(memory.accessed_at),
        _to_stored(memory.decayed_at),
        to_stored(memory.valid_from),
        _to_stored(memory.valid_to),
        _to_stored(memory.superseded_at),
        by.memory_id if by is not None else None,
        by.version if by is not None else None,
        memory.reason,
    )


def _to_memory(row: tuple[Any, ...]) -> Memory:
    (
        row_id,
        memory_id,
        version,
        agent_id,
        contact_id,
        key,
        value,
        fact_type,
        kind,
        metadata,
        graph_id,
        task_id,
        session_id,
        source,
        provenance,
        confidence,
        verification,
        access_count,
        created_at,
        updated_at,
        accessed_at,
        decayed_at,
        valid_from,
        valid_to,
        superseded_at,
        by_id,
        by_version,
        reason,
    ) = row
    return Memory(
        row_id=row_id,
        memory_id=MemoryId(str(memory_id)),
        version=version,
        agent_id=AgentId(agent_id),
        scope=AGENT_WIDE if contact_id is None else Scope(contact_id=ContactId(contact_id)),
        key=key,
        value=value,
        fact_type=fact_type,
        kind=cast(Kind, kind),
        metadata=metadata,
        graph_id=graph_id,
        task_id=task_id,
        session_id=session_id,
        source=source,
        provenance=_load_provenance(provenance),
        confidence=confidence,
        verification=cast(Verification, verification),
        access_count=access_count,
        created_at=from_stored(created_at),
        updated_at=from_stored(updated_at),
        accessed_at=_from_stored(accessed_at),
        decayed_at=_from_stored(decayed_at),
        valid_from=from_stored(valid_from),
        valid_to=_from_stored(valid_to),
        superseded_at=_from_stored(superseded_at),
        superseded_by=VersionId(memory_id=MemoryId(str(by_id)), version=by_version) if by_id is not None else None,
        reason=reason,
    )


def dump_versions(versions: Iterable[VersionId]) -> list[list[object]]:
    """Version ids as JSON takes them."""
    return [[version.memory_id, version.version] for version in versions]


def load_versions(stored: Iterable[tuple[str, int]]) -> tuple[VersionId, ...]:
    """Version ids out of JSON."""
    return tuple(VersionId(memory_id=MemoryId(memory_id), version=version) for memory_id, version in stored)


_NO_PROVENANCE = "{}"


def _dump_provenance(provenance: Provenance) -> str:
    said = {
        "conversation_id": provenance.conversation_id,
        "message_ids": provenance.message_ids,
        "tool": provenance.tool,
        "memories": dump_versions(provenance.memories),
    }
    return json.dumps({name: value for name, value in said.items() if value})


def _load_provenance(stored: str) -> Provenance:
    if stored == _NO_PROVENANCE:
        return Provenance()
    said = json.loads(stored)
    conversation_id = said.get("conversation_id")
    return Provenance(
        conversation_id=ConversationId(conversation_id) if conversation_id is not None else None,
        message_ids=tuple(map(MessageId, said.get("message_ids", ()))),
        tool=said.get("tool"),
        memories=load_versions(said.get("memories", ())),
    )


def _to_stored(moment: datetime | None) -> datetime | None:
    return None if moment is None else to_stored(moment)


def _from_stored(moment: datetime | None) -> datetime | None:
    return None if moment is None else from_stored(moment)
