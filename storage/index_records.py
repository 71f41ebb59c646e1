"""What goes into the vector and the keyword index, and what comes out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NewType

import numpy as np
from numpy.typing import NDArray

from .records import AgentName, ContactId, ConversationId

SourceId = NewType("SourceId", str)
"""What is indexed: a memory's vector id (`mem:…`), or a message's id with its conversation's (`msg:…`)."""
RowType = Literal["memory", "message"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRow:
    """What is indexed, without its content."""

    source: SourceId
    agent: AgentName
    contact: ContactId | None = None
    """None: agent-wide."""
    conversation: ConversationId | None = None
    kind: str | None = None
    """Of a memory: fact, event, instruction, task."""
    role: str | None = None
    """Of a message."""
    created_at: datetime
    """UTC."""
    revision: int
    """Higher with every change of the source, its scope included; a lower or equal one changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorRow(IndexRow):
    """A source and its vectors."""

    vectors: NDArray[np.float32]
    """(chunks, dimensions), of unit length or zero; at least one. They replace all former ones of the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRow(IndexRow):
    """A source and its text."""

    text: str
    payload: str = ""
    """What is kept beside the text for those who find the source; it is not searched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexHit:
    """A source that a search found."""

    source: SourceId
    score: float
    """By vector: the cosine of its nearest chunk. By keyword: what it has of the query's words, BM25, above 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSpace:
    """Which vectors can be compared with each other."""

    model: str
    dimensions: int

    def __str__(self) -> str:
        return f"{self.model} with {self.dimensions} dimensions"
