"""What one transaction changes of the memories, collected before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from .memory_index_records import IndexedChange, IndexKind
from .memory_keys import AgentId, VectorId
from .memory_records import Memory


class MemoryChanges:
    """Collects new versions and what is said anew about others; says what the indexes have to be told."""

    def __init__(self, next_row: int) -> None:
        self.next_row = next_row
        self._added: dict[int, Memory] = {}
        self._changed: dict[int, Memory] = {}
        self._before: dict[VectorId, Memory | None] = {}
        self._after: dict[VectorId, Memory | None] = {}
        self._agents: dict[VectorId, AgentId] = {}

    @property
    def added(self) -> Sequence[Memory]:
        """The new versions, in their order."""
        return list(self._added.values())

    @property
    def changed(self) -> Sequence[Memory]:
        """Versions that were there, as they are now."""
        return list(self._changed.values())

    def add(self, memory: Memory) -> Memory:
        """Add a version, in the row that comes next; the version that it replaces has to be ended first."""
        placed = replace(memory, row_id=self.next_row)
        self.next_row += 1
        self._added[placed.row_id] = placed
        if placed.is_active:
            self._note(placed.vector_id, placed.agent_id, before=None, after=placed)
        return placed

    def say(self, memory: Memory) -> None:
        """Say something anew about a version."""
        rows = self._added if memory.row_id in self._added else self._changed
        rows[memory.row_id] = memory
        if memory.is_active and memory.vector_id in self._after:
            self._after[memory.vector_id] = memory

    def end(self, memory: Memory, *, by: Memory | None, at: datetime, reason: str) -> Memory:
        """Supersede an active version by another, or by nothing."""
        ended = replace(
            memory,
            superseded_at=at,
            superseded_by=by.version_id if by is not None else None,
            reason=reason,
            valid_to=max(memory.valid_from, by.valid_from if by is not None else at),
        )
        self.say(ended)
        self._note(memory.vector_id, memory.agent_id, before=memory, after=None)
        return ended

    def drop(self, memory: Memory) -> None:
        """Take note that a version goes for good, which is written elsewhere."""
        if memory.is_active:
            self._note(memory.vector_id, memory.agent_id, before=memory, after=None)

    def indexed(self) -> Sequence[IndexedChange]:
        """What changed for each index, in order."""
        found = []
        for vector_id, after in self._after.items():
            before = self._before[vector_id]
            if (before and before.version_id) == (after and after.version_id):
                continue
            kinds: list[IndexKind] = ["keyword"]
            if _has_vector(before) or _has_vector(after):
                kinds.append("vector")
            found += [IndexedChange(kind=kind, agent_id=self._agents[vector_id], vector_id=vector_id) for kind in kinds]
        return found

    def without_vector(self) -> Sequence[VectorId]:
        """Ids that have had a vector and must have none from now on."""
        return [
            vector_id
            for vector_id, before in self._before.items()
            if _has_vector(before) and not _has_vector(self._after[vector_id])
        ]

    def _note(self, vector_id: VectorId, agent_id: AgentId, *, before: Memory | None, after: Memory | None) -> None:
        self._before.setdefault(vector_id, before)
        self._after[vector_id] = after
        self._agents[vector_id] = agent_id


def _has_vector(memory: Memory | None) -> bool:
    return memory is not None and memory.kind != "task"
