"""The vectors of one agent in memory: searched exactly, in a fraction of a millisecond."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from .index_records import IndexHit, SourceId, VectorRow
from .index_scope import IndexScope, microseconds

BYTES_PER_ROW = 400
"""Beside its vector: the codes, and the Python objects that name it."""
_LEAST_ROWS = 64
_CODED = ("contact", "conversation", "kind", "role")
COLUMNS = ("source", "revision", "created_at_us", "vector", *_CODED)
"""What of a stored row is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    revision: int
    slots: tuple[int, ...]


class HotVectors:
    """A matrix of vectors and the scope of each as small numbers. Not for several threads at once."""

    def __init__(self, dimensions: int) -> None:
        self._vectors = np.zeros((_LEAST_ROWS, dimensions), np.float32)
        self._codes = np.zeros((len(_CODED), _LEAST_ROWS), np.int32)
        self._created_at_us = np.zeros(_LEAST_ROWS, np.int64)
        self._is_live = np.zeros(_LEAST_ROWS, np.bool_)
        self._code_of: list[dict[str | None, int]] = [{None: 0} for _ in _CODED]
        self._source_of: list[SourceId] = []
        self._sources: dict[SourceId, _Source] = {}
        self._free: list[int] = []

    @classmethod
    def of(cls, stored: pa.Table, dimensions: int) -> HotVectors:
        """All of an agent's stored rows, with `COLUMNS`."""
        hot = cls(dimensions)
        if not len(stored):
            return hot
        stored = stored.combine_chunks()
        flat = stored.column("vector").combine_chunks().flatten()
        hot._vectors = flat.to_numpy(zero_copy_only=False).reshape(-1, dimensions).copy()
        hot._created_at_us = stored.column("created_at_us").to_numpy().copy()
        hot._is_live = np.ones(len(stored), np.bool_)
        hot._codes = np.zeros((len(_CODED), len(stored)), np.int32)
        for place, name in enumerate(_CODED):
            coded = stored.column(name).combine_chunks().dictionary_encode()
            hot._codes[place] = coded.indices.fill_null(-1).to_numpy() + 1
            hot._code_of[place] |= {value: code for code, value in enumerate(coded.dictionary.to_pylist(), start=1)}
        hot._source_of = stored.column("source").to_pylist()
        slots: dict[SourceId, list[int]] = {}
        for slot, source in enumerate(hot._source_of):
            slots.setdefault(source, []).append(slot)
        revisions = stored.column("revision").to_pylist()
        hot._sources = {
            source: _Source(revision=revisions[taken[0]], slots=tuple(taken)) for source, taken in slots.items()
        }
        return hot

    @property
    def nbytes(self) -> int:
        """The memory it takes, about."""
        return self._vectors.nbytes + len(self._is_live) * BYTES_PER_ROW

    def upsert(self, row: VectorRow) -> None:
        """Put a row in the place of an older one; a newer or equal one stays."""
        known = self._sources.get(row.source)
        if known is not None and known.revision >= row.revision:
            return
        self.delete(row.source)
        slots = tuple(self._slot(row.source) for _ in row.vectors)
        for slot, vector in zip(slots, row.vectors, strict=True):
            self._vectors[slot] = vector
            self._created_at_us[slot] = microseconds(row.created_at)
            for place, value in enumerate((row.contact, row.conversation, row.kind, row.role)):
                codes = self._code_of[place]
                self._codes[place, slot] = codes.setdefault(value, len(codes))
            self._is_live[slot] = True
        self._sources[row.source] = _Source(revision=row.revision, slots=slots)

    def delete(self, source: SourceId) -> None:
        """Take a source out, if it is in."""
        known = self._sources.pop(source, None)
        if known is not None:
            for slot in known.slots:
                self._is_live[slot] = False
                self._vectors[slot] = 0
            self._free += known.slots

    def search(self, vector: NDArray[np.float32], scope: IndexScope, limit: int) -> list[IndexHit]:
        """The sources with the nearest vectors, nearest first."""
        found = np.flatnonzero(self._mask(scope))
        if not len(found) or limit < 1:
            return []
        used = len(self._source_of)
        are_few = len(found) * 4 < used  # copying them is cheaper than multiplying all
        scores = self._vectors[found] @ vector if are_few else (self._vectors[:used] @ vector)[found]
        wanted = min(len(found), limit)
        while True:
            hits = best_of(
                ((self._source_of[found[place]], float(scores[place])) for place in _highest(scores, wanted)), limit
            )
            if len(hits) == limit or wanted == len(found):
                return hits
            wanted = min(len(found), wanted * 4)  # several chunks of one source were among them

    def _mask(self, scope: IndexScope) -> NDArray[np.bool_]:
        used = len(self._source_of)
        mask = self._is_live[:used].copy()
        if scope.contacts is not None or not scope.with_agent_wide:
            mask &= self._allowed(0, scope.contacts, with_none=scope.with_agent_wide)
        for place, values in ((1, scope.conversations), (2, scope.kinds), (3, scope.roles)):
            if values is not None:
                mask &= self._allowed(place, values, with_none=False)
        if scope.created_from is not None:
            mask &= self._created_at_us[:used] >= microseconds(scope.created_from)
        if scope.created_to is not None:
            mask &= self._created_at_us[:used] <= microseconds(scope.created_to)
        return mask

    def _allowed(self, place: int, values: Sequence[str] | None, *, with_none: bool) -> NDArray[np.bool_]:
        codes = self._code_of[place]
        is_allowed = np.full(len(codes), values is None)
        for value in values or ():
            if (code := codes.get(value)) is not None:
                is_allowed[code] = True
        is_allowed[0] = with_none
        return is_allowed[self._codes[place, : len(self._source_of)]]

    def _slot(self, source: SourceId) -> int:
        if self._free:
            slot = self._free.pop()
            self._source_of[slot] = source
            return slot
        slot = len(self._source_of)
        if slot == len(self._is_live):
            self._vectors = np.concatenate([self._vectors, np.zeros_like(self._vectors)])
            self._codes = np.concatenate([self._codes, np.zeros_like(self._codes)], axis=1)
            self._created_at_us = np.concatenate([self._created_at_us, np.zeros_like(self._created_at_us)])
            self._is_live = np.concatenate([self._is_live, np.zeros_like(self._is_live)])
        self._source_of.append(source)
        return slot


def _highest(scores: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """Where the highest scores are, and all that equal the lowest of them."""
    if count >= len(scores):
        return np.arange(len(scores))
    least = np.partition(scores, len(scores) - count)[len(scores) - count]
    return np.flatnonzero(scores >= least)


def best_of(scored: Iterable[tuple[SourceId, float]], limit: int) -> list[IndexHit]:
    """The best score of each source, best first, then by source."""
    best: dict[SourceId, float] = {}
    for source, score in scored:
        if score > best.get(source, float("-inf")):
            best[source] = score
    ordered = sorted(best.items(), key=lambda entry: (-entry[1], entry[0]))
    return [IndexHit(source=source, score=score) for source, score in ordered[:limit]]
