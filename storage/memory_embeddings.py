"""The registry of vectors: what each was made of, so that unchanged content is not embedded again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import cast

from .database import Database, Transaction, from_stored, to_stored
from .memory_index_records import Embedding
from .memory_keys import VectorId


def read_embeddings(database: Database, vector_ids: Iterable[VectorId]) -> dict[VectorId, Embedding]:
    """What is known of these vectors."""
    return {
        VectorId(cast(str, vector_id)): Embedding(
            vector_id=VectorId(cast(str, vector_id)),
            model=cast(str, model),
            dimensions=cast(int, dimensions),
            content_hash=cast(str, digest),
            chunk_count=cast(int, chunks),
            embedded_at=from_stored(cast(datetime, embedded_at)),
        )
        for vector_id, model, dimensions, digest, chunks, embedded_at in database.query(
            "SELECT vector_id, model, dimensions, content_hash, chunk_count, embedded_at FROM memory_embeddings"
            " WHERE vector_id IN (SELECT unnest(?::VARCHAR[]))",
            [list(vector_ids)],
        )
    }


def write_embeddings(transaction: Transaction, database: Database, embeddings: Sequence[Embedding]) -> None:
    """Register vectors within a transaction; a vector that is registered gets what it is made of now."""
    latest = {embedding.vector_id: embedding for embedding in embeddings}
    known = read_embeddings(database, latest)
    changed = [embedding for vector_id, embedding in latest.items() if vector_id in known]
    added = [embedding for vector_id, embedding in latest.items() if vector_id not in known]
    if changed:
        transaction.execute(
            "UPDATE memory_embeddings SET model = changed.model, dimensions = changed.dimensions,"
            " content_hash = changed.content_hash, chunk_count = changed.chunk_count,"
            " embedded_at = changed.embedded_at FROM (SELECT unnest(?::VARCHAR[]) AS vector_id,"
            " unnest(?::VARCHAR[]) AS model, unnest(?::INTEGER[]) AS dimensions,"
            " unnest(?::VARCHAR[]) AS content_hash, unnest(?::INTEGER[]) AS chunk_count,"
            " unnest(?::TIMESTAMP[]) AS embedded_at) AS changed"
            " WHERE memory_embeddings.vector_id = changed.vector_id",
            _columns(changed),
        )
    if added:
        transaction.execute(
            "INSERT INTO memory_embeddings (vector_id, model, dimensions, content_hash, chunk_count, embedded_at)"
            " SELECT unnest(?), unnest(?), unnest(?), unnest(?), unnest(?), unnest(?)",
            _columns(added),
        )


def remove_embeddings(transaction: Transaction, vector_ids: Sequence[VectorId]) -> None:
    """Take vectors out of the registry within a transaction."""
    if vector_ids:
        transaction.execute(
            "DELETE FROM memory_embeddings WHERE vector_id IN (SELECT unnest(?::VARCHAR[]))", [list(vector_ids)]
        )


def _columns(embeddings: Sequence[Embedding]) -> list[list[object]]:
    rows = (
        (
            embedding.vector_id,
            embedding.model,
            embedding.dimensions,
            embedding.content_hash,
            embedding.chunk_count,
            to_stored(embedding.embedded_at),
        )
        for embedding in embeddings
    )
    return [list(column) for column in zip(*rows, strict=True)]
