"""The active memories of one agent, held in memory in the shapes in which recall asks for them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from .memory_input import stored_key
from .memory_keys import AGENT_WIDE, Scope, VectorId, Visibility, key_segments
from .memory_records import KeyMatch, Memory, MemoryId
from .touches import TouchColumns, Touches

ROW_BYTES = 2200
"""What a memory takes beside its texts: measured, with its places in all the shapes."""


class ActiveMemories:
    """Answers as `MemoryReader` does, out of memory. For one thread at a time."""

    def __init__(self) -> None:
        self.bytes = 0
        """What it takes, by estimate."""
        self._memories: dict[int, Memory] = {}
        self._scopes: dict[Scope, _ScopeMemories] = {}
        self._row_of: dict[MemoryId, int] = {}
        self._row_of_vector: dict[VectorId, int] = {}
        self._with_segment: dict[str, set[int]] = {}

    def put(self, memory: Memory) -> None:
        """Hold a version as it is now: one that is no longer active is let go, before another takes its place."""
        before = self._memories.pop(memory.row_id, None)
        if before is not None and not memory.is_active:
            self._remove(before)
        elif memory.is_active:
            self._memories[memory.row_id] = memory
            touched_at = memory.accessed_at or memory.created_at
            self._scope(memory.scope).touches.put(memory.row_id, touched_at.timestamp(), memory.access_count)
            if before is None:
                self._add(memory)

    def matching(self, keys: Iterable[str], memory_ids: Iterable[MemoryId]) -> list[Memory]:
        """The memories of all scopes under one of these keys, or of these ids."""
        rows = {scope.row_of[key] for key in set(keys) for scope in self._scopes.values() if key in scope.row_of}
        rows.update(self._row_of[memory_id] for memory_id in memory_ids if memory_id in self._row_of)
        return [self._memories[row] for row in sorted(rows)]

    def current(self, visible: Visibility, key: str) -> Memory | None:
        """As `MemoryReader.current`."""
        wanted = stored_key(key)
        found = [self._memories[scope.row_of[wanted]] for scope in self._visible(visible) if wanted in scope.row_of]
        found.sort(key=lambda memory: -memory.row_id)
        return min(found, key=lambda memory: visible.precedence(memory.scope), default=None)

    def by_vector_ids(self, visible: Visibility, vector_ids: Iterable[VectorId]) -> dict[VectorId, Memory]:
        """As `MemoryReader.by_vector_ids`."""
        found = {}
        for vector_id in vector_ids:
            row = self._row_of_vector.get(vector_id)
            if row is not None and visible.includes((memory := self._memories[row]).scope):
                found[vector_id] = memory
        return found

    def by_rows(self, visible: Visibility, row_ids: Iterable[int]) -> dict[int, Memory]:
        """As `MemoryReader.by_rows`."""
        held = ((row, self._memories.get(row)) for row in row_ids)
        return {row: memory for row, memory in held if memory is not None and visible.includes(memory.scope)}

    def exact_key(self, visible: Visibility, tokens: frozenset[str], limit: int = 100) -> list[KeyMatch]:
        """As `MemoryReader.exact_key`."""
        counts: dict[int, int] = {}
        for token in tokens:
            for row in self._with_segment.get(token, ()):
                counts[row] = counts.get(row, 0) + 1
        matching = (
            (-segments, -self._memories[row].confidence, -row)
            for row, segments in counts.items()
            if visible.includes(self._memories[row].scope)
        )
        return [
            KeyMatch(memory=self._memories[-row], segments=-segments)
            for segments, _, row in heapq.nsmallest(limit, matching)
        ]

    def has_any(self, visible: Visibility) -> bool:
        """As `MemoryReader.has_any`."""
        return any(scope.row_of for scope in self._visible(visible))

    def touches(self, visible: Visibility) -> Touches:
        """As `MemoryReader.touches`."""
        return Touches.joined([scope.touches.view() for scope in self._visible(visible)])

    def _visible(self, visible: Visibility) -> Iterable[_ScopeMemories]:
        if visible.scopes is None:
            return self._scopes.values()
        return [self._scopes[scope] for scope in dict.fromkeys(visible.scopes) if scope in self._scopes]

    def _scope(self, scope: Scope) -> _ScopeMemories:
        found = self._scopes.get(scope)
        if found is None:
            found = self._scopes[scope] = _ScopeMemories()
        return found

    def _add(self, memory: Memory) -> None:
        self.bytes += memory_bytes(memory)
        self._scope(memory.scope).row_of[memory.key] = memory.row_id
        self._row_of[memory.memory_id] = memory.row_id
        self._row_of_vector[memory.vector_id] = memory.row_id
        for segment in key_segments(memory.key):
            self._with_segment.setdefault(segment, set()).add(memory.row_id)

    def _remove(self, memory: Memory) -> None:
        self.bytes -= memory_bytes(memory)
        scope = self._scope(memory.scope)
        scope.touches.remove(memory.row_id)
        del scope.row_of[memory.key], self._row_of[memory.memory_id], self._row_of_vector[memory.vector_id]
        if not len(scope.touches) and memory.scope != AGENT_WIDE:
            del self._scopes[memory.scope]
        for segment in key_segments(memory.key):
            rows = self._with_segment[segment]
            rows.discard(memory.row_id)
            if not rows:
                del self._with_segment[segment]


class _ScopeMemories:
    """What is held of one scope."""

    def __init__(self) -> None:
        self.row_of: dict[str, int] = {}
        self.touches = TouchColumns()


def memory_bytes(memory: Memory) -> int:
    """What a memory takes, by estimate."""
    texts = (memory.key, memory.value, memory.metadata)
    return ROW_BYTES + sum(len(text) if text.isascii() else len(text.encode("utf-8")) for text in texts)
