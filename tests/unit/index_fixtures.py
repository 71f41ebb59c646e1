"""Rows for the tests of the indexes, and what plain Python finds among them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from perdure.storage.index_records import EmbeddingSpace, IndexRow, SourceId, TextRow, VectorRow
from perdure.storage.index_scope import IndexScope
from perdure.storage.records import AgentName, ContactId, ConversationId
from perdure.storage.settings import IndexSettings

ANA = AgentName("ana")
LENGTH = 8
SPACE = EmbeddingSpace(model="drawn", dimensions=LENGTH)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SETTINGS = IndexSettings(write_batch=16)
COLD = IndexSettings(write_batch=16, hot_mib=0)
"""Nothing is kept in memory: every search reads the table."""

EVERYTHING = IndexScope(agent=ANA, contacts=None)


def unit(*numbers: float) -> NDArray[np.float32]:
    """A vector in that direction."""
    vector = np.zeros(LENGTH, np.float32)
    vector[: len(numbers)] = numbers
    vector /= np.float32(float(np.linalg.norm(vector)) or 1)
    return vector


def drawn(seed: int, count: int = 1, length: int = LENGTH) -> NDArray[np.float32]:
    vectors = np.random.default_rng(seed).standard_normal((count, length)).astype(np.float32)
    scaled: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled


def _scoped(
    source: str, agent: str, contact: str | None, conversation: str | None, at: datetime, revision: int
) -> dict[str, object]:
    return {
        "source": SourceId(source),
        "agent": AgentName(agent),
        "contact": None if contact is None else ContactId(contact),
        "conversation": None if conversation is None else ConversationId(conversation),
        "created_at": at,
        "revision": revision,
    }


def vector_row(
    source: str,
    vectors: NDArray[np.float32],
    *,
    agent: str = ANA,
    contact: str | None = None,
    conversation: str | None = None,
    kind: str | None = None,
    role: str | None = None,
    at: datetime = NOON,
    revision: int = 1,
) -> VectorRow:
    scoped = _scoped(source, agent, contact, conversation, at, revision)
    return VectorRow(**scoped, kind=kind, role=role, vectors=np.atleast_2d(vectors))  # type: ignore[arg-type]


def text_row(
    source: str,
    text: str,
    *,
    agent: str = ANA,
    contact: str | None = None,
    conversation: str | None = None,
    kind: str | None = None,
    role: str | None = None,
    at: datetime = NOON,
    revision: int = 1,
) -> TextRow:
    scoped = _scoped(source, agent, contact, conversation, at, revision)
    return TextRow(**scoped, kind=kind, role=role, text=text)  # type: ignore[arg-type]


def scope(agent: str = ANA, contacts: Iterable[str] | None = (), **given: object) -> IndexScope:
    mine = None if contacts is None else tuple(map(ContactId, contacts))
    return IndexScope(agent=AgentName(agent), contacts=mine, **given)  # type: ignore[arg-type]


def is_in(row: IndexRow, scope: IndexScope) -> bool:
    """What a scope says, said once more, row by row."""
    if row.agent != scope.agent:
        return False
    if row.contact is None:
        if not scope.with_agent_wide:
            return False
    elif scope.contacts is not None and row.contact not in scope.contacts:
        return False
    for value, values in (
        (row.conversation, scope.conversations),
        (row.kind, scope.kinds),
        (row.role, scope.roles),
    ):
        if values is not None and value not in values:
            return False
    earliest = scope.created_from or row.created_at
    latest = scope.created_to or row.created_at
    return earliest <= row.created_at <= latest


def nearest(rows: Sequence[VectorRow], vector: NDArray[np.float32], scope: IndexScope, limit: int) -> list[float]:
    """The scores that an exact search gives, best first."""
    scores = [float((row.vectors @ vector).max()) for row in rows if is_in(row, scope)]
    return sorted(scores, reverse=True)[:limit]


def later(hours: float) -> datetime:
    return NOON + timedelta(hours=hours)
