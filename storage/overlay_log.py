"""The overlays of a conversation: summaries that were added, never changed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import cast

from .database import Database, Transaction, from_stored, to_stored
from .records import Overlay


def read_overlays(database: Database) -> Sequence[Overlay]:
    """The overlays, oldest range first."""
    return [
        _to_overlay(row)
        for row in database.query(
            "SELECT overlay_id, from_seq, to_seq, from_created_at, to_created_at, message_count, summary,"
            " tokens, created_at FROM conversation_overlays ORDER BY from_seq, to_seq, overlay_id"
        )
    ]


def write_overlay(transaction: Transaction, overlay: Overlay) -> None:
    """Add an overlay within a transaction."""
    transaction.execute(
        "INSERT INTO conversation_overlays (overlay_id, from_seq, to_seq, from_created_at, to_created_at,"
        " message_count, summary, tokens, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            overlay.overlay_id,
            overlay.from_seq,
            overlay.to_seq,
            to_stored(overlay.from_created_at),
            to_stored(overlay.to_created_at),
            overlay.message_count,
            overlay.summary,
            overlay.tokens,
            to_stored(overlay.created_at),
        ],
    )


def _to_overlay(row: tuple[object, ...]) -> Overlay:
    overlay_id, from_seq, to_seq, from_created_at, to_created_at, count, summary, tokens, created_at = row
    return Overlay(
        overlay_id=cast(str, overlay_id),
        from_seq=cast(int, from_seq),
        to_seq=cast(int, to_seq),
        from_created_at=from_stored(cast(datetime, from_created_at)),
        to_created_at=from_stored(cast(datetime, to_created_at)),
        message_count=cast(int, count),
        summary=cast(str, summary),
        tokens=cast(int, tokens),
        created_at=from_stored(cast(datetime, created_at)),
    )
