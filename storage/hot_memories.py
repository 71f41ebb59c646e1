"""The active memories of the agents used last, kept in memory for recall; every thread may ask."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar, cast

from .active_memories import ROW_BYTES, ActiveMemories, memory_bytes
from .database import Database
from .memory_keys import AgentId, VectorId, Visibility
from .memory_reader import MemoryReader
from .memory_records import KeyMatch, Memory, MemoryId
from .memory_rows import select_memories
from .touches import Touches

Answer = TypeVar("Answer")


class HotMemories:
    """Reads as `MemoryReader`, from memory where it can; always what the file says.

    An agent is read in when it is first asked for. Beyond the limit the agents longest unused go, and an agent
    that is over the limit by itself is answered from the file. Either takes its time, which `holds` foretells.
    """

    def __init__(self, database: Database, limit_bytes: int) -> None:
        self._reader = MemoryReader(database)
        self._limit_bytes = limit_bytes
        self._held: OrderedDict[AgentId, ActiveMemories] = OrderedDict()
        self._too_large: dict[AgentId, int] = {}
        self._changing = threading.Lock()  # a commit and its `apply`, or reading an agent in: never between the two
        self._reading = threading.Lock()  # the reader is for one thread at a time
        self._holding = threading.Lock()

    @property
    def held_bytes(self) -> int:
        """What is held, by estimate."""
        with self._holding:
            return sum(held.bytes for held in self._held.values())

    def holds(self, agent_id: AgentId) -> bool:
        """Are the agent's memories held now?"""
        with self._holding:
            return agent_id in self._held

    def current(self, visible: Visibility, key: str) -> Memory | None:
        """As `MemoryReader.current`."""
        return self._ask(visible.agent_id, lambda memories: memories.current(visible, key))

    def by_vector_ids(self, visible: Visibility, vector_ids: Iterable[VectorId]) -> dict[VectorId, Memory]:
        """As `MemoryReader.by_vector_ids`."""
        wanted = list(vector_ids)
        return self._ask(visible.agent_id, lambda memories: memories.by_vector_ids(visible, wanted))

    def by_rows(self, visible: Visibility, row_ids: Iterable[int]) -> dict[int, Memory]:
        """As `MemoryReader.by_rows`."""
        wanted = list(row_ids)
        return self._ask(visible.agent_id, lambda memories: memories.by_rows(visible, wanted))

    def exact_key(self, visible: Visibility, tokens: frozenset[str], limit: int = 100) -> list[KeyMatch]:
        """As `MemoryReader.exact_key`."""
        return self._ask(visible.agent_id, lambda memories: memories.exact_key(visible, tokens, limit))

    def has_any(self, visible: Visibility) -> bool:
        """As `MemoryReader.has_any`."""
        return self._ask(visible.agent_id, lambda memories: memories.has_any(visible))

    def touches(self, visible: Visibility) -> Touches:
        """As `MemoryReader.touches`."""
        return self._ask(visible.agent_id, lambda memories: memories.touches(visible))

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Around a commit and the `apply` that follows it."""
        with self._changing:
            yield

    def apply(self, memories: Iterable[Memory]) -> None:
        """Take note of versions as they have just been committed."""
        with self._holding:
            for memory in memories:
                held = self._held.get(memory.agent_id)
                if held is not None:
                    held.put(memory)
                elif memory.agent_id in self._too_large and not memory.is_active:
                    self._too_large[memory.agent_id] -= memory_bytes(memory)
                    if self._too_large[memory.agent_id] <= self._limit_bytes:
                        del self._too_large[memory.agent_id]
            self._trim()

    def matching(self, agent_id: AgentId, keys: Iterable[str], memory_ids: Iterable[MemoryId]) -> list[Memory]:
        """An agent's active memories of all scopes under one of these keys, or of these ids; for its writer."""
        wanted_keys, wanted_ids = list(keys), list(memory_ids)

        def ask(memories: ActiveMemories | MemoryReader) -> list[Memory]:
            if isinstance(memories, ActiveMemories):
                return memories.matching(wanted_keys, wanted_ids)
            return select_memories(
                memories.database,
                "WHERE agent_id = ? AND superseded_at IS NULL AND (key IN (SELECT unnest(?::VARCHAR[]))"
                " OR memory_id IN (SELECT unnest(?::UUID[]))) ORDER BY row_id",
                [agent_id, wanted_keys, wanted_ids],
            )

        return self._ask(agent_id, ask)

    def _ask(self, agent_id: AgentId, question: Callable[[ActiveMemories | MemoryReader], Answer]) -> Answer:
        for is_read_in in (False, True):
            with self._holding:
                held = self._held.get(agent_id)
                if held is not None:
                    self._held.move_to_end(agent_id)
                    return question(held)
            if not is_read_in and not self._read_in(agent_id):
                break
        with self._reading:
            return question(self._reader)

    def _read_in(self, agent_id: AgentId) -> bool:
        with self._changing:
            with self._holding:
                if agent_id in self._held:
                    return True
                if agent_id in self._too_large:
                    return False
            with self._reading:
                takes = self._takes(agent_id)
                memories = self._active(agent_id) if takes <= self._limit_bytes else ()
            with self._holding:
                if takes > self._limit_bytes:
                    self._too_large[agent_id] = takes
                    return False
                held = self._held[agent_id] = ActiveMemories()
                for memory in memories:
                    held.put(memory)
                self._trim()
            return True

    def _takes(self, agent_id: AgentId) -> int:
        [(takes,)] = self._reader.database.query(
            "SELECT coalesce(sum(strlen(key) + strlen(value) + strlen(metadata) + ?), 0)::BIGINT FROM agent_state"
            " WHERE agent_id = ? AND superseded_at IS NULL",
            [ROW_BYTES, agent_id],
        )
        return cast(int, takes)

    def _active(self, agent_id: AgentId) -> Sequence[Memory]:
        return select_memories(
            self._reader.database, "WHERE agent_id = ? AND superseded_at IS NULL ORDER BY row_id", [agent_id]
        )

    def _trim(self) -> None:
        total = sum(held.bytes for held in self._held.values())
        while total > self._limit_bytes and self._held:
            agent_id, held = self._held.popitem(last=False)
            total -= held.bytes
            if held.bytes > self._limit_bytes:
                self._too_large[agent_id] = held.bytes
