"""The file of all memories: written in batches with one commit each, and what its indexes have yet to be told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import cast

from .database import Database, to_stored
from .errors import PerdureError
from .fault_points import fault_point
from .hot_memories import HotMemories
from .memory_batch import Concerned, MemoryBatch, begin_batch
from .memory_changes import MemoryChanges
from .memory_embeddings import read_embeddings, remove_embeddings, write_embeddings
from .memory_erasure import erase
from .memory_index_records import Embedding, IndexKind, PendingChange
from .memory_input import (
    checked_fact_type,
    checked_reason,
    checked_value,
    checked_write,
    content_hash,
    is_uuid,
    stored_key,
    stored_metadata,
    stored_moment,
)
from .memory_keys import AgentId, Scope, Visibility, parse_vector_id
from .memory_outbox import MemoryOutbox, with_memories
from .memory_reader import MemoryReader
from .memory_readers import MemoryReaders
from .memory_records import FORGOTTEN, Memory, MemoryId, Verification, VersionId
from .memory_rows import insert_memories, update_memories
from .memory_scan import MemoryScan
from .memory_write_records import Access, Erased, MemoryWrite, WriteRefused, WriteResult
from .memory_writes import WriteRecord, insert_writes, read_writes, recorded
from .replay import replayable
from .settings import MemorySettings

MIB = 1024 * 1024


class MemoryStore:
    """The only writer of the file of memories. One thread writes; `hot` may be asked by any.

    Every write is one transaction, durable on return, and may be repeated: it then changes nothing more. What the
    indexes have to be told is committed with it.
    """

    def __init__(self, database: Database, settings: MemorySettings) -> None:
        self._database = database
        self._settings = settings
        self._outbox = MemoryOutbox(database)
        self._next_row = _next_row(database)
        self.hot = HotMemories(database.reader(), settings.hot_mib * MIB)
        """Active memories, from memory where they are held."""

    @classmethod
    def open(cls, path: Path, settings: MemorySettings) -> MemoryStore:
        """Open the file, or create it. Raises as `Database.open`."""
        database = Database.open(path, "memory", settings.file_memory_limit_mib)
        try:
            return cls(database, settings)
        except BaseException:
            database.close()
            raise

    def readers(self) -> MemoryReaders:
        """Reads for another thread."""
        return MemoryReaders(self._database.reader())

    @property
    def committed_seq(self) -> int:
        """The place of the last change that the indexes have to be told; -1 if there was none."""
        return self._outbox.next_seq - 1

    def recent_changes(self, kind: IndexKind, after: int, limit: int) -> list[PendingChange] | None:
        """As `MemoryOutboxReader.pending`, out of memory; None where not all of it is there. Every thread may ask."""
        recent = self._outbox.recent(kind, after, limit)
        if recent is None or not all(self.hot.holds(change.agent_id) for change in recent):
            return None
        return with_memories(kind, recent, self.hot.by_vector_ids)

    @property
    def wal_bytes(self) -> int:
        """Size of the file's write-ahead log."""
        return self._database.wal_bytes

    def tidy(self) -> None:
        """Fold the write-ahead log into the file; nothing is lost without it."""
        self._database.fold_wal()

    def close(self) -> None:
        """Release the file."""
        self._database.close()

    # Memories.

    @replayable
    def write_memories(self, *, writes: Sequence[MemoryWrite]) -> list[WriteResult | WriteRefused]:
        """Store values under their keys, all in one commit, each on top of those before it.

        Returns:
            What each did, in order. One that cannot be stored harms none of the others.
        """
        checked = [self._checked(write) for write in writes]
        taken = [write for write in checked if isinstance(write, MemoryWrite)]
        known = read_writes(self._database, taken) if taken else {}
        fresh = [write for write in taken if (write.agent_id, write.write_id) not in known]
        changes, batch = self._begin(
            (write.agent_id, (write.key,), (write.memory_id, *(target.memory_id for target in write.supersedes)))
            for write in fresh
        )
        records: list[WriteRecord] = []
        results: list[WriteResult | WriteRefused] = []
        for write in checked:
            if isinstance(write, WriteRefused):
                results.append(write)
                continue
            repeated = known.get((write.agent_id, write.write_id))
            if repeated is not None:
                results.append(repeated.answer(write))
                continue
            try:
                record = recorded(write, batch.write(write))
            except PerdureError as error:
                results.append(WriteRefused(write_id=write.write_id, error=error))
                continue
            known[write.agent_id, write.write_id] = record
            records.append(record)
            results.append(record.result)
        if records:
            self._commit(changes, max(record.written_at for record in records), records)
        return results

    @replayable
    def supersede(
        self, *, agent_id: AgentId, versions: Sequence[VersionId], by: VersionId | None, reason: str, at: datetime
    ) -> list[VersionId]:
        """Supersede those versions that are still active; the others are left as they are.

        Args:
            by: The active version that takes their place, of the same scope. None: nothing does.

        Returns:
            What was superseded now. Nothing, if `by` is no longer active.
        """
        why, when = checked_reason(reason), stored_moment(at)
        wanted = [version.memory_id for version in versions] + ([by.memory_id] if by is not None else [])
        changes, batch = self._begin([(agent_id, (), wanted)])
        successor = None if by is None else self._active(agent_id, by)
        if by is not None and successor is None:
            return []
        ended = batch.supersede(versions, agent_id, by=successor, at=when, reason=why)
        self._commit(changes, when)
        return ended

    @replayable
    def forget(self, *, agent_id: AgentId, scope: Scope, key: str, at: datetime) -> VersionId | None:
        """Supersede what is active under a key by nothing; returns it, or None if there was nothing."""
        wanted = stored_key(key)
        active = self.hot.current(Visibility(agent_id=agent_id, scopes=(scope,)), wanted)
        if active is None:
            return None
        versions = [active.version_id]
        self.supersede(agent_id=agent_id, versions=versions, by=None, reason=FORGOTTEN, at=at)
        return active.version_id

    @replayable
    def update_memory(
        self,
        *,
        visible: Visibility,
        memory_id: MemoryId,
        value: str | None = None,
        metadata: str | None = None,
        fact_type: str | None = None,
        at: datetime,
    ) -> Memory | None:
        """Add a version in which what is given is different; what is not given stays.

        Returns:
            The active version. None: there is none of that id that may be seen.
        """
        value = None if value is None else checked_value(value, self._settings)
        metadata = None if metadata is None else stored_metadata(metadata)
        fact_type = None if fact_type is None else checked_fact_type(fact_type)
        when = stored_moment(at)
        changes, batch = self._begin([(visible.agent_id, (), (memory_id,))])
        found = [memory for memory in self._matching(visible.agent_id, [memory_id]) if visible.includes(memory.scope)]
        if not found:
            return None
        updated = batch.replace_version(
            found[0], at=when, value=value, metadata=metadata, fact_type=fact_type, reason="updated"
        )
        self._commit(changes, when)
        return updated

    @replayable
    def record_access(self, *, agent_id: AgentId, accesses: Sequence[Access]) -> None:
        """Raise how often and how lately active memories were used; others are left alone.

        A repeat counts again: it is no harm to rank by.
        """
        changes = MemoryChanges(self._next_row)
        found = {memory.memory_id: memory for memory in self._matching(agent_id, [use.memory_id for use in accesses])}
        for access in accesses:
            memory = found.get(access.memory_id)
            if memory is None:
                continue
            at = stored_moment(access.at)
            used = replace(
                memory,
                access_count=memory.access_count + access.times,
                accessed_at=at if memory.accessed_at is None else max(at, memory.accessed_at),
            )
            found[access.memory_id] = used
            changes.say(used)
        self._commit(changes, None)

    @replayable
    def set_verification(self, *, agent_id: AgentId, versions: Sequence[VersionId], verification: Verification) -> None:
        """Note whether active versions have been verified; others are left alone."""
        changes = MemoryChanges(self._next_row)
        wanted = set(versions)
        for memory in self._matching(agent_id, [version.memory_id for version in versions]):
            if memory.version_id in wanted and memory.verification != verification:
                changes.say(replace(memory, verification=verification))
        self._commit(changes, None)

    @replayable
    def decay(
        self, *, agent_id: AgentId, idle_since: datetime, factor: float, floor: float, at: datetime
    ) -> list[VersionId]:
        """Lower the confidence of an agent's active memories that are idle, at most once a UTC day.

        Args:
            idle_since: Neither accessed nor stored nor confirmed after this.
            floor: No confidence gets lower by it.

        Returns:
            Those that are less sure now.
        """
        when = stored_moment(at)
        changes = MemoryChanges(self._next_row)
        idle = MemoryScan(self._database).idle(agent_id, idle_since, when, floor)
        for memory in idle:
            changes.say(replace(memory, confidence=max(floor, memory.confidence * factor), decayed_at=when))
        self._commit(changes, None)
        return [memory.version_id for memory in idle]

    @replayable
    def erase_memories(
        self, *, visible: Visibility, memory_ids: Sequence[MemoryId] | None = None, at: datetime
    ) -> Erased:
        """Erase every version of some memories, or of all that may be seen. A repeat of their writes stores nothing.

        Their ids stay where other memories point to them, and in the outbox until the indexes have been told. Free
        places of the file keep the bytes until they are written over.
        """
        versions = MemoryReader(self._database).every_version(visible, memory_ids)
        if not versions:
            return Erased()
        when = stored_moment(at)
        changes = MemoryChanges(self._next_row)
        for memory in versions:
            changes.drop(memory)
        embeddings = read_embeddings(self._database, changes.without_vector())
        self._commit(changes, when, erased=[replace(memory, superseded_at=when) for memory in versions])
        return Erased(
            memories=len({memory.memory_id for memory in versions}),
            versions=len(versions),
            embeddings=len(embeddings),
        )

    @replayable
    def prune_writes(self, *, before: datetime) -> None:
        """Forget what writes did before a moment: a repeat of one of them is then a write like any other."""
        with self._database.transaction() as transaction:
            transaction.execute("DELETE FROM memory_writes WHERE written_at < ?", [to_stored(before)])

    # What the indexes are told.

    @replayable
    def acknowledge(self, *, kind: IndexKind, seq: int) -> None:
        """Note that an index has all changes up to a place."""
        with self._database.transaction() as transaction:
            self._outbox.acknowledge(transaction, kind, seq)

    @replayable
    def fail(self, *, kind: IndexKind) -> None:
        """Count a try of an index's next change that was in vain."""
        with self._database.transaction() as transaction:
            self._outbox.fail(transaction, kind)

    @replayable
    def park(self, *, kind: IndexKind, seq: int, error: str, at: datetime) -> None:
        """Put an index's next change aside, so that those behind it go on.

        Raises:
            InvalidInputError: It is not the next one.
        """
        with self._database.transaction() as transaction:
            self._outbox.park(transaction, kind, seq, error, at)

    @replayable
    def unpark(self, *, kind: IndexKind, seq: int, at: datetime) -> None:
        """Tell an index of a parked change once more, behind all others."""
        with self._database.transaction() as transaction:
            told = self._outbox.unpark(transaction, kind, seq, at)
        self._outbox.told(told, at)

    @replayable
    def record_embeddings(self, *, embeddings: Sequence[Embedding]) -> list[Embedding]:
        """Register what vectors were made of, where that is still what is to be found under their ids.

        Returns:
            Those that were registered. Of the others the value has changed or gone since, which the index is told.
        """
        registered = [embedding for embedding in embeddings if self._is_current(embedding)]
        with self._database.transaction() as transaction:
            write_embeddings(transaction, self._database, registered)
        return registered

    def _is_current(self, embedding: Embedding) -> bool:
        parsed = parse_vector_id(embedding.vector_id)
        if parsed is None:
            return False
        agent_id, scope, key = parsed
        active = self.hot.current(Visibility(agent_id=agent_id, scopes=(scope,)), key)
        return active is not None and active.kind != "task" and content_hash(active.value) == embedding.content_hash

    # Inside.

    def _checked(self, write: MemoryWrite) -> MemoryWrite | WriteRefused:
        try:
            return checked_write(write, self._settings)
        except PerdureError as error:
            return WriteRefused(write_id=write.write_id, error=error)

    def _matching(self, agent_id: AgentId, memory_ids: Iterable[str], keys: Iterable[str] = ()) -> list[Memory]:
        return self.hot.matching(agent_id, keys, [MemoryId(each) for each in memory_ids if is_uuid(each)])

    def _active(self, agent_id: AgentId, version: VersionId) -> Memory | None:
        found = self._matching(agent_id, [version.memory_id])
        return next((memory for memory in found if memory.version_id == version), None)

    def _begin(self, concerned: Iterable[Concerned]) -> tuple[MemoryChanges, MemoryBatch]:
        changes = MemoryChanges(self._next_row)
        return changes, begin_batch(self._database, self.hot, changes, self._settings, concerned)

    def _commit(
        self,
        changes: MemoryChanges,
        at: datetime | None,
        records: Sequence[WriteRecord] = (),
        erased: Sequence[Memory] = (),
    ) -> None:
        """Write what was collected, and only then take note of it.

        Args:
            at: When; None where the indexes have to be told nothing.
        """
        indexed = changes.indexed()
        with self.hot.changing():
            with self._database.transaction() as transaction:
                insert_memories(transaction, changes.added)
                update_memories(transaction, changes.changed)
                if at is not None:
                    self._outbox.tell(transaction, indexed, at)
                remove_embeddings(transaction, changes.without_vector())
                insert_writes(transaction, records)
                if erased:
                    erase(transaction, self._outbox, erased)
                fault_point("memory.before_commit")
            self.hot.apply([*erased, *changes.changed, *changes.added])
        self._next_row = _next_row(self._database) if erased else changes.next_row
        if at is not None:
            self._outbox.told(indexed, at)
        fault_point("memory.committed")


def _next_row(database: Database) -> int:
    [(highest,)] = database.query("SELECT coalesce(max(row_id), 0) FROM agent_state")
    return cast(int, highest) + 1
