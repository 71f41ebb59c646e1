"""Writes to an index that wait in memory to be made together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import pyarrow as pa  # type: ignore[import-untyped]

from .index_records import IndexRow, SourceId
from .index_rows import row_id, row_ids
from .lance_table import LanceTable

Row = TypeVar("Row", bound=IndexRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pending(Generic[Row]):
    row: Row | None
    is_deleted_first: bool
    """What is stored goes, whatever its revision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    revision: int
    chunks: int


class WriteBuffer(Generic[Row]):
    """The newest row of each source that is not yet written. Threads may share it.

    The index is derived, and what is to be indexed stays in an outbox until `flush` has returned: what waits here
    may be lost with the process.
    """

    def __init__(
        self,
        table: LanceTable,
        as_arrow: Callable[[Sequence[Row]], pa.Table],
        chunks_of: Callable[[Row], int],
        most: int,
    ) -> None:
        self._table = table
        self._as_arrow = as_arrow
        self._chunks_of = chunks_of
        self._most = most
        self._pending: dict[SourceId, _Pending[Row]] = {}
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._pending)

    def upsert(self, rows: Sequence[Row]) -> None:
        """Take rows in; those older than one that waits are dropped. A full buffer is written."""
        with self._lock:
            for row in rows:
                waiting = self._pending.get(row.source)
                if waiting is None or waiting.row is None or waiting.row.revision < row.revision:
                    is_deleted_first = waiting is not None and waiting.is_deleted_first
                    self._pending[row.source] = _Pending(row=row, is_deleted_first=is_deleted_first)
            self._flush_if_full()

    def delete(self, sources: Sequence[SourceId]) -> None:
        """Take deletions in; what waits of these sources goes, too."""
        with self._lock:
            for source in sources:
                self._pending[source] = _Pending(row=None, is_deleted_first=True)
            self._flush_if_full()

    def _flush_if_full(self) -> None:
        if len(self._pending) >= self._most:
            self.flush()

    def flush(self) -> None:
        """Write what waits, in one commit. On a failure it goes on waiting."""
        with self._lock:
            if not self._pending:
                return
            stored = self._stored(list(self._pending))
            rows: list[Row] = []
            gone: list[str] = []
            for source, pending in self._pending.items():
                known = stored.get(source)
                chunks = 0
                if pending.row is not None:
                    if known and not pending.is_deleted_first and known.revision >= pending.row.revision:
                        continue
                    rows.append(pending.row)
                    chunks = self._chunks_of(pending.row)
                if known:
                    gone += row_ids(source, range(chunks, known.chunks))
            self._table.commit(self._as_arrow(rows), gone)
            self._pending.clear()

    def _stored(self, sources: Sequence[SourceId]) -> dict[SourceId, _Stored]:
        columns = ("source", "revision", "chunks")
        found = self._table.rows_of([row_id(source, 0) for source in sources], columns)
        return {
            SourceId(source): _Stored(revision=revision, chunks=chunks)
            for source, revision, chunks in zip(*(found.column(name).to_pylist() for name in columns), strict=True)
        }

    def stored_revisions(self, condition: str | None) -> list[tuple[SourceId, int]]:
        """(source, revision) of everything, what waits included, in no order."""
        self.flush()
        first = "chunk = 0" if condition is None else f"chunk = 0 AND {condition}"
        found = self._table.rows(first, ("source", "revision"))
        sources = map(SourceId, found.column("source").to_pylist())
        return list(zip(sources, found.column("revision").to_pylist(), strict=True))
