"""Which making of the message indexes a data directory holds.

Conversations feed those indexes and note how far they are. What they noted is about one making: after the indexes were
made anew, or deleted, all is fed again. So each making has a name, which stands beside its tables and goes with them.
"""

from __future__ import annotations

from pathlib import Path

from .layout import index_table

_FILE = "message_generation"
_WITH_VECTORS = "with vectors"


def message_generation(folder: Path) -> str | None:
    """The name of the making that is there; None: there is none, or a table of it is gone.

    Args:
        folder: Of all indexes.
    """
    try:
        name, *notes = (folder / _FILE).read_text(encoding="ascii").splitlines()
    except (FileNotFoundError, ValueError):
        return None
    made = ["words", "vectors"] if _WITH_VECTORS in notes else ["words"]
    tables = [index_table(folder, "message", content) for content in made]  # type: ignore[arg-type]
    return name if all(table.with_suffix(".lance").exists() for table in tables) else None


def note_message_generation(folder: Path, name: str, *, has_vectors: bool) -> None:
    """Name the making that is there.

    Args:
        has_vectors: Its table of vectors is made. It may be later than that of words, for want of a model.
    """
    waiting = folder / f"{_FILE}.new"
    waiting.write_text("\n".join([name, _WITH_VECTORS] if has_vectors else [name]), encoding="ascii")
    waiting.replace(folder / _FILE)


def forget_message_generation(folder: Path) -> None:
    """Take the name away, before the tables are made anew."""
    (folder / _FILE).unlink(missing_ok=True)
