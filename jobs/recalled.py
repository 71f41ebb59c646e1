"""What was recalled, as records, without what it takes to work it out: conversations carry these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from ..storage.memory_records import Memory, MemoryId

Channel = Literal["vector", "keyword", "exact_key"]
CHANNELS: tuple[Channel, ...] = ("vector", "keyword", "exact_key")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRank:
    """Where a channel placed a hit."""

    channel: Channel
    rank: int
    """Counted from 1."""
    relevance: float
    """By the channel's own measure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallHit:
    """A recalled memory, and why it was."""

    memory: Memory
    score: float
    """The fused score; of a filled one its relevance by use. The two cannot be compared."""
    ranks: tuple[ChannelRank, ...] = ()
    """The channels that found it. None did: it fills up the list."""

    @property
    def is_filled(self) -> bool:
        """Is it there because it is used lately and often, not because it answers the query?"""
        return not self.ranks

    @property
    def explanation(self) -> str:
        """Why it is there, in a line."""
        if self.is_filled:
            return f"filled up by use ({self.score:.3f})"
        places = ", ".join(f"{place.channel} #{place.rank} ({place.relevance:.3g})" for place in self.ranks)
        return f"{places}: {self.score:.5f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """What a query recalled."""

    hits: tuple[RecallHit, ...]
    """The fused ones, best first, and after them those that fill up the list."""
    unanswered: Mapping[Channel, str]
    """The channels that could not answer, each with its reason; the others stand in."""

    @property
    def accessed(self) -> tuple[MemoryId, ...]:
        """The memories that count as used: those that answer the query, not those that fill up."""
        return tuple(hit.memory.memory_id for hit in self.hits if not hit.is_filled)


def within_budget(hits: Iterable[RecallHit], budget_tokens: int, tokens_of: Callable[[Memory], int]) -> list[RecallHit]:
    """The hits that fit into a budget, in order; one that is too large for what is left is passed over."""
    kept = []
    for hit in hits:
        tokens = tokens_of(hit.memory)
        if tokens <= budget_tokens:
            budget_tokens -= tokens
            kept.append(hit)
    return kept
