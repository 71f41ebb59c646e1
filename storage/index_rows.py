"""Index rows as Arrow tables: the columns that both kinds of index have, and the ids of a source's rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa  # type: ignore[import-untyped]

from .index_records import IndexRow, RowType, SourceId
from .index_scope import microseconds

SCOPE_COLUMNS = ("agent", "contact")
COLUMNS: tuple[tuple[str, pa.DataType], ...] = (
    ("id", pa.string()),
    ("source", pa.string()),
    ("chunk", pa.int32()),
    ("chunks", pa.int32()),
    ("type", pa.string()),
    ("agent", pa.string()),
    ("contact", pa.string()),
    ("conversation", pa.string()),
    ("kind", pa.string()),
    ("role", pa.string()),
    ("created_at_us", pa.int64()),
    ("revision", pa.int64()),
)


def schema_with(*content: pa.Field) -> pa.Schema:
    """The schema of a table with this content."""
    return pa.schema([*(pa.field(name, kind, nullable=name != "id") for name, kind in COLUMNS), *content])


def row_id(source: SourceId, chunk: int) -> str:
    """The id of a chunk's row; no source can be named so that two ids are the same."""
    return f"{source}#{chunk}"


def row_ids(source: SourceId, chunks: Iterable[int]) -> list[str]:
    """The ids of some chunks' rows."""
    return [row_id(source, chunk) for chunk in chunks]


def columns_of(rows: Sequence[IndexRow], chunks: Sequence[int], row_type: RowType) -> dict[str, pa.Array]:
    """The columns that every index has, a line for each chunk of each row.

    Args:
        chunks: How many each row has.
    """
    lines = [(row, chunk, count) for row, count in zip(rows, chunks, strict=True) for chunk in range(count)]
    values: dict[str, Sequence[object]] = {
        "id": [row_id(row.source, chunk) for row, chunk, _ in lines],
        "source": [row.source for row, _, _ in lines],
        "chunk": [chunk for _, chunk, _ in lines],
        "chunks": [count for _, _, count in lines],
        "type": [row_type] * len(lines),
        "agent": [row.agent for row, _, _ in lines],
        "contact": [row.contact for row, _, _ in lines],
        "conversation": [row.conversation for row, _, _ in lines],
        "kind": [row.kind for row, _, _ in lines],
        "role": [row.role for row, _, _ in lines],
        "created_at_us": [microseconds(row.created_at) for row, _, _ in lines],
        "revision": [row.revision for row, _, _ in lines],
    }
    return {name: pa.array(values[name], kind) for name, kind in COLUMNS}
