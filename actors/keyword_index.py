"""The keyword index's process: the only one that writes its tables."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ..jobs.index_access import Search, SearchAnswer
from ..jobs.local_index import LocalTextIndex, TextIndex
from ..storage.errors import PerdureError
from ..storage.index_records import RowType, SourceId, TextRow
from ..storage.layout import index_path
from .placement import RuntimePlace


class KeywordIndexProcess:
    """Owner of the keyword tables of memories and messages; see `IndexAccess`. It may be killed at any moment.

    What it was told and has not flushed is gone then: who tells it keeps that until it has flushed.
    """

    def __init__(self, place: RuntimePlace) -> None:
        self._place = place
        self._indexes: dict[RowType, LocalTextIndex] = {
            "memory": self._index("memory"),
            "message": self._index("message"),
        }

    def __repr__(self) -> str:
        return f"KeywordIndex({self._place.data_dir})"

    async def apply(self, row_type: RowType, rows: Sequence[TextRow], deleted: Sequence[SourceId]) -> str:
        """Put rows in and take sources out."""
        return await self._indexes[row_type].apply(rows, deleted)

    async def flush(self, row_type: RowType) -> str:
        """Have everything on disk."""
        return await self._indexes[row_type].flush()

    async def search(self, row_type: RowType, searches: Sequence[Search[str]]) -> Sequence[SearchAnswer | PerdureError]:
        """For each search the sources of its scope that have the query's words, or why it has no answer."""
        return await self._indexes[row_type].search_all(searches)

    async def payloads(self, row_type: RowType, sources: Sequence[SourceId]) -> Mapping[SourceId, str]:
        """What is kept beside the texts of these sources."""
        return await self._indexes[row_type].payloads(sources)

    async def sources(self, row_type: RowType) -> Sequence[tuple[SourceId, int]]:
        """(id, revision) of all that is in."""
        return await self._indexes[row_type].sources()

    async def rebuild(self, row_type: RowType) -> str:
        """Begin anew, empty."""
        return await self._indexes[row_type].rebuild()

    async def pid(self) -> int:
        """This process."""
        return os.getpid()

    def _index(self, row_type: RowType) -> LocalTextIndex:
        folder, settings = index_path(self._place.data_dir), self._place.settings.index

        def open_index() -> TextIndex:
            from ..storage.keyword_index import KeywordIndex  # a driver loads this class too, and opens no table

            return KeywordIndex.open(folder, row_type, settings, may_create=True)

        def rebuild() -> TextIndex:
            from ..storage.keyword_index import KeywordIndex

            return KeywordIndex.rebuild(folder, row_type, settings)

        return LocalTextIndex(open_index, rebuild)
