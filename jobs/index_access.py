"""The indexes as memory needs them: somewhere else, perhaps not there, and perhaps begun anew since last time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..storage.index_records import IndexHit, IndexRow, SourceId, TextRow, VectorRow
from ..storage.index_scope import IndexScope
from .embedder import EmbeddedText

Row_contra = TypeVar("Row_contra", bound=IndexRow, contravariant=True)
Query_contra = TypeVar("Query_contra", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAnswer:
    """What an index found."""

    hits: Sequence[IndexHit]
    """Best first."""
    incarnation: str
    """Which process answered: one that has begun anew may lack what was not flushed before."""


Query = TypeVar("Query")


@dataclass(frozen=True, slots=True)
class Search(Generic[Query]):
    """What an index is asked for."""

    query: Query
    scope: IndexScope
    limit: int


class IndexAccess(Protocol[Row_contra, Query_contra]):
    """The way to an index of memories. Calls that write may be repeated.

    Raises:
        PerdureError: It cannot be used; `retryable` says whether it may be later.
    """

    async def apply(self, rows: Sequence[Row_contra], deleted: Sequence[SourceId]) -> str:
        """Put rows in and take sources out, in this order; searches see it. Which incarnation did it."""
        ...

    async def flush(self) -> str:
        """Have all that was applied on disk. Which incarnation did it."""
        ...

    async def search(self, query: Query_contra, scope: IndexScope, limit: int) -> SearchAnswer:
        """The best sources of a scope."""
        ...

    async def sources(self) -> Sequence[tuple[SourceId, int]]:
        """(id, revision) of all that is in."""
        ...

    async def rebuild(self) -> str:
        """Drop what is there and begin anew, empty. Which incarnation did it."""
        ...


VectorAccess = IndexAccess[VectorRow, NDArray[np.float32]]
KeywordAccess = IndexAccess[TextRow, str]


class TextAccess(KeywordAccess, Protocol):
    """The way to a keyword index that keeps something beside its texts."""

    async def payloads(self, sources: Sequence[SourceId]) -> Mapping[SourceId, str]:
        """What is kept beside the texts of these sources, as far as they are in."""
        ...


class EmbeddingAccess(Protocol):
    """The way to the embedder. Raises as `Embedder`."""

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        """The vector of a text to search by."""
        ...

    async def embed_value(self, text: str) -> EmbeddedText:
        """The vectors of a text to be found."""
        ...

    async def space(self) -> tuple[str, int]:
        """Name and dimensions of its vectors."""
        ...
