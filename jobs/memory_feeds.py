"""What the vector and the keyword index are told of a memory."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..storage.errors import EmbeddedModelError, ModelError
from ..storage.index_records import SourceId, TextRow, VectorRow
from ..storage.index_scope import IndexScope
from ..storage.memory_index_records import Embedding
from ..storage.memory_input import content_hash
from ..storage.memory_keys import AgentId, VectorId
from ..storage.memory_records import Memory
from ..storage.records import AgentName
from .embedder import EmbeddedText
from .index_access import EmbeddingAccess
from .index_feed import IndexFeed, Rows, ToldMemory

VECTORS_KEPT = 2000
"""Of values that were embedded lately: whoever compares a new value with others has its vectors already."""
PROBE = "memory"


def _about(told: ToldMemory) -> dict[str, Any]:
    memory = told.memory
    return {
        "source": SourceId(memory.vector_id),
        "agent": AgentName(memory.agent_id),
        "contact": memory.scope.contact_id,
        "conversation": memory.provenance.conversation_id,
        "kind": memory.kind,
        "created_at": memory.created_at,
        "revision": told.revision,
    }


def _everything_of(agent_id: AgentId) -> IndexScope:
    return IndexScope(agent=AgentName(agent_id), contacts=None)


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

    async def rows(self, memories: Sequence[ToldMemory]) -> Rows[TextRow]:
        """See `IndexFeed.rows`."""
        rows = [TextRow(text=f"{told.memory.key}\n{told.memory.value}", **_about(told)) for told in memories]
        return Rows(rows=rows, refused={})

    async def probe(self, agent_id: AgentId) -> None:
        """See `IndexFeed.probe`."""
        await self._index.search(PROBE, _everything_of(agent_id), 1)


class VectorFeed(IndexFeed[VectorRow]):
    """Tells the vector index: of every active memory that is no task, the vectors of its value."""

    def __init__(self, *arguments: Any, vectors: ValueVectors, embedder: EmbeddingAccess) -> None:
        super().__init__(*arguments)
        self._vectors = vectors
        self._embedder = embedder
        self._to_register: dict[VectorId, Embedding] = {}

    def is_held(self, memory: Memory) -> bool:
        """Tasks are not in it."""
        return memory.is_active and memory.kind != "task"

    async def rows(self, memories: Sequence[ToldMemory]) -> Rows[VectorRow]:
        """See `IndexFeed.rows`."""
        if not memories:
            return Rows(rows=[], refused={})
        made = await asyncio.gather(*(self._embedded(told.memory) for told in memories))
        model, dimensions = await self._embedder.space()
        rows: list[VectorRow] = []
        refused: dict[VectorId, str] = {}
        for told, embedded in zip(memories, made, strict=True):
            vector_id = told.memory.vector_id
            if isinstance(embedded, ModelError):
                refused[vector_id] = str(embedded)
                continue
            rows.append(VectorRow(vectors=embedded.vectors, **_about(told)))
            self._to_register[vector_id] = Embedding(
                vector_id=vector_id,
                model=model,
                dimensions=dimensions,
                content_hash=content_hash(told.memory.value),
                chunk_count=len(embedded.vectors),
                embedded_at=told.changed_at,
            )
        if refused:
            await self._embedder.embed_query(PROBE)  # one that refuses everything, for want of a key say, may not later
        return Rows(rows=rows, refused=refused)

    async def probe(self, agent_id: AgentId) -> None:
        """See `IndexFeed.probe`."""
        _, dimensions = await self._embedder.space()
        await self._index.search(np.eye(1, dimensions, dtype=np.float32)[0], _everything_of(agent_id), 1)

    async def _embedded(self, memory: Memory) -> EmbeddedText | ModelError:
        """The vectors of a memory; or why the embedder will not take it."""
        try:
            return await self._vectors.of(memory.value)
        except ModelError as error:
            if error.retryable or isinstance(error, EmbeddedModelError):
                raise
            return error

    async def _acknowledge(self, seq: int) -> None:
        registered = dict(self._to_register)
        if registered:
            await self._writer.run(lambda store: store.record_embeddings(embeddings=list(registered.values())))
            for vector_id, embedding in registered.items():
                if self._to_register.get(vector_id) is embedding:
                    del self._to_register[vector_id]
        await super()._acknowledge(seq)
