"""Where the files of a data directory are."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Literal

from .index_records import RowType
from .records import AgentName, ConversationId


def directory_path(data_dir: Path) -> Path:
    """The directory's file."""
    return data_dir / "directory.duckdb"


def memory_path(data_dir: Path) -> Path:
    """The file of all memories."""
    return data_dir / "memory.duckdb"


def index_path(data_dir: Path) -> Path:
    """The folder of the vector and the keyword index."""
    return data_dir / "indexes"


def index_table(folder: Path, row_type: RowType, content: Literal["vectors", "words"]) -> Path:
    """Name of an index's table within the folder of all indexes; its own folder ends in `.lance`."""
    return folder / f"{row_type}_{content}"


def conversation_path(data_dir: Path, agent: AgentName, conversation_id: ConversationId) -> Path:
    """A conversation's file. Whatever the ids contain, it lies below the data directory; the ids stand inside it."""
    digest = _digest(conversation_id)
    return data_dir / "conversations" / _folder(agent) / digest[:2] / f"{digest}.duckdb"


def _folder(agent: AgentName) -> str:
    readable = re.sub(r"[^a-z0-9]+", "-", agent.lower())[:32].strip("-")
    return f"{readable}-{_digest(agent)[:16]}" if readable else _digest(agent)[:16]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:40]
