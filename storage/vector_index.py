"""The vector index: which memories or messages of a scope are nearest to a vector."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from .errors import EmbeddingMismatchError, InvalidInputError
from .hot_vectors import BYTES_PER_ROW, HotVectors, best_of
from .hot_vectors import COLUMNS as HOT_COLUMNS
from .index_records import EmbeddingSpace, IndexHit, RowType, SourceId, VectorRow
from .index_rows import columns_of, schema_with
from .index_scope import IndexScope, is_any_of
from .lance_table import LanceTable
from .layout import index_table
from .records import AgentName
from .settings import IndexSettings
from .write_buffer import WriteBuffer

_MODEL, _DIMENSIONS = b"embedding_model", b"embedding_dimensions"


class VectorIndex:
    """The vectors of all memories, or of all messages, of one embedding space. Threads may share it.

    The vectors of the agents searched last are kept in memory, under a limit, and searched there exactly; every
    write reaches them at once, and the table by `flush`. An agent with more is searched in the table.
    """

    def __init__(self, table: LanceTable, row_type: RowType, space: EmbeddingSpace, settings: IndexSettings) -> None:
        self._table = table
        self._row_type = row_type
        self._space = space
        self._settings = settings
        self._buffer = WriteBuffer(table, self._as_arrow, lambda row: len(row.vectors), settings.write_batch)
        self._hot: OrderedDict[AgentName, HotVectors] = OrderedDict()
        self._too_large: set[AgentName] = set()
        self._lock = threading.RLock()

    @classmethod
    def open(
        cls,
        folder: Path,
        row_type: RowType,
        space: EmbeddingSpace,
        settings: IndexSettings,
        *,
        may_create: bool = False,
    ) -> VectorIndex:
        """Open the table; `may_create`: nothing was ever indexed, so it may be missing.

        Raises:
            EmbeddingMismatchError: It holds vectors of another space.
            IndexDamagedError: It cannot be read or is missing.
        """
        path = index_table(folder, row_type, "vectors")
        table = LanceTable.open(path, _schema(space), settings, may_create=may_create)
        stored = EmbeddingSpace(
            model=table.metadata.get(_MODEL, b"an unknown model").decode(),
            dimensions=int(table.metadata.get(_DIMENSIONS, b"0")),
        )
        if stored != space:
            raise EmbeddingMismatchError(str(path), str(stored), str(space))
        return cls(table, row_type, space, settings)

    @classmethod
    def rebuild(cls, folder: Path, row_type: RowType, space: EmbeddingSpace, settings: IndexSettings) -> VectorIndex:
        """Drop whatever is there and begin anew, empty."""
        return cls(
            LanceTable.rebuild(index_table(folder, row_type, "vectors"), _schema(space), settings),
            row_type,
            space,
            settings,
        )

    def upsert(self, rows: Sequence[VectorRow]) -> None:
        """Put rows in the place of older ones of their sources, with all their chunks.

        Searches see them at once; on disk they are when `flush` has returned. May be repeated.

        Raises:
            InvalidInputError: A vector is of another length, or there is none. Nothing was taken.
        """
        for row in rows:
            if row.vectors.ndim != 2 or not len(row.vectors) or row.vectors.shape[1] != self._space.dimensions:
                raise InvalidInputError(
                    "vectors",
                    f"{row.source!r} has vectors of the shape {row.vectors.shape}",
                    f"give at least one of {self._space}",
                )
        try:
            self._buffer.upsert(rows)
        finally:  # after the buffer: whoever loads an agent meanwhile finds its rows here or there
            with self._lock:
                for row in rows:
                    if (hot := self._hot.get(row.agent)) is not None:
                        hot.upsert(row)

    def delete(self, sources: Sequence[SourceId]) -> None:
        """Take sources out with all their chunks; those that are not in do no harm."""
        try:
            self._buffer.delete(sources)
        finally:
            with self._lock:
                for hot in self._hot.values():
                    for source in sources:
                        hot.delete(source)

    def flush(self) -> None:
        """Write what waits. What an outbox holds for this index may go when this has returned."""
        self._buffer.flush()

    def search(
        self, vector: NDArray[np.float32], scope: IndexScope, limit: int, *, is_exact: bool = False
    ) -> list[IndexHit]:
        """The sources of a scope with the nearest vectors, nearest first; equally near ones by source.

        Args:
            vector: Of unit length.
            is_exact: Leave out nothing that is nearer, however large the scope is.
        """
        if vector.shape != (self._space.dimensions,):
            raise InvalidInputError("vector", f"it has the shape {vector.shape}", f"give one of {self._space}")
        with self._lock:
            hot = self._loaded(scope.agent)
            if hot is not None:
                return hot.search(vector, scope, limit)
        self._buffer.flush()
        return self._search_table(vector, scope, limit, is_exact)

    def _search_table(
        self, vector: NDArray[np.float32], scope: IndexScope, limit: int, is_exact: bool
    ) -> list[IndexHit]:
        condition = scope.as_filter()
        is_flat = (
            is_exact or not self._table.has_vector_index() or self._table.count(condition) <= self._settings.flat_rows
        )
        wanted = limit
        while limit > 0:
            found = self._table.nearest(vector, condition, wanted, is_exact=is_flat)
            scores = (1.0 - distance for distance in found.column("_distance").to_pylist())
            hits = best_of(zip(map(SourceId, found.column("source").to_pylist()), scores, strict=True), limit)
            if len(hits) == limit or len(found) < wanted:
                return hits
            wanted *= 4  # several chunks of one source were among them
        return []

    def _loaded(self, agent: AgentName) -> HotVectors | None:
        """The agent's vectors in memory, if they fit."""
        if (hot := self._hot.get(agent)) is not None:
            self._hot.move_to_end(agent)
            return hot
        most = self._settings.hot_mib * 2**20
        if agent in self._too_large or not most:
            return None
        self._buffer.flush()
        condition = is_any_of("agent", [agent])
        if self._table.count(condition) * (self._space.dimensions * 4 + BYTES_PER_ROW) > most:
            self._too_large.add(agent)
            return None
        hot = HotVectors.of(self._table.rows(condition, HOT_COLUMNS), self._space.dimensions)
        self._hot[agent] = hot
        while sum(each.nbytes for each in self._hot.values()) > most and len(self._hot) > 1:
            self._hot.popitem(last=False)
        return hot

    @property
    def hot_bytes(self) -> int:
        """Memory that the vectors kept for search take."""
        with self._lock:
            return sum(hot.nbytes for hot in self._hot.values())

    def count(self, agent: AgentName | None = None) -> int:
        """How many sources are in, of an agent or of all."""
        return len(self.sources(agent))

    def sources(self, agent: AgentName | None = None) -> list[tuple[SourceId, int]]:
        """(id, revision) of every source that is in, of an agent or of all, in no order."""
        return self._buffer.stored_revisions(None if agent is None else is_any_of("agent", [agent]))

    @property
    def untidiness(self) -> float:
        """How much `tidy` would do; see `LanceTable.untidiness`."""
        return self._table.untidiness

    def tidy(self) -> None:
        """Keep the table's files few; see `LanceTable.tidy`."""
        self._table.tidy()
        with self._lock:
            self._too_large.clear()

    def delete_old_versions(self) -> None:
        """Leave nothing on disk of what was deleted; see `LanceTable.delete_old_versions`."""
        self.flush()
        self._table.delete_old_versions()

    def _as_arrow(self, rows: Sequence[VectorRow]) -> pa.Table:
        columns = columns_of(rows, [len(row.vectors) for row in rows], self._row_type)
        vectors = np.concatenate([row.vectors for row in rows]) if rows else np.zeros((0, 1), np.float32)
        flat = pa.array(np.ascontiguousarray(vectors, np.float32).ravel())
        columns["vector"] = pa.FixedSizeListArray.from_arrays(flat, self._space.dimensions)
        return pa.table(columns, schema=_schema(self._space))


def _schema(space: EmbeddingSpace) -> pa.Schema:
    vector = pa.field("vector", pa.list_(pa.float32(), space.dimensions))
    return schema_with(vector).with_metadata({_MODEL: space.model.encode(), _DIMENSIONS: b"%d" % space.dimensions})
