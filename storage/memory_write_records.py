"""What is asked of the store of memories, and what came of it, as records."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from .errors import PerdureError
from .memory_keys import AgentId, Scope
from .memory_records import MemoryId, Provenance, Verification, VersionId, WriteId

Outcome = Literal["created", "versioned", "confirmed", "outdated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryWrite:
    """A value to be stored under a key."""

    write_id: WriteId
    """Chosen by the caller, unique within the agent: a repeat stores nothing and is told the first result."""
    memory_id: MemoryId
    """UUID that the memory gets, if there is none under the key."""
    agent_id: AgentId
    scope: Scope
    key: str
    value: str
    fact_type: str | None = None
    """None: as the version before has it, else `fact`."""
    metadata: str | None = None
    """JSON of an object. None: as the version before has it."""
    graph_id: str | None = None
    """None, as of the next two: as the version before has it."""
    task_id: str | None = None
    session_id: str | None = None
    source: str
    """`extraction`, `pre-compaction`, `reflection`, `remember`, `api` or another word for where it comes from."""
    provenance: Provenance = field(default_factory=Provenance)
    confidence: float | None = None
    """None: by the source."""
    verification: Verification = "not_needed"
    supersedes: tuple[VersionId, ...] = ()
    """Versions of other keys of the same scope that it replaces, those of them that are still active."""
    reason: str = "replaced"
    """Why it replaces them."""
    at: datetime
    valid_from: datetime | None = None
    """When it was said. None: `at`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """What a write did.

    `created`: a new memory. `versioned`: a new version, the former one is among `superseded`. `confirmed`: the same
    is known already, its confidence is the higher of both. `outdated`: what is known was said later; this was
    stored as a former version of it.
    """

    write_id: WriteId
    outcome: Outcome
    version_id: VersionId
    """The version that was stored or confirmed."""
    superseded: tuple[VersionId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRefused:
    """A write that stored nothing; those beside it were stored."""

    write_id: WriteId
    error: PerdureError


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """What was erased, by count."""

    memories: int = 0
    versions: int = 0
    embeddings: int = 0
    """Rows of the registry; the vectors go when their index is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A memory was used."""

    memory_id: MemoryId
    times: int = 1
    at: datetime
    """The last time."""
