"""What the indexes that are derived from memories are told, as records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from .memory_keys import AgentId, VectorId
from .memory_records import Memory

IndexKind = Literal["vector", "keyword"]
INDEX_KINDS: tuple[IndexKind, ...] = ("vector", "keyword")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedChange:
    """An index has to be told that something changed under an id."""

    kind: IndexKind
    agent_id: AgentId
    vector_id: VectorId


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingChange(IndexedChange):
    """A change that an index has not been told of, with what is true now."""

    seq: int
    """Its place among all changes; an index is told in this order."""
    changed_at: datetime
    memory: Memory | None
    """To be stored in the index under the id; None: what is there has to go.

    It is the newest: a change that came after this one comes again, and changes nothing.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedChange(IndexedChange):
    """A change that an index could not take; those behind it went on."""

    seq: int
    attempts: int
    error: str
    parked_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """What a vector was made of."""

    vector_id: VectorId
    model: str
    dimensions: int
    content_hash: str
    """Of the value that was embedded; see `content_hash`."""
    chunk_count: int
    """Pieces that a long value was embedded in."""
    embedded_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCounts:
    """How much there is, of one agent or of all."""

    active: int
    superseded: int
    tasks: int
    """Of the active ones, like the next."""
    unverified: int
    embeddings: int
    pending: dict[str, int]
    """Changes by kind of index that it has not been told of."""
    parked: dict[str, int]
