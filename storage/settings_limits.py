"""Which numbers each numeric setting may have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from .settings import MIN_BUDGET_TOKENS


@dataclass(frozen=True, slots=True)
class Limits:
    """The numbers a setting may have."""

    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf

    def __str__(self) -> str:
        if math.isfinite(self.above):
            return f"above {self.above:,g} and at most {self.most:,.0f}"
        return f"from {self.least:,g} to {self.most:,.0f}"


_MOST = 2**31 - 1
_COUNT = Limits(least=1, most=_MOST)
_COUNT_OR_NONE = Limits(least=0, most=_MOST)
_SHARE = Limits(least=0, most=1)
_WEIGHT = Limits(least=0, most=1_000_000)
_WAIT = Limits(least=0, most=1_000_000_000)
_DURATION = Limits(above=0, most=1_000_000_000)

LIMITS: Mapping[str, Limits] = {
    "turn.resume_after_s": _WAIT,
    "turn.checkpoint_expiry_s": _DURATION,
    "turn.max_process_deaths": _COUNT,
    "turn.max_tool_rounds": _COUNT,
    "turn.preview_chars": _COUNT,
    "turn.resumed_results": _COUNT,
    "turn.max_text_chars": _COUNT,
    "context.budget_tokens": Limits(least=MIN_BUDGET_TOKENS, most=_MOST),
    "context.history_budget_tokens": _COUNT,
    "context.tail_share": _SHARE,
    "context.head_share": _SHARE,
    "context.overlay_share": _SHARE,
    "context.head_messages": _COUNT_OR_NONE,
    "context.tail_page": _COUNT,
    "context.tail_scan_limit": _COUNT,
    "context.notes_share": _SHARE,
    "context.memories_share": _SHARE,
    "tools.timeout_s": _DURATION,
    "tools.result_chars": _COUNT,
    "models.replicas": _COUNT,
    "models.concurrency": _COUNT,
    "models.timeout_s": _DURATION,
    "models.max_retries": _COUNT_OR_NONE,
    "embedding.dimensions": Limits(least=0, most=65_536),
    "embedding.max_chars": Limits(least=100, most=_MOST),
    "embedding.batch": _COUNT,
    "embedding.threads": _COUNT,
    "index.write_batch": _COUNT,
    "index.hot_mib": _COUNT_OR_NONE,
    "index.flat_rows": _COUNT,
    "index.tidy_commits": _COUNT,
    "index.tidy_rows": _COUNT,
    "index.tell_timeout_s": _DURATION,
    "conversations.passivate_after_s": _DURATION,
    "conversations.live_cap": _COUNT_OR_NONE,
    "conversations.file_memory_limit_mib": Limits(least=8, most=_MOST),
    "conversations.tidy_wal_kib": _COUNT_OR_NONE,
    "conversations.lock_wait_s": _WAIT,
    "outbox.batch": _COUNT,
    "outbox.max_attempts": _COUNT,
    "outbox.longest_pause_s": _DURATION,
    "outbox.sweep_s": _DURATION,
    "conversations.call_timeout_s": _DURATION,
    "memory.verify_candidates": _COUNT,
    "memory.verify_similarity": _SHARE,
    "memory.verify_timeout_s": _DURATION,
    "memory.verify_again_s": _DURATION,
    "memory.replaces_probability": _SHARE,
    "memory.confidence_extracted": _SHARE,
    "memory.confidence_flushed": _SHARE,
    "memory.confidence_reflected": _SHARE,
    "memory.confidence_remembered": _SHARE,
    "memory.confidence_floor": _SHARE,
    "memory.flush_facts": _COUNT_OR_NONE,
    "memory.max_value_chars": _COUNT,
    "memory.hot_mib": _COUNT_OR_NONE,
    "memory.file_memory_limit_mib": Limits(least=32, most=_MOST),
    "recall.top_k": _COUNT,
    "recall.rank_constant": _COUNT,
    "recall.vector_weight": _WEIGHT,
    "recall.keyword_weight": _WEIGHT,
    "recall.exact_key_weight": _WEIGHT,
    "recall.like_relevance": _SHARE,
    "recall.keyword_hits": _COUNT,
    "recall.channel_timeout_s": _DURATION,
    "recall.fill_to": _COUNT_OR_NONE,
    "recall.recency_weight": _WEIGHT,
    "recall.recency_days": Limits(above=0, most=1_000_000),
    "recall.frequency_weight": _WEIGHT,
    "recall.conversation_limit": _COUNT,
    "search.search_limit": _COUNT,
    "search.list_limit": _COUNT,
    "search.page_size": _COUNT,
    "search.similarity_threshold": _SHARE,
    "compaction.min_messages": _COUNT,
    "compaction.max_messages": _COUNT,
    "consolidation.idle_days": _COUNT_OR_NONE,
    "consolidation.decay_factor": _SHARE,
    "consolidation.sample": _COUNT,
    "consolidation.similarity": _SHARE,
    "consolidation.max_clusters": _COUNT,
    "ray.linger_s": _WAIT,
    "ray.object_store_mib": Limits(least=75, most=_MOST),
    "ray.dashboard_port": Limits(least=1, most=65535),
    "ray.metrics_port": Limits(least=0, most=65535),
    "ray.metrics_interval_s": Limits(least=1, most=3600),  # Ray takes a shorter one as a second
}
