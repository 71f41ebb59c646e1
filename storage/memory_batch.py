"""Works out what a batch of writes does to what is known; writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import cast

from .database import Database
from .errors import MemoryConflictError
from .hot_memories import HotMemories
from .memory_changes import MemoryChanges
from .memory_input import is_uuid
from .memory_keys import AgentId, Scope
from .memory_records import Memory, MemoryId, Verification, VersionId, confidence_of, kind_of
from .memory_write_records import MemoryWrite, Outcome, WriteResult
from .settings import MemorySettings

Concerned = tuple[AgentId, Iterable[str], Iterable[str]]
"""An agent, and the keys and ids of the memories of its that are concerned."""


def begin_batch(
    database: Database,
    hot: HotMemories,
    changes: MemoryChanges,
    settings: MemorySettings,
    concerned: Iterable[Concerned],
) -> MemoryBatch:
    """A batch that knows the active memories that are concerned."""
    keys: dict[AgentId, list[str]] = {}
    ids: dict[AgentId, list[MemoryId]] = {}
    for agent_id, some_keys, some_ids in concerned:
        keys.setdefault(agent_id, []).extend(some_keys)
        ids.setdefault(agent_id, []).extend(MemoryId(each) for each in some_ids if is_uuid(each))
    active = [memory for agent_id in keys for memory in hot.matching(agent_id, keys[agent_id], ids[agent_id])]
    wanted = {memory.memory_id for memory in active}.union(*ids.values())
    rows = database.query(
        "SELECT memory_id, max(version) FROM agent_state WHERE memory_id IN (SELECT unnest(?::UUID[]))"
        " GROUP BY memory_id",
        [sorted(wanted)],
    )
    versions = {MemoryId(str(memory_id)): cast(int, version) for memory_id, version in rows}
    return MemoryBatch(changes, settings, active, versions)


class MemoryBatch:
    """Takes one write after the other, each on top of those before it."""

    def __init__(
        self,
        changes: MemoryChanges,
        settings: MemorySettings,
        active: Iterable[Memory],
        versions: Mapping[MemoryId, int],
    ) -> None:
        """Begin with the active memories that the writes concern.

        Args:
            versions: The highest version there is of each memory that the writes concern.
        """
        self._changes = changes
        self._settings = settings
        self._current: dict[tuple[AgentId, Scope, str], Memory] = {}
        self._by_version: dict[VersionId, Memory] = {}
        self._versions = dict(versions)
        for memory in active:
            self._keep(memory)

    def write(self, write: MemoryWrite) -> WriteResult:
        """Work out one write.

        Raises:
            MemoryConflictError: Its `memory_id` belongs to a memory under another key.
        """
        current = self._current.get((write.agent_id, write.scope, write.key))
        if current is None:
            if write.memory_id in self._versions:
                raise MemoryConflictError("memory_id", write.memory_id)
            stored = self._changes.add(self._created(write))
            return self._done(write, "created", stored)
        if _says_the_same(write, current):
            confirmed = self._confirmed(write, current)
            self._changes.say(confirmed)
            return self._done(write, "confirmed", confirmed)
        successor = self._successor(write, current)
        if successor.valid_from < current.valid_from:
            outdated = replace(
                successor,
                created_at=current.created_at,
                superseded_at=write.at,
                superseded_by=current.version_id,
                valid_to=current.valid_from,
                reason="said before what is known",
            )
            stored = self._changes.add(outdated)
            self._versions[stored.memory_id] = stored.version
            return WriteResult(write_id=write.write_id, outcome="outdated", version_id=stored.version_id)
        self._end(current, by=successor, at=write.at, reason="new value")
        stored = self._changes.add(successor)
        return self._done(write, "versioned", stored, [current.version_id])

    def replace_version(
        self,
        current: Memory,
        *,
        at: datetime,
        value: str | None = None,
        metadata: str | None = None,
        fact_type: str | None = None,
        verification: Verification | None = None,
        reason: str,
    ) -> Memory:
        """Add a version of an active memory in which some things are different, or leave it if nothing is."""
        changed = replace(
            current,
            value=current.value if value is None else value,
            metadata=current.metadata if metadata is None else metadata,
            fact_type=current.fact_type if fact_type is None else fact_type,
            kind=current.kind if fact_type is None else kind_of(fact_type),
        )
        if changed == current:
            return current
        successor = replace(
            changed,
            version=self._versions[current.memory_id] + 1,
            updated_at=at,
            valid_from=max(at, current.valid_from),
            verification=current.verification if verification is None else verification,
        )
        self._end(current, by=successor, at=at, reason=reason)
        return self._keep(self._changes.add(successor))

    def supersede(
        self, targets: Iterable[VersionId], agent_id: AgentId, *, by: Memory | None, at: datetime, reason: str
    ) -> list[VersionId]:
        """Supersede those versions that are still active; the others are left as they are.

        Args:
            by: What takes their place; it supersedes nothing outside of its scope, nor itself.
        """
        ended = []
        for target in targets:
            memory = self._by_version.get(target)
            if memory is None or memory.agent_id != agent_id:
                continue
            if by is not None and (memory.scope != by.scope or memory.memory_id == by.memory_id):
                continue
            self._end(memory, by=by, at=at, reason=reason)
            ended.append(target)
        return ended

    def _done(
        self, write: MemoryWrite, outcome: Outcome, stored: Memory, superseded: Iterable[VersionId] = ()
    ) -> WriteResult:
        self._keep(stored)
        also = self.supersede(write.supersedes, write.agent_id, by=stored, at=write.at, reason=write.reason)
        return WriteResult(
            write_id=write.write_id,
            outcome=outcome,
            version_id=stored.version_id,
            superseded=(*superseded, *also),
        )

    def _keep(self, memory: Memory) -> Memory:
        self._current[memory.agent_id, memory.scope, memory.key] = memory
        self._by_version[memory.version_id] = memory
        self._versions[memory.memory_id] = max(memory.version, self._versions.get(memory.memory_id, 0))
        return memory

    def _end(self, memory: Memory, *, by: Memory | None, at: datetime, reason: str) -> None:
        self._changes.end(memory, by=by, at=at, reason=reason)
        del self._current[memory.agent_id, memory.scope, memory.key]
        del self._by_version[memory.version_id]

    def _confidence(self, write: MemoryWrite) -> float:
        return confidence_of(write.source, self._settings) if write.confidence is None else write.confidence

    def _created(self, write: MemoryWrite) -> Memory:
        fact_type = write.fact_type or "fact"
        return Memory(
            row_id=0,
            memory_id=write.memory_id,
            version=1,
            agent_id=write.agent_id,
            scope=write.scope,
            key=write.key,
            value=write.value,
            fact_type=fact_type,
            kind=kind_of(fact_type),
            metadata=write.metadata or "{}",
            graph_id=write.graph_id,
            task_id=write.task_id,
            session_id=write.session_id,
            source=write.source,
            provenance=write.provenance,
            confidence=self._confidence(write),
            verification=write.verification,
            created_at=write.at,
            updated_at=write.at,
            valid_from=write.valid_from or write.at,
        )

    def _successor(self, write: MemoryWrite, current: Memory) -> Memory:
        created = self._created(write)
        return replace(
            created,
            memory_id=current.memory_id,
            version=self._versions[current.memory_id] + 1,
            fact_type=write.fact_type or current.fact_type,
            kind=kind_of(write.fact_type or current.fact_type),
            metadata=current.metadata if write.metadata is None else write.metadata,
            graph_id=current.graph_id if write.graph_id is None else write.graph_id,
            task_id=current.task_id if write.task_id is None else write.task_id,
            session_id=current.session_id if write.session_id is None else write.session_id,
            confidence=max(created.confidence, current.confidence)
            if write.value == current.value
            else created.confidence,
            access_count=current.access_count,
            accessed_at=current.accessed_at,
            created_at=current.created_at,
        )

    def _confirmed(self, write: MemoryWrite, current: Memory) -> Memory:
        return replace(
            current,
            confidence=max(current.confidence, self._confidence(write)),
            updated_at=max(current.updated_at, write.at),
            valid_from=min(current.valid_from, write.valid_from or write.at)
            if current.version == 1
            else current.valid_from,
        )


def _says_the_same(write: MemoryWrite, current: Memory) -> bool:
    """Is the value known, and everything else that the write says about it?"""
    given = (write.fact_type, write.metadata, write.graph_id, write.task_id, write.session_id)
    known = (current.fact_type, current.metadata, current.graph_id, current.task_id, current.session_id)
    return write.value == current.value and all(
        mine is None or mine == theirs for mine, theirs in zip(given, known, strict=True)
    )
