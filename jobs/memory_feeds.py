"""What the vector and the keyword index are told of a memory."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from ..storage.errors import EmbeddedModelError, ModelError
from ..storage.index_records import SourceId, TextRow, VectorRow
from ..storage.memory_index_records import Embedding, PendingChange
from ..storage.memory_input import content_hash
from ..storage.memory_records import Memory
from ..storage.records import AgentName
from .embedder import EmbeddedText
from .index_access import EmbeddingAccess
from .index_feed import IndexFeed, RowRefusedError

VECTORS_KEPT = 2000
"""Of values that were embedded lately: whoever compares a new value with others has its vectors already."""


def _about(change: PendingChange, revision: int | None) -> dict[str, Any]:
    memory = change.memory
    if memory is None:
        raise ValueError("a change that leaves nothing has no row")
    return {
        "source": SourceId(change.vector_id),
        "agent": AgentName(memory.agent_id),
        "contact": memory.scope.contact_id,
        "conversation": memory.provenance.conversation_id,
        "kind": memory.kind,
        "created_at": memory.created_at,
        "revision": change.seq if revision is None else revision,
    }


class ValueVectors:
    """Embeds values, and keeps what was embedded lately."""

    def __init__(self, embedder: EmbeddingAccess) -> None:
        self._embedder = embedder
        self._kept: OrderedDict[str, EmbeddedText] = OrderedDict()

    async def of(self, value: str) -> EmbeddedText:
        """The vectors of a value. Raises as `Embedder`."""
        digest = content_hash(value)
        known = self._kept.get(digest)
        if known is None:
            known = await self._embedder.embed_value(value)
            self._kept[digest] = known
            while len(self._kept) > VECTORS_KEPT:
                self._kept.popitem(last=False)
        return known


class KeywordFeed(IndexFeed[TextRow]):
    """Tells the keyword index: of every active memory, its key's words and its value."""

    def is_held(self, memory: Memory) -> bool:
        """Every kind is in it."""
        return memory.is_active

    async def rows(self, changes: Sequence[PendingChange], revision: int | None = None) -> list[TextRow]:
        """See `IndexFeed.rows`."""
        return [
            TextRow(text=f"{change.memory.key}\n{change.memory.value}", **_about(change, revision))
            for change in changes
            if change.memory is not None
        ]


class VectorFeed(IndexFeed[VectorRow]):
    """Tells the vector index: of every active memory that is no task, the vectors of its value."""

    def __init__(self, *arguments: Any, vectors: ValueVectors, embedder: EmbeddingAccess) -> None:
        super().__init__(*arguments)
        self._vectors = vectors
        self._embedder = embedder
        self._to_register: dict[str, Embedding] = {}

    def is_held(self, memory: Memory) -> bool:
        """Tasks are not in it."""
        return memory.is_active and memory.kind != "task"

    async def rows(self, changes: Sequence[PendingChange], revision: int | None = None) -> list[VectorRow]:
        """See `IndexFeed.rows`."""
        if not changes:
            return []
        embedded = await asyncio.gather(*(self._embedded(change) for change in changes))
        model, dimensions = await self._embedder.space()
        rows = []
        for change, text in zip(changes, embedded, strict=True):
            memory = change.memory
            assert memory is not None
            rows.append(VectorRow(vectors=text.vectors, **_about(change, revision)))
            self._to_register[change.vector_id] = Embedding(
                vector_id=change.vector_id,
                model=model,
                dimensions=dimensions,
                content_hash=content_hash(memory.value),
                chunk_count=len(text.vectors),
                embedded_at=change.changed_at,
            )
        return rows

    async def _embedded(self, change: PendingChange) -> EmbeddedText:
        assert change.memory is not None
        try:
            return await self._vectors.of(change.memory.value)
        except ModelError as error:
            if error.retryable or isinstance(error, EmbeddedModelError):
                raise
            raise RowRefusedError(change, str(error)) from error

    async def _acknowledge(self, seq: int) -> None:
        registered, self._to_register = list(self._to_register.values()), {}
        if registered:
            await self._writer.run(lambda store: store.record_embeddings(embeddings=registered))
        await super()._acknowledge(seq)
