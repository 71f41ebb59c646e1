"""The settings as plain records: what may be set, in which unit, and every default.

They are read once, at start (`settings_sources.py`), and passed in. This module stays free of heavy imports,
since every actor receives its part of the settings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import time
from pathlib import Path
from typing import Literal

MIN_BUDGET_TOKENS = 500
"""The smallest context budget in which a turn can still be told what it needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSettings:
    """Working memory: turns, their checkpoints and tool rounds."""

    resume_after_s: float = 45.0
    """A turn untouched for longer counts as broken, and another turn takes its results over."""
    checkpoint_expiry_s: float = 24 * 3600.0
    """Results of a broken turn older than this are not resumed."""
    max_process_deaths: int = 3
    """A turn whose process died this often ends as failed."""
    max_tool_rounds: int = 16
    """After so many rounds the model must answer without tools."""
    preview_chars: int = 3000
    """Length to which a stored tool result is cut, in characters."""
    resumed_results: int = 40
    """How many stored results, the newest, a resumed turn shows to the model again."""
    max_text_chars: int = 1_000_000
    """A longer message is refused, in characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSettings:
    """What the model sees."""

    budget_tokens: int = 32_000
    """All of a request: system prompt, notes, history, the turn's input and tool rounds."""
    history_budget_tokens: int = 16_000
    """The conversation's history within it; less when the rest needs the room."""
    tail_share: float = 0.7
    head_share: float = 0.1
    overlay_share: float = 0.2
    head_messages: int = 2
    tail_page: int = 10
    """Messages fetched at a time for the tail."""
    tail_scan_limit: int = 200
    """Messages looked at for the tail, at most."""
    notes_share: float = 0.1
    """Of `budget_tokens`, for the working notes and the ongoing task together; longer ones are cut and say so."""
    memories_share: float = 0.1
    """Of `budget_tokens`, for what the turn's input reminds of; what does not fit is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings:
    """How tools run."""

    timeout_s: float = 120.0
    """A tool that runs longer is killed, unless it declares its own limit."""
    result_chars: int = 20_000
    """What the model is shown of a result while the turn that called it runs, in characters."""
    allow_scope_all: bool = False
    """May the model search every conversation of its agent? Read by `recall_conversation`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """How models are reached. Keys stay in the environment of the processes that call them."""

    replicas: int = 1
    """Processes in the `models` pool."""
    concurrency: int = 32
    """Requests that one of them serves at a time."""
    timeout_s: float = 120.0
    """For one answer."""
    max_retries: int = 3
    """After a failure that may pass, with exponential backoff and jitter."""
    api_base: str | None = None
    """Base URL of an OpenAI-compatible server, for every model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSettings:
    """What gives texts their vectors."""

    model: str | None = None
    """None: the embedded one; else a name that litellm understands, such as `openai/text-embedding-3-small`."""
    dimensions: int = 0
    """The length of its vectors. 0: the model's own."""
    api_base: str | None = None
    """Base URL of an OpenAI-compatible server for it. None: `models.api_base`."""
    max_chars: int = 8000
    """A longer text goes to a litellm model in chunks of that many characters; the embedded one counts tokens."""
    batch: int = 32
    """Texts in one request to a litellm model."""
    threads: int = 1
    """Of the embedded model, in each process that runs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSettings:
    """The vector and the keyword index."""

    write_batch: int = 64
    """Rows that wait in memory to be written together; a reader sees them all the same."""
    hot_mib: int = 256
    """Memory for the vectors of the agents searched last, in each vector table."""
    flat_rows: int = 10_000
    """A scope with more rows that is not in memory is searched by an inverted index of the vectors."""
    tidy_commits: int = 24
    """After so many writes, the table's files are put together and its old versions removed."""
    tidy_rows: int = 256
    """Or after so many rows, which a keyword search has to scan until then."""
    tell_timeout_s: float = 5.0
    """How long a write waits for an index to find it; after that, its answer names the index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationSettings:
    """Live conversations: their processes and files."""

    passivate_after_s: float = 300.0
    """An idle conversation is written out and its process ended."""
    live_cap: int = 0
    """Live conversations of a node; beyond it the least recently used end. 0: as many as half its memory holds."""
    file_memory_limit_mib: int = 64
    """DuckDB's memory limit for one conversation file."""
    tidy_wal_kib: int = 32
    """After a reply, a write-ahead log larger than this is folded into the file."""
    call_timeout_s: float = 600.0
    """How long a driver waits for an answer, unless the call says otherwise."""
    lock_wait_s: float = 30.0
    """How long an activation waits for the file of a process that is just ending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxSettings:
    """Who follows the messages of conversations, and how they are delivered."""

    index: bool = True
    """Index them, so that `recall_conversation` finds them; those of agents with memory."""
    consumers: tuple[str, ...] = ()
    """Each `kind=package.module:attribute`, an `OutboxConsumer` or what makes one without arguments."""
    batch: int = 50
    """Messages handed over at a time, at most."""
    max_attempts: int = 5
    """A message that its consumer could not take so often is parked."""
    longest_pause_s: float = 60.0
    """Between tries; the first is 0.2 s."""
    sweep_s: float = 60.0
    """How often dormant conversations with undelivered messages are looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """Semantic memory."""

    provider: Literal["local", "cloudflare"] = "local"
    verify: bool = True
    """Ask at write whether a new memory replaces an older one."""
    verify_candidates: int = 3
    verify_similarity: float = 0.6
    verify_timeout_s: float = 10.0
    """A write that could not be verified by then is stored unverified."""
    verify_again_s: float = 60.0
    """How often what was stored unverified is looked for, to be verified."""
    replaces_probability: float = 0.75
    confidence_extracted: float = 0.5
    confidence_flushed: float = 0.6
    confidence_reflected: float = 0.85
    confidence_remembered: float = 0.9
    confidence_floor: float = 0.1
    flush_facts: int = 10
    """Facts that a pre-compaction flush may write."""
    max_value_chars: int = 2_000_000
    """A longer memory is refused, in characters."""
    hot_mib: int = 128
    """Active memories that are kept in memory for recall; agents beyond it are read from the file."""
    file_memory_limit_mib: int = 256
    """DuckDB's memory limit for the file of memories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallSettings:
    """Fused recall (reciprocal rank fusion, Cormack et al. 2009)."""

    top_k: int = 10
    rank_constant: int = 60
    vector_weight: float = 1.0
    keyword_weight: float = 1.0
    exact_key_weight: float = 1.5
    like_relevance: float = 0.02
    """Hits of a channel no further apart, as a share of the best of them, are of like relevance: the surer is first."""
    keyword_hits: int = 15
    channel_timeout_s: float = 3.0
    """A channel that takes longer is left out, and named."""
    fill_to: int = 20
    """Memories in all, once the most relevant others have been added."""
    recency_weight: float = 0.7
    recency_days: float = 30.0
    frequency_weight: float = 0.3
    conversation_limit: int = 10
    """Default `limit` of `recall_conversation`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """The memory API's searches and lists."""

    search_limit: int = 10
    list_limit: int = 100
    page_size: int = 100
    similarity_threshold: float = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSettings:
    """Summaries in place of old messages."""

    mode: Literal["overlays", "single"] = "overlays"
    min_messages: int = 3
    max_messages: int = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectionSettings:
    """The daily self-review."""

    at: time = time(3, 0)
    """UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationSettings:
    """The daily merge of what says the same."""

    at: time = time(4, 0)
    """UTC."""
    idle_days: int = 30
    decay_factor: float = 0.8
    sample: int = 30
    similarity: float = 0.85
    max_clusters: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RaySettings:
    """The local Ray that `connect` starts."""

    temp_dir: Path | None = None
    """Its temporary directory; a short path, since sockets live in it. None: a new one below the system's."""
    object_store_mib: int = 128
    linger_s: float = 3.0
    """How long it stays after its last script, for the next one."""
    dashboard: bool = False
    dashboard_port: int = 8265
    metrics_port: int = 0
    """Where the node's metrics can be scraped. 0: any free one."""
    metrics_interval_s: float = 10.0
    """How often metrics are told, by a conversation's process and by a local Ray."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting, by section. `PERDURE_TURN__RESUME_AFTER_S=60` sets one from the environment."""

    turn: TurnSettings = field(default_factory=TurnSettings)
    context: ContextSettings = field(default_factory=ContextSettings)
    tools: ToolSettings = field(default_factory=ToolSettings)
    models: ModelSettings = field(default_factory=ModelSettings)
    embedding: EmbeddingSettings = field(default_factory=EmbeddingSettings)
    index: IndexSettings = field(default_factory=IndexSettings)
    conversations: ConversationSettings = field(default_factory=ConversationSettings)
    outbox: OutboxSettings = field(default_factory=OutboxSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    recall: RecallSettings = field(default_factory=RecallSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    compaction: CompactionSettings = field(default_factory=CompactionSettings)
    reflection: ReflectionSettings = field(default_factory=ReflectionSettings)
    consolidation: ConsolidationSettings = field(default_factory=ConsolidationSettings)
    ray: RaySettings = field(default_factory=RaySettings)
