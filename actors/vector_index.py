"""The vector index's process: the only one that writes its tables, and keeps the vectors searched last in memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..jobs.index_access import Search, SearchAnswer
from ..jobs.local_index import Index, LocalIndex
from ..storage.errors import PerdureError
from ..storage.index_records import EmbeddingSpace, RowType, SourceId, VectorRow
from ..storage.layout import index_path
from .embedding_client import embedding_space
from .placement import RuntimePlace

if TYPE_CHECKING:
    from ..storage.vector_index import VectorIndex


class VectorIndexProcess:
    """Owner of the vector tables of memories and messages; see `IndexAccess`. It may be killed at any moment.

    What it was told and has not flushed is gone then: who tells it keeps that until it has flushed.
    """

    def __init__(self, place: RuntimePlace) -> None:
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        threadpool_limits(1, user_api="blas")  # one product takes less than its threads take to meet
        self._place = place
        self._opened: dict[RowType, VectorIndex] = {}
        self._indexes: dict[RowType, LocalIndex[VectorRow, NDArray[np.float32]]] = {
            "memory": self._index("memory"),
            "message": self._index("message"),
        }

    def __repr__(self) -> str:
        return f"VectorIndex({self._place.data_dir})"

    async def apply(self, row_type: RowType, rows: Sequence[VectorRow], deleted: Sequence[SourceId]) -> str:
        """Put rows in and take sources out."""
        return await self._indexes[row_type].apply(rows, deleted)

    async def flush(self, row_type: RowType) -> str:
        """Have everything on disk."""
        return await self._indexes[row_type].flush()

    async def search(
        self, row_type: RowType, searches: Sequence[Search[NDArray[np.float32]]]
    ) -> Sequence[SearchAnswer | PerdureError]:
        """For each search the nearest sources of its scope, or why it has no answer."""
        return await self._indexes[row_type].search_all(searches)

    async def sources(self, row_type: RowType) -> Sequence[tuple[SourceId, int]]:
        """(id, revision) of all that is in."""
        return await self._indexes[row_type].sources()

    async def rebuild(self, row_type: RowType) -> str:
        """Begin anew, empty."""
        return await self._indexes[row_type].rebuild()

    async def hot_bytes(self) -> int:
        """Memory that the vectors kept for search take."""
        return sum(index.hot_bytes for index in self._opened.values())

    async def pid(self) -> int:
        """This process."""
        return os.getpid()

    def _index(self, row_type: RowType) -> LocalIndex[VectorRow, NDArray[np.float32]]:
        folder, settings = index_path(self._place.data_dir), self._place.settings.index

        def open_index() -> Index[VectorRow, NDArray[np.float32]]:
            from ..storage.vector_index import VectorIndex  # a driver loads this class too, and opens no table

            opened = VectorIndex.open(folder, row_type, self._space(), settings, may_create=True)
            self._opened[row_type] = opened
            return opened

        def rebuild() -> Index[VectorRow, NDArray[np.float32]]:
            from ..storage.vector_index import VectorIndex

            rebuilt = VectorIndex.rebuild(folder, row_type, self._space(), settings)
            self._opened[row_type] = rebuilt
            return rebuilt

        return LocalIndex(open_index, rebuild)

    def _space(self) -> EmbeddingSpace:
        model, dimensions = embedding_space(self._place)
        return EmbeddingSpace(model=model, dimensions=dimensions)
