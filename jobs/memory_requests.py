"""What is asked of semantic memory, and what it answers, as records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from ..storage.memory_index_records import IndexKind
from ..storage.memory_keys import AgentId, Scope, Visibility
from ..storage.memory_records import Memory, Provenance, Verification, VersionId
from ..storage.memory_write_records import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Remember:
    """A fact to be remembered."""

    write_id: str
    """Chosen by the caller, unique within the agent; a repeat writes nothing and is told the first result."""
    agent_id: AgentId
    scope: Scope
    key: str
    value: str
    fact_type: str | None = None
    """Such as `preference`, `identity`, `event`, `instruction`, `task`; None: as before, else `fact`."""
    metadata: str | None = None
    """JSON of an object."""
    graph_id: str | None = None
    task_id: str | None = None
    session_id: str | None = None
    source: str = "remember"
    provenance: Provenance = field(default_factory=Provenance)
    confidence: float | None = None
    valid_from: datetime | None = None
    """When it was said. None: now."""
    is_verified: bool = True
    """Ask whether it replaces others, if the settings say so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What became of it. It is durable, and every index that is not named here finds it."""

    outcome: Outcome
    version_id: VersionId
    superseded: tuple[VersionId, ...] = ()
    """What it replaced: the former version of its key, and memories of other keys that it replaces by what it says."""
    verification: Verification
    not_yet_in: Mapping[IndexKind, str] = field(default_factory=dict)
    """Indexes that could not take it now, each with the reason; they catch up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallQuery:
    """What is to be recalled."""

    visible: Visibility
    text: str
    top_k: int | None = None
    """Fused hits, at most. None: as the settings say."""
    is_filled: bool = True
    """Fill up with what is used lately and often."""
    vector: bytes | None = None
    """The text's vector, float32, where the caller has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecall:
    """What stands under a key, or all there is."""

    visible: Visibility
    key: str | None = None
    limit: int = 100
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How an index differs from the truth."""

    kind: IndexKind
    missing: int
    """Memories that it lacks."""
    surplus: int
    """Ids that it should not have."""
    problem: str | None = None
    """Why it could not be looked at."""

    @property
    def count(self) -> int:
        """All in all."""
        return self.missing + self.surplus


MemoryPage = tuple[Memory, ...]
