"""Reads memories across agents and scopes: for the indexes, the jobs and the doctor, never for a conversation."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import cast

from .database import Database, to_stored
from .memory_embeddings import read_embeddings
from .memory_index_records import Embedding, MemoryCounts
from .memory_keys import AgentId, VectorId
from .memory_records import Memory
from .memory_rows import select_memories


class MemoryScan:
    """Reads through one connection: for one thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def agents(self) -> list[AgentId]:
        """The agents that have memories, superseded ones too."""
        rows = self._database.query("SELECT DISTINCT agent_id FROM agent_state ORDER BY agent_id")
        return [AgentId(cast(str, agent_id)) for (agent_id,) in rows]

    def active_page(self, after_row: int = 0, limit: int = 500, agent_id: AgentId | None = None) -> list[Memory]:
        """The next active memories of an agent, or of all, in the order in which they were stored."""
        return select_memories(
            self._database,
            "WHERE superseded_at IS NULL AND row_id > ? AND (?::VARCHAR IS NULL OR agent_id = ?)"
            " ORDER BY row_id LIMIT ?",
            [after_row, agent_id, agent_id, limit],
        )

    def unverified_page(self, after_row: int = 0, limit: int = 100) -> list[Memory]:
        """The next active memories that have yet to be verified, in the order in which they were stored."""
        return select_memories(
            self._database,
            "WHERE superseded_at IS NULL AND verification = 'unverified' AND row_id > ? ORDER BY row_id LIMIT ?",
            [after_row, limit],
        )

    def idle(self, agent_id: AgentId, idle_since: datetime, today: datetime, floor: float) -> list[Memory]:
        """An agent's active memories that are surer than a floor, idle, and did not decay on that UTC day yet.

        Args:
            idle_since: Neither accessed nor stored nor confirmed after this.
        """
        return select_memories(
            self._database,
            "WHERE agent_id = ? AND superseded_at IS NULL AND confidence > ? AND updated_at <= ?"
            " AND coalesce(accessed_at, created_at) <= ?"
            " AND coalesce(decayed_at < date_trunc('day', ?::TIMESTAMP), TRUE) ORDER BY row_id",
            [agent_id, floor, to_stored(idle_since), to_stored(idle_since), to_stored(today)],
        )

    def embeddings(self, vector_ids: Iterable[VectorId]) -> dict[VectorId, Embedding]:
        """What these vectors were made of; those that are not registered are missing."""
        return read_embeddings(self._database, vector_ids)

    def embedded_models(self) -> dict[tuple[str, int], int]:
        """How many vectors there are of each model and length."""
        rows = self._database.query(
            "SELECT model, dimensions, count(*) FROM memory_embeddings GROUP BY model, dimensions ORDER BY ALL"
        )
        return {(cast(str, model), cast(int, length)): cast(int, count) for model, length, count in rows}

    def counts(self) -> MemoryCounts:
        """How much there is."""
        [(active, superseded, tasks, unverified, embeddings)] = self._database.query(
            "SELECT count(*) FILTER (superseded_at IS NULL), count(*) FILTER (superseded_at IS NOT NULL),"
            " count(*) FILTER (superseded_at IS NULL AND kind = 'task'),"
            " count(*) FILTER (superseded_at IS NULL AND verification = 'unverified'),"
            " (SELECT count(*) FROM memory_embeddings) FROM agent_state"
        )
        pending = self._database.query("SELECT kind, count(*) FROM memory_outbox GROUP BY kind ORDER BY kind")
        parked = self._database.query("SELECT kind, count(*) FROM memory_outbox_parked GROUP BY kind ORDER BY kind")
        return MemoryCounts(
            active=cast(int, active),
            superseded=cast(int, superseded),
            tasks=cast(int, tasks),
            unverified=cast(int, unverified),
            embeddings=cast(int, embeddings),
            pending={cast(str, kind): cast(int, count) for kind, count in pending},
            parked={cast(str, kind): cast(int, count) for kind, count in parked},
        )
