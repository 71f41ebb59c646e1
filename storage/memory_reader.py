"""Reads memories straight from the file; every read says whose memories may be seen."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import cast

from .database import Database, to_stored
from .memory_input import is_uuid, stored_key
from .memory_keys import AGENT_WIDE, VectorId, Visibility, matching_segments, parse_vector_id
from .memory_records import KeyMatch, Memory, MemoryFilter, MemoryId, MemoryOrder, Touch, VersionId
from .memory_rows import select_memories
from .text import clean_text
from .touches import Touches

_VISIBLE = "agent_id = ? AND (?::BOOLEAN OR (contact_id IS NULL AND ?) OR list_contains(?::VARCHAR[], contact_id))"
_FILTERED = (
    "(? IS NULL OR list_contains(?::VARCHAR[], kind)) AND (?::VARCHAR IS NULL OR graph_id = ?)"
    " AND (?::VARCHAR IS NULL OR task_id = ?) AND (?::VARCHAR IS NULL OR session_id = ?)"
    " AND (?::TIMESTAMP IS NULL OR created_at >= ?) AND (?::TIMESTAMP IS NULL OR created_at <= ?)"
    " AND (?::VARCHAR IS NULL OR contains(lower(value), lower(?)))"
)
_ORDERS = {
    ("created_at", True): "ORDER BY created_at DESC, row_id DESC",
    ("created_at", False): "ORDER BY created_at, row_id",
    ("updated_at", True): "ORDER BY updated_at DESC, row_id DESC",
    ("updated_at", False): "ORDER BY updated_at, row_id",
}
EVERY_MEMORY = MemoryFilter()
NEWEST_FIRST = MemoryOrder()


class MemoryReader:
    """Reads through one connection: for one thread. Superseded versions are seen only where a method says so."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def current(self, visible: Visibility, key: str) -> Memory | None:
        """The active version of a key, from the first scope that has one; of equal scopes the newest."""
        found = self._select(visible, "AND superseded_at IS NULL AND key = ? ORDER BY row_id DESC", [stored_key(key)])
        return min(found, key=lambda memory: visible.precedence(memory.scope), default=None)

    def by_id(self, visible: Visibility, memory_id: MemoryId) -> Memory | None:
        """The active version of a memory; of one that was superseded, the version that was last active."""
        if not is_uuid(memory_id):
            return None
        found = self._select(
            visible, "AND memory_id = ? ORDER BY superseded_at DESC NULLS FIRST, version DESC LIMIT 1", [memory_id]
        )
        return found[0] if found else None

    def version(self, visible: Visibility, version_id: VersionId) -> Memory | None:
        """One version, whether or not it is active."""
        if not is_uuid(version_id.memory_id):
            return None
        found = self._select(visible, "AND memory_id = ? AND version = ?", [version_id.memory_id, version_id.version])
        return found[0] if found else None

    def by_vector_ids(self, visible: Visibility, vector_ids: Iterable[VectorId]) -> dict[VectorId, Memory]:
        """The active versions that the indexes hold under these ids; what is no longer active is missing."""
        wanted = set(vector_ids)
        keys = [parsed[2] for parsed in map(parse_vector_id, wanted) if parsed is not None]
        found = self._select(visible, "AND superseded_at IS NULL AND key IN (SELECT unnest(?::VARCHAR[]))", [keys])
        by_id = {memory.vector_id: memory for memory in found}
        return {vector_id: by_id[vector_id] for vector_id in wanted & by_id.keys()}

    def by_rows(self, visible: Visibility, row_ids: Iterable[int]) -> dict[int, Memory]:
        """The active versions in these rows; what is no longer active is missing."""
        rows = list(row_ids)
        found = self._select(visible, "AND superseded_at IS NULL AND row_id IN (SELECT unnest(?::BIGINT[]))", [rows])
        return {memory.row_id: memory for memory in found}

    def exact_key(self, visible: Visibility, tokens: frozenset[str], limit: int = 100) -> list[KeyMatch]:
        """Active memories with a segment of the key among the tokens, most segments first, then surest, then newest."""
        matching = [
            (-segments, -cast(float, confidence), -cast(int, row_id))
            for row_id, key, confidence in self._query(
                "SELECT row_id, key, confidence FROM agent_state", visible, "AND superseded_at IS NULL"
            )
            if (segments := matching_segments(cast(str, key), tokens))
        ]
        best = heapq.nsmallest(limit, matching)
        found = self.by_rows(visible, [-row for _, _, row in best]) if best else {}
        return [KeyMatch(memory=found[-row], segments=-segments) for segments, _, row in best if -row in found]

    def has_any(self, visible: Visibility) -> bool:
        """Is anything active?"""
        return bool(self._query("SELECT 1 FROM agent_state", visible, "AND superseded_at IS NULL LIMIT 1"))

    def touches(self, visible: Visibility) -> Touches:
        """How lately and how often each active memory was used, in no order."""
        return Touches.of(
            Touch(row_id=cast(int, row_id), touched_s=cast(float, touched_s), access_count=cast(int, count))
            for row_id, touched_s, count in self._query(
                "SELECT row_id, epoch(coalesce(accessed_at, created_at)), access_count FROM agent_state",
                visible,
                "AND superseded_at IS NULL",
            )
        )

    def history(self, visible: Visibility, key: str) -> list[Memory]:
        """Every version that was stored under a key, superseded ones too, in the order in which they were stored."""
        return self._select(visible, "AND key = ? ORDER BY row_id", [stored_key(key)])

    def every_version(self, visible: Visibility, memory_ids: Iterable[MemoryId] | None = None) -> list[Memory]:
        """Every version of some memories, or of all, superseded ones too, in the order in which they were stored."""
        wanted = None if memory_ids is None else [each for each in memory_ids if is_uuid(each)]
        return self._select(
            visible, "AND (? IS NULL OR list_contains(?::UUID[], memory_id)) ORDER BY row_id", [wanted, wanted]
        )

    def as_of(self, visible: Visibility, moment: datetime, key: str | None = None) -> list[Memory]:
        """What held at a moment, of a key or of all, superseded versions too: one of each memory, oldest first.

        A version holds from what was said first to what was said next, or to when it was forgotten.
        """
        when = to_stored(moment)
        wanted = None if key is None else stored_key(key)
        return self._select(
            visible,
            "AND (?::VARCHAR IS NULL OR key = ?) AND valid_from <= ? AND (valid_to IS NULL OR valid_to > ?)"
            " QUALIFY row_number() OVER (PARTITION BY memory_id ORDER BY valid_from DESC, row_id DESC) = 1"
            " ORDER BY row_id",
            [wanted, wanted, when, when],
        )

    def page(
        self,
        visible: Visibility,
        wanted: MemoryFilter = EVERY_MEMORY,
        order: MemoryOrder = NEWEST_FIRST,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Memory]:
        """A part of the active memories that pass a filter, in order."""
        rest = f"AND superseded_at IS NULL AND {_FILTERED} {_ORDERS[order.by, order.is_descending]} LIMIT ? OFFSET ?"
        return self._select(visible, rest, [*_filter_parameters(wanted), limit, offset])

    def count(self, visible: Visibility, wanted: MemoryFilter = EVERY_MEMORY) -> int:
        """How many active memories pass a filter."""
        rest = f"AND superseded_at IS NULL AND {_FILTERED}"
        [(count,)] = self._query("SELECT count(*) FROM agent_state", visible, rest, _filter_parameters(wanted))
        return cast(int, count)

    def _select(self, visible: Visibility, rest: str, parameters: Sequence[object]) -> list[Memory]:
        return select_memories(self.database, f"WHERE {_VISIBLE} {rest}", [*_visible_parameters(visible), *parameters])

    def _query(
        self, select: str, visible: Visibility, rest: str, parameters: Sequence[object] = ()
    ) -> list[tuple[object, ...]]:
        return self.database.query(f"{select} WHERE {_VISIBLE} {rest}", [*_visible_parameters(visible), *parameters])


def _visible_parameters(visible: Visibility) -> list[object]:
    scopes = visible.scopes or ()
    contacts = [scope.contact_id for scope in scopes if scope.contact_id is not None]
    return [visible.agent_id, visible.scopes is None, AGENT_WIDE in scopes, contacts]


def _filter_parameters(wanted: MemoryFilter) -> list[object]:
    texts = (wanted.graph_id, wanted.task_id, wanted.session_id, wanted.containing)
    graph_id, task_id, session_id, containing = (None if text is None else clean_text(text) for text in texts)
    moments = (wanted.created_from, wanted.created_to)
    start, end = (None if moment is None else to_stored(moment) for moment in moments)
    kinds = list(wanted.kinds) if wanted.kinds is not None else None
    given = (kinds, graph_id, task_id, session_id, start, end, containing)
    return [parameter for value in given for parameter in (value, value)]
