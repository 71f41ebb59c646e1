"""Semantic memory as records: memories with their versions, and what may be asked of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NewType

from .memory_keys import AgentId, Scope, VectorId, vector_id
from .records import ConversationId, MessageId
from .settings import MemorySettings

MemoryId = NewType("MemoryId", str)
WriteId = NewType("WriteId", str)

Kind = Literal["fact", "event", "instruction", "task"]
Verification = Literal["verified", "unverified", "not_needed"]

_KINDS: dict[str, Kind] = {
    "event": "event",
    "workflow-outcome": "event",
    "workflow-failure": "event",
    "instruction": "instruction",
    "skill": "instruction",
    "task": "task",
}
FORGOTTEN = "forgotten"
"""The reason of a version that was superseded by nothing."""


def kind_of(fact_type: str) -> Kind:
    """The kind that a fact type folds into; an unknown one is a fact."""
    return _KINDS.get(fact_type.strip().casefold(), "fact")


def confidence_of(source: str, settings: MemorySettings) -> float:
    """How sure a memory is by where it comes from."""
    known = {
        "pre-compaction": settings.confidence_flushed,
        "reflection": settings.confidence_reflected,
        "remember": settings.confidence_remembered,
        "api": settings.confidence_remembered,
    }
    return known.get(source, settings.confidence_extracted)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionId:
    """One version of one memory."""

    memory_id: MemoryId
    version: int
    """Counted from 1 within its memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What a memory was drawn from."""

    conversation_id: ConversationId | None = None
    message_ids: tuple[MessageId, ...] = ()
    tool: str | None = None
    memories: tuple[VersionId, ...] = ()
    """The versions that were merged into it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A version of a memory."""

    row_id: int
    """Its place among all versions of all agents, in the order in which they were stored."""
    memory_id: MemoryId
    """UUID; the memory keeps it through its versions."""
    version: int
    agent_id: AgentId
    scope: Scope
    key: str
    value: str
    fact_type: str
    """As it was given."""
    kind: Kind
    metadata: str = "{}"
    """JSON of an object, keys in order."""
    graph_id: str | None = None
    task_id: str | None = None
    session_id: str | None = None
    source: str
    provenance: Provenance = field(default_factory=Provenance)
    confidence: float
    verification: Verification
    access_count: int = 0
    """Of the memory: a new version goes on counting."""
    created_at: datetime
    """Of the memory's first version."""
    updated_at: datetime
    """When the version was stored or last confirmed."""
    accessed_at: datetime | None = None
    """When the memory was last accessed."""
    decayed_at: datetime | None = None
    """When its confidence last decayed."""
    valid_from: datetime
    """When what it says was said, or began to be true: by the message, not the clock."""
    valid_to: datetime | None = None
    """When that ended; None while it holds."""
    superseded_at: datetime | None = None
    """When it was replaced or forgotten; None: it is active."""
    superseded_by: VersionId | None = None
    """What took its place; None also where it was forgotten."""
    reason: str | None = None
    """Why it was superseded."""

    @property
    def version_id(self) -> VersionId:
        """Which version this is."""
        return VersionId(memory_id=self.memory_id, version=self.version)

    @property
    def vector_id(self) -> VectorId:
        """The id under which the indexes hold the active version of this memory's key."""
        return vector_id(self.agent_id, self.scope, self.key)

    @property
    def is_active(self) -> bool:
        """Has nothing superseded it?"""
        return self.superseded_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """How lately and how often an active memory was used; for filling up what was recalled."""

    row_id: int
    touched_s: float
    """When it was last accessed, or created if it never was; Unix time."""
    access_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyMatch:
    """An active memory of which segments of the key are words of a query."""

    memory: Memory
    segments: int
    """How many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFilter:
    """Which memories a list holds. Everything that is given has to be so."""

    kinds: tuple[Kind, ...] | None = None
    graph_id: str | None = None
    task_id: str | None = None
    session_id: str | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    """Inclusive, as the one before."""
    containing: str | None = None
    """A part of the value, whatever its case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOrder:
    """The order of a list; equal moments stand in the order in which they were stored."""

    by: Literal["created_at", "updated_at"] = "created_at"
    is_descending: bool = True
