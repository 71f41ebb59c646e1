"""An index's process as memory sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

from ray.exceptions import ActorDiedError, ActorUnavailableError, RayTaskError

from ..jobs.grouped_calls import GroupedCalls
from ..jobs.index_access import Search, SearchAnswer
from ..storage.errors import IndexUnavailableError, PerdureError
from ..storage.index_records import IndexRow, RowType, SourceId, TextRow
from ..storage.index_scope import IndexScope
from ..storage.memory_index_records import IndexKind
from .placement import RuntimePlace, index_actor
from .task_errors import cause_of

Row = TypeVar("Row", bound=IndexRow)
Query = TypeVar("Query")


class RemoteIndex(Generic[Row, Query]):
    """An `IndexAccess` whose calls cross to another process. One that died is begun anew by the next call."""

    def __init__(self, place: RuntimePlace, kind: IndexKind, row_type: RowType) -> None:
        self._place = place
        self._kind = kind
        self._row_type = row_type
        self._handle: Any = None
        self._searches = GroupedCalls(self._search)

    async def apply(self, rows: Sequence[Row], deleted: Sequence[SourceId]) -> str:
        """See `IndexAccess`."""
        return str(await self._call("apply", rows, deleted))

    async def flush(self) -> str:
        """See `IndexAccess`."""
        return str(await self._call("flush"))

    async def search(self, query: Query, scope: IndexScope, limit: int) -> SearchAnswer:
        """See `IndexAccess`."""
        return await self._searches.call(Search(query, scope, limit))

    async def _search(self, searches: Sequence[Search[Query]]) -> Sequence[SearchAnswer | PerdureError]:
        return cast("Sequence[SearchAnswer | PerdureError]", await self._call("search", searches))

    async def sources(self) -> Sequence[tuple[SourceId, int]]:
        """See `IndexAccess`."""
        return [(SourceId(source), revision) for source, revision in await self._call("sources")]

    async def rebuild(self) -> str:
        """See `IndexAccess`."""
        return str(await self._call("rebuild"))

    async def _call(self, method: str, *arguments: object) -> Any:
        for is_again in (False, True):
            try:
                if self._handle is None:
                    self._handle = index_actor(self._place, self._kind)
                return await getattr(self._handle, method).remote(self._row_type, *arguments)
            except RayTaskError as error:
                raise cause_of(error) from None
            except (ActorDiedError, ActorUnavailableError, ValueError) as error:
                self._handle = None
                if is_again:
                    raise IndexUnavailableError(f"the {self._kind} index", "its process has died") from error
        raise AssertionError("the second try returns or raises")


class RemoteTextIndex(RemoteIndex[TextRow, str]):
    """A `TextAccess` whose calls cross to another process."""

    def __init__(self, place: RuntimePlace, row_type: RowType) -> None:
        super().__init__(place, "keyword", row_type)

    async def payloads(self, sources: Sequence[SourceId]) -> Mapping[SourceId, str]:
        """See `TextAccess`."""
        return cast("Mapping[SourceId, str]", await self._call("payloads", sources))
