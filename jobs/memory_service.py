"""Semantic memory at work: remembers, recalls and forgets, over a store and two indexes that may be away.

What is remembered is on disk when the answer comes, and every index that could be told finds it. What was replaced or
forgotten is found by nobody from the commit on: whatever an index finds is looked up among what is active.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from ..storage.errors import IndexDamagedError, InvalidInputError, PerdureError
from ..storage.hot_memories import HotMemories
from ..storage.index_records import IndexHit
from ..storage.memory_index_records import INDEX_KINDS, IndexKind, MemoryCounts
from ..storage.memory_input import checked_write, stored_key
from ..storage.memory_keys import AgentId, Scope, VectorId, Visibility, query_tokens, vector_id
from ..storage.memory_reader import EVERY_MEMORY, NEWEST_FIRST
from ..storage.memory_readers import MemoryReaders
from ..storage.memory_records import FORGOTTEN, Memory, MemoryFilter, MemoryId, MemoryOrder, VersionId, WriteId
from ..storage.memory_store import MemoryStore
from ..storage.memory_write_records import MemoryWrite, Outcome
from ..storage.settings import Settings
from ..storage.text import clean_text
from .background import on_thread
from .clock import Clock
from .decision_model import DecisionModel
from .hot_reads import ask_hot
from .index_access import EmbeddingAccess, KeywordAccess, SearchAnswer, VectorAccess
from .index_comparison import IndexComparison
from .index_feed import IndexFeed
from .memory_feeds import KeywordFeed, ValueVectors, VectorFeed
from .memory_requests import Difference, KeyRecall, RecallQuery, Remember, Remembered
from .memory_upkeep import MemoryUpkeep
from .memory_verifier import MemoryVerifier, index_scope
from .memory_writer import MemoryWriter
from .recall import Found, exact_key_found, found_by_id, recall
from .recalled import Channel, Recalled
from .verification import Verdict

Result = TypeVar("Result")
Search = Callable[[int], Awaitable[SearchAnswer]]
"""Asks an index for so many hits."""

MOST_WIDENED = 4
"""How often a search is widened that found only what is no longer active."""

logger = logging.getLogger(__name__)


class MemoryService:
    """One store's memories. All methods run in one event loop; what blocks runs on threads."""

    def __init__(
        self,
        store: MemoryStore,
        vector: VectorAccess,
        keyword: KeywordAccess,
        embedder: EmbeddingAccess,
        decisions: DecisionModel,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._store = store
        self._vector = vector
        self._keyword = keyword
        self._embedder = embedder
        self._clock = clock
        self._settings = settings
        self._writer = MemoryWriter(store)
        self._threads = {name: ThreadPoolExecutor(1, thread_name_prefix=name) for name in ("read", *INDEX_KINDS)}
        self._readers = store.readers()
        vectors = ValueVectors(embedder)
        self._feeds: dict[IndexKind, IndexFeed[Any]] = {
            "vector": VectorFeed("vector", vector, *self._feeding("vector"), vectors=vectors, embedder=embedder),
            "keyword": KeywordFeed("keyword", keyword, *self._feeding("keyword")),
        }
        self._comparisons = {kind: IndexComparison(feed) for kind, feed in self._feeds.items()}
        self._verifier = MemoryVerifier(
            store, self._writer, self._read, vector, vectors, decisions, clock, settings.memory
        )
        self._upkeep = MemoryUpkeep(self._writer, self._verifier, self._wake_feeds, clock, settings.memory)
        self._parts: tuple[IndexFeed[Any] | IndexComparison | MemoryUpkeep, ...] = (
            *self._feeds.values(),
            *self._comparisons.values(),
            self._upkeep,
        )

    def _feeding(self, kind: IndexKind) -> tuple[MemoryWriter, MemoryReaders, ThreadPoolExecutor, MemoryStore]:
        return self._writer, self._store.readers(), self._threads[kind], self._store

    def start(self) -> None:
        """Begin, in the running event loop: the indexes are told what they have missed."""
        for part in self._parts:
            part.start()

    async def stop(self) -> None:
        """End, once what is being written is."""
        try:
            for part in reversed(self._parts):
                await part.stop()
        finally:
            self._writer.close()
            for thread in self._threads.values():
                thread.shutdown(wait=True)

    # Writing.

    async def remember(self, fact: Remember) -> Remembered:
        """Store a fact: durable on return, found by every index that the answer does not name.

        Raises:
            InvalidInputError: It cannot be stored; names the field. Nothing was written.
            MemoryConflictError: The id of the write is taken by another fact.
        """
        write = checked_write(_write_of(fact, self._clock.now()), self._settings.memory)
        verdict = await self._verifier.verdict(write) if fact.is_verified else Verdict(verification="not_needed")
        result = await self._writer.write(verdict.applied_to(write))
        outcome: Outcome = result.outcome
        superseded = result.superseded
        if verdict.outdated_by is not None:
            by = verdict.outdated_by.version_id
            if await self._verifier.end_outdated(write.agent_id, result.version_id, by):
                outcome = "outdated"
        for related in verdict.noticed:
            logger.info("a memory of agent %s contradicts %s, and replaces nothing", write.agent_id, related.key)
        return Remembered(
            outcome=outcome,
            version_id=result.version_id,
            superseded=superseded,
            verification=verdict.verification,
            not_yet_in=await self._told(vector_id(write.agent_id, write.scope, write.key)),
        )

    async def forget(self, agent_id: AgentId, scope: Scope, key: str) -> VersionId | None:
        """End what is active under a key; no channel finds it any more.

        Returns:
            What it was, also where it had been forgotten before: a repeat is told the same. None: there was nothing.
        """
        now = self._clock.now()
        ended = await self._writer.run(lambda store: store.forget(agent_id=agent_id, scope=scope, key=key, at=now))
        if ended is None:
            versions = await self.history(Visibility(agent_id=agent_id, scopes=(scope,)), key)
            return next((each.version_id for each in reversed(versions) if each.reason == FORGOTTEN), None)
        await self._told()
        return ended

    # Reading.

    async def recall(self, query: RecallQuery) -> Recalled:
        """What the channels find, fused, explained and filled up; channels that could not answer are named."""
        text = clean_text(query.text)
        visible = query.visible
        limits = self._settings.recall
        top_k = limits.top_k if query.top_k is None else _checked_count(query.top_k, "top_k")
        if not await ask_hot(self._store.hot, visible.agent_id, lambda hot: hot.has_any(visible)):
            return Recalled(hits=(), unanswered={})  # no channel can find anything, and nobody need embed the text
        scope = index_scope(visible)
        width = 2 * max(top_k, limits.keyword_hits)
        unanswered: dict[Channel, str] = {}
        found: dict[Channel, Sequence[Found]] = {}

        async def channel(name: IndexKind, search: Search) -> None:
            feed = self._feeds[name]
            try:
                async with asyncio.timeout(limits.channel_timeout_s):
                    found[name] = await self._active_hits(feed, visible, search, width, top_k)
            except TimeoutError:
                unanswered[name] = f"it did not answer within {limits.channel_timeout_s:g} s"
            except PerdureError as error:
                if isinstance(error, IndexDamagedError):
                    self._comparisons[name].suspect(visible.agent_id)
                unanswered[name] = str(error)
            if name not in unanswered and feed.problem is not None:
                unanswered[name] = f"it is behind: {feed.problem}"

        async def by_vector(limit: int) -> SearchAnswer:
            return await self._vector.search(await vector, scope, limit)

        async def by_keyword(limit: int) -> SearchAnswer:
            return await self._keyword.search(text, scope, limit)

        if text.strip():
            vector = asyncio.ensure_future(self._query_vector(query, text))
            vector.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may be left to ask
            await asyncio.gather(channel("vector", by_vector), channel("keyword", by_keyword))
            vector.cancel()
        now = self._clock.now()

        def fused(hot: HotMemories) -> Recalled:
            found["exact_key"] = exact_key_found(hot.exact_key(visible, query_tokens(text), width))
            touches = hot.touches(visible) if query.is_filled else ()
            return recall(found, unanswered, touches, lambda rows: hot.by_rows(visible, rows), now, limits, top_k)

        recalled = await ask_hot(self._store.hot, visible.agent_id, fused)
        self._upkeep.used(visible.agent_id, (hit.memory for hit in recalled.hits if not hit.is_filled), now)
        return recalled

    async def recall_key(self, wanted: KeyRecall) -> Sequence[Memory]:
        """What stands under a key, the contact's before the agent's; without a key the newest of all."""
        if wanted.as_of is not None:
            as_of = wanted.as_of
            held = await self._read(lambda readers: readers.memories.as_of(wanted.visible, as_of, wanted.key))
            return sorted(held, key=lambda memory: wanted.visible.precedence(memory.scope))[: wanted.limit]
        now = self._clock.now()
        if wanted.key is None:
            found: Sequence[Memory] = await self.page(wanted.visible, limit=wanted.limit)
        else:
            key = stored_key(wanted.key)
            current = await ask_hot(
                self._store.hot, wanted.visible.agent_id, lambda hot: hot.current(wanted.visible, key)
            )
            found = [] if current is None else [current]
        self._upkeep.used(wanted.visible.agent_id, found, now)
        return found

    async def get(self, visible: Visibility, memory_id: MemoryId) -> Memory | None:
        """A memory by its id: the active version, or the one that was active last."""
        return await self._read(lambda readers: readers.memories.by_id(visible, memory_id))

    async def history(self, visible: Visibility, key: str) -> Sequence[Memory]:
        """Every version that was stored under a key, in the order in which they were stored."""
        return await self._read(lambda readers: readers.memories.history(visible, key))

    async def page(
        self,
        visible: Visibility,
        wanted: MemoryFilter = EVERY_MEMORY,
        order: MemoryOrder = NEWEST_FIRST,
        limit: int = 100,
        offset: int = 0,
    ) -> Sequence[Memory]:
        """A part of the active memories, in order."""
        count, start = _checked_count(limit, "limit"), _checked_count(offset, "offset", least=0)
        return await self._read(lambda readers: readers.memories.page(visible, wanted, order, count, start))

    async def counts(self) -> MemoryCounts:
        """How much there is."""
        return await self._read(lambda readers: readers.scan.counts())

    # Indexes.

    async def reindex(self, kind: IndexKind) -> int:
        """Make an index anew from the file; how many memories are in it now."""
        return await self._comparisons[kind].reindex()

    async def differences(self, *, repair: bool = False) -> Sequence[Difference]:
        """How each index differs from the file; repaired, if asked for."""
        return [await self._comparisons[kind].difference(repair=repair) for kind in INDEX_KINDS]

    def problems(self) -> dict[IndexKind, str]:
        """Indexes that cannot be told now, each with the reason."""
        return {kind: feed.problem for kind, feed in self._feeds.items() if feed.problem is not None}

    # Inside.

    async def _told(self, written: VectorId | None = None) -> dict[IndexKind, str]:
        """Tell the indexes what is committed; those that could not be told, or cannot take what was written."""
        seq = self._store.committed_seq
        timeout_s = self._settings.index.tell_timeout_s
        reasons = await asyncio.gather(*(feed.until_told(seq, timeout_s) for feed in self._feeds.values()))
        found = {}
        for (kind, feed), late in zip(self._feeds.items(), reasons, strict=True):
            reason = late or (None if written is None else feed.refusal(written))
            if reason is not None:
                found[kind] = reason
        return found

    def _wake_feeds(self) -> None:
        for feed in self._feeds.values():
            feed.wake()

    async def _query_vector(self, query: RecallQuery, text: str) -> NDArray[np.float32]:
        if query.vector is not None:
            if len(query.vector) % 4:
                raise InvalidInputError(
                    "vector", f"{len(query.vector)} bytes are no float32s", "give four bytes a number"
                )
            return np.frombuffer(query.vector, np.float32)
        return await self._embedder.embed_query(text)

    async def _active_hits(
        self,
        feed: IndexFeed[Any],
        visible: Visibility,
        search: Search,
        width: int,
        wanted: int,
    ) -> list[Found]:
        """The hits that are still active; what the index lost with its process is told it first."""
        timeout_s = self._settings.recall.channel_timeout_s
        found: list[Found] = []
        for _ in range(MOST_WIDENED):
            answer = await feed.searched(lambda: search(width), timeout_s)  # noqa: B023
            found = await self._resolved(visible, answer.hits)
            if len(found) >= wanted or len(answer.hits) < width:
                break
            width *= 4
        return found

    async def _resolved(self, visible: Visibility, hits: Iterable[IndexHit]) -> list[Found]:
        scores = [(VectorId(hit.source), hit.score) for hit in hits]
        ids = [each for each, _ in scores]
        active = await ask_hot(self._store.hot, visible.agent_id, lambda hot: hot.by_vector_ids(visible, ids))
        return found_by_id(scores, active)

    async def _read(self, body: Callable[[MemoryReaders], Result]) -> Result:
        return await on_thread(self._threads["read"], body, self._readers)


def _write_of(fact: Remember, at: datetime) -> MemoryWrite:
    return MemoryWrite(
        write_id=WriteId(fact.write_id),
        memory_id=MemoryId(str(uuid4())),
        agent_id=fact.agent_id,
        scope=fact.scope,
        key=fact.key,
        value=fact.value,
        fact_type=fact.fact_type,
        metadata=fact.metadata,
        graph_id=fact.graph_id,
        task_id=fact.task_id,
        session_id=fact.session_id,
        source=fact.source,
        provenance=fact.provenance,
        confidence=fact.confidence,
        at=at,
        valid_from=fact.valid_from,
    )


def _checked_count(given: object, field: str, least: int = 1) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not least <= given <= 10_000:
        raise InvalidInputError(field, f"{given!r} is out of range", f"give a whole number from {least} to 10,000")
    return given
