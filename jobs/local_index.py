"""An index in this process, as memory needs it: opened when it is first used, and tidied when nothing else is to do."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar, cast
from uuid import uuid4

from ..storage.errors import PerdureError
from ..storage.index_records import IndexHit, IndexRow, SourceId, TextRow
from ..storage.index_scope import IndexScope
from .index_access import Search, SearchAnswer

Row = TypeVar("Row", bound=IndexRow)
Row_contra = TypeVar("Row_contra", bound=IndexRow, contravariant=True)
Query = TypeVar("Query")
Query_contra = TypeVar("Query_contra", contravariant=True)
Result = TypeVar("Result")

IDLE_S = 0.25
"""So long nothing may have been written before an index is tidied, once that is due."""
LONG_IDLE_S = 3.0
"""Before it is tidied in any case: a keyword search scans whatever was not."""
SEARCH_THREADS = 4

logger = logging.getLogger(__name__)


class Index(Protocol[Row_contra, Query_contra]):
    """A vector or keyword index."""

    def upsert(self, rows: Sequence[Row_contra]) -> None: ...
    def delete(self, sources: Sequence[SourceId]) -> None: ...
    def flush(self) -> None: ...
    def search(self, query: Query_contra, scope: IndexScope, limit: int, /) -> list[IndexHit]: ...
    def sources(self) -> Iterable[tuple[SourceId, int]]: ...
    def tidy(self) -> None: ...
    @property
    def untidiness(self) -> float: ...


class TextIndex(Index[TextRow, str], Protocol):
    """A keyword index."""

    def payloads(self, sources: Sequence[SourceId]) -> Mapping[SourceId, str]: ...


class LocalIndex(Generic[Row, Query]):
    """An `IndexAccess` on this process's threads. What fails to open is tried again by the next call."""

    def __init__(self, open_index: Callable[[], Index[Row, Query]], rebuild: Callable[[], Index[Row, Query]]) -> None:
        self._open = open_index
        self._rebuild = rebuild
        self._index: Index[Row, Query] | None = None
        self._opening = threading.Lock()
        self._incarnation = uuid4().hex
        self._writes = 0
        self._tidying: asyncio.Task[None] | None = None
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="index-writer")
        self._searchers = ThreadPoolExecutor(SEARCH_THREADS, thread_name_prefix="index-search")

    async def apply(self, rows: Sequence[Row], deleted: Sequence[SourceId]) -> str:
        """See `IndexAccess`."""

        def write() -> None:
            index = self._opened()
            if deleted:
                index.delete(deleted)
            if rows:
                index.upsert(rows)

        self._writes += 1
        await self._on(self._writer, write)
        self._tidy_later()
        return self._incarnation

    async def flush(self) -> str:
        """See `IndexAccess`."""
        await self._on(self._writer, lambda: self._opened().flush())
        self._tidy_later()
        return self._incarnation

    async def search(self, query: Query, scope: IndexScope, limit: int) -> SearchAnswer:
        """See `IndexAccess`."""
        hits = await self._on(self._searchers, lambda: self._opened().search(query, scope, limit))
        return SearchAnswer(hits=hits, incarnation=self._incarnation)

    async def search_all(self, searches: Sequence[Search[Query]]) -> Sequence[SearchAnswer | PerdureError]:
        """The answers to searches, in their order, or why there is none."""
        return await asyncio.gather(*(self._answer(each) for each in searches))

    async def _answer(self, search: Search[Query]) -> SearchAnswer | PerdureError:
        try:
            return await self.search(search.query, search.scope, search.limit)
        except PerdureError as error:
            return error

    async def sources(self) -> Sequence[tuple[SourceId, int]]:
        """See `IndexAccess`."""
        return await self._on(self._writer, lambda: list(self._opened().sources()))

    async def rebuild(self) -> str:
        """See `IndexAccess`."""

        def begin_anew() -> None:
            with self._opening:
                self._index = self._rebuild()
                self._incarnation = uuid4().hex

        await self._on(self._writer, begin_anew)
        return self._incarnation

    def close(self) -> None:
        """Let what is under way end."""
        self._writer.shutdown(wait=True)
        self._searchers.shutdown(wait=True)

    def _opened(self) -> Index[Row, Query]:
        with self._opening:
            if self._index is None:
                self._index = self._open()
            return self._index

    def _tidy_later(self) -> None:
        if self._tidying is None or self._tidying.done():
            self._tidying = asyncio.create_task(self._tidy_when_idle())

    async def _tidy_when_idle(self) -> None:
        while (index := self._index) is not None and index.untidiness > 0:
            before = self._writes
            await asyncio.sleep(IDLE_S if index.untidiness >= 1 else LONG_IDLE_S)
            if self._writes != before:
                continue
            try:
                await self._on(self._writer, index.tidy)
            except PerdureError as error:
                logger.warning("an index was not tidied: %s", error)
                return

    async def _on(self, threads: ThreadPoolExecutor, body: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(threads, body)


class LocalTextIndex(LocalIndex[TextRow, str]):
    """A `TextAccess` on this process's threads."""

    def __init__(self, open_index: Callable[[], TextIndex], rebuild: Callable[[], TextIndex]) -> None:
        super().__init__(open_index, rebuild)

    async def payloads(self, sources: Sequence[SourceId]) -> Mapping[SourceId, str]:
        """See `TextAccess`."""
        return await self._on(self._searchers, lambda: cast(TextIndex, self._opened()).payloads(sources))
