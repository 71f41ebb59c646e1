"""Recall: what several channels found, fused into one list that explains itself, and filled up with what is used.

Pure: whoever calls has asked the channels and looked up what they found (`storage/memory_reader.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from ..storage.memory_keys import VectorId
from ..storage.memory_records import KeyMatch, Memory, Touch
from ..storage.settings import RecallSettings
from ..storage.touches import Touches
from .recalled import CHANNELS, Channel, ChannelRank, Recalled, RecallHit

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A memory that a channel found."""

    memory: Memory
    """The active version; a hit on anything else has been dropped."""
    relevance: float
    """By the channel's own measure: cosine, BM25, or how many segments of the key match. Higher is better."""


def recall(
    found: Mapping[Channel, Sequence[Found]],
    unanswered: Mapping[Channel, str],
    touches: Sequence[Touch],
    look_up: Callable[[Iterable[int]], Mapping[int, Memory]],
    at: datetime,
    settings: RecallSettings,
    top_k: int | None = None,
) -> Recalled:
    """Fuse what the channels found and fill the list up.

    Args:
        found: What each channel that answered found, in any order.
        touches: Of all memories that may be seen.
        look_up: Gives the memories in these rows that are still active.
        top_k: How many fused hits, at most. None: as the settings say.
    """
    hits = fuse(found, settings, settings.top_k if top_k is None else top_k)
    there = {hit.memory.row_id for hit in hits}
    by_use = most_used(touches, there, settings.fill_to - len(hits), at, settings)
    memories = look_up([row for row, _ in by_use]) if by_use else {}
    filled = [RecallHit(memory=memories[row], score=score) for row, score in by_use if row in memories]
    return Recalled(hits=(*hits, *filled), unanswered=dict(unanswered))


def fuse(
    found: Mapping[Channel, Sequence[Found]], settings: RecallSettings, count: int | None = None
) -> list[RecallHit]:
    """The best of what was found, or all of it, by reciprocal rank fusion (Cormack et al. 2009) with weights.

    Of equal scores the surer memory comes first, then the one that was said last.
    """
    weights = channel_weights(settings)
    memories: dict[int, Memory] = {}
    ranks: dict[int, list[ChannelRank]] = {}
    for channel in CHANNELS:
        ranked = rank(found.get(channel, ()), settings.like_relevance)
        if channel == "keyword":
            ranked = ranked[: settings.keyword_hits]
        for place, each in enumerate(ranked, start=1):
            memories.setdefault(each.memory.row_id, each.memory)
            ranks.setdefault(each.memory.row_id, []).append(
                ChannelRank(channel=channel, rank=place, relevance=each.relevance)
            )
    scored = [(fused_score(places, weights, settings.rank_constant), row) for row, places in ranks.items()]
    scored.sort(key=lambda each: (-each[0], *_surest_first(memories[each[1]])))
    return [RecallHit(memory=memories[row], score=score, ranks=tuple(ranks[row])) for score, row in scored[:count]]


def channel_weights(settings: RecallSettings) -> Mapping[Channel, float]:
    """What each channel counts in a fusion."""
    return {
        "vector": settings.vector_weight,
        "keyword": settings.keyword_weight,
        "exact_key": settings.exact_key_weight,
    }


def fused_score(places: Iterable[ChannelRank], weights: Mapping[Channel, float], rank_constant: int) -> float:
    """What the places that channels gave to one hit count together."""
    return math.fsum(weights[place.channel] / (rank_constant + place.rank) for place in places)


def rank(found: Sequence[Found], like_relevance: float) -> list[Found]:
    """What a channel found, each memory once, best first; of what is of like relevance the surest, then the latest.

    Args:
        like_relevance: How far below the best of its band a relevance may lie, as a share of it.
    """
    best: dict[int, Found] = {}
    for each in found:
        known = best.get(each.memory.row_id)
        if known is None or each.relevance > known.relevance:
            best[each.memory.row_id] = each
    ordered = sorted(best.values(), key=lambda each: -each.relevance)
    ranked: list[Found] = []
    start = 0
    for end in range(1, len(ordered) + 1):
        top = ordered[start].relevance
        if end == len(ordered) or ordered[end].relevance < top - abs(top) * like_relevance:
            ranked += sorted(ordered[start:end], key=lambda each: _surest_first(each.memory))
            start = end
    return ranked


def found_by_id(hits: Iterable[tuple[VectorId, float]], active: Mapping[VectorId, Memory]) -> list[Found]:
    """What an index found: ids and their relevance, of which those that are no longer active are dropped."""
    return [Found(memory=active[each], relevance=relevance) for each, relevance in hits if each in active]


def exact_key_found(matches: Iterable[KeyMatch]) -> list[Found]:
    """What the exact key channel found."""
    return [Found(memory=match.memory, relevance=match.segments) for match in matches]


def most_used(
    touches: Sequence[Touch], excluded: Set[int], count: int, at: datetime, settings: RecallSettings
) -> list[tuple[int, float]]:
    """The rows of the memories most worth having beside the hits, each with its relevance, best first.

    Of equal ones the one stored last comes first.
    """
    if count <= 0 or not len(touches):
        return []
    columns = Touches.of(touches)
    scores = relevances(columns, at, settings)
    kth = max(0, len(columns) - count - len(excluded))
    candidates = np.flatnonzero(scores >= np.partition(scores, kth)[kth])
    scored = zip(columns.rows[candidates].tolist(), scores[candidates].tolist(), strict=True)
    best = sorted((each for each in scored if each[0] not in excluded), key=lambda each: (-each[1], -each[0]))
    return best[:count]


def relevances(touches: Touches, at: datetime, settings: RecallSettings) -> NDArray[np.float64]:
    """How much each memory is used: how lately, and how often."""
    days = np.maximum(0.0, at.timestamp() - touches.touched_s) / DAY_S
    recency = settings.recency_weight * np.exp(-days / settings.recency_days)
    scores: NDArray[np.float64] = recency + settings.frequency_weight * np.log1p(touches.counts)
    return scores


def _surest_first(memory: Memory) -> tuple[float, float, int]:
    return -memory.confidence, -memory.valid_from.timestamp(), -memory.row_id
