"""Semantic memory at work: remembers, recalls and forgets, over a store and two indexes that may be away.

What is remembered is on disk when the answer comes, and every index that could be told finds it. What was replaced or
forgotten is found by nobody from the commit on: whatever an index finds is looked up among what is active.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from ..storage.errors import InvalidInputError, PerdureError
from ..storage.index_records import IndexHit
from ..storage.index_scope import IndexScope
from ..storage.memory_index_records import INDEX_KINDS, IndexKind, MemoryCounts
from ..storage.memory_input import stored_key
from ..storage.memory_keys import AGENT_WIDE, AgentId, Scope, VectorId, Visibility, query_tokens
from ..storage.memory_reader import EVERY_MEMORY, NEWEST_FIRST
from ..storage.memory_readers import MemoryReaders
from ..storage.memory_records import Memory, MemoryFilter, MemoryId, MemoryOrder, VersionId, WriteId
from ..storage.memory_store import MemoryStore
from ..storage.memory_write_records import Access, MemoryWrite
from ..storage.records import AgentName
from ..storage.settings import Settings
from ..storage.text import clean_text
from .clock import Clock
from .decision_model import DecisionModel
from .index_access import EmbeddingAccess, KeywordAccess, SearchAnswer, VectorAccess
from .index_feed import IndexFeed
from .memory_feeds import KeywordFeed, ValueVectors, VectorFeed
from .memory_requests import Difference, KeyRecall, RecallQuery, Remember, Remembered
from .memory_writer import MemoryWriter
from .recall import Found, exact_key_found, recall
from .recalled import Channel, Recalled
from .verification import NewMemory, Verdict, verify

Result = TypeVar("Result")
Search = Callable[[int], Awaitable[SearchAnswer]]
"""Asks an index for so many hits."""

ACCESS_FLUSH_S = 1.0
"""How long it takes at most until what was used is noted."""
KEPT_WRITE_IDS = timedelta(days=7)
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
        self._decisions = decisions
        self._clock = clock
        self._settings = settings
        self._vectors = ValueVectors(embedder)
        self._writer = MemoryWriter(store)
        self._threads = {name: ThreadPoolExecutor(1, thread_name_prefix=name) for name in ("read", *INDEX_KINDS)}
        self._readers = store.readers()
        self._feeds: dict[IndexKind, IndexFeed[Any]] = {
            "vector": VectorFeed("vector", vector, *self._feeding("vector"), vectors=self._vectors, embedder=embedder),
            "keyword": KeywordFeed("keyword", keyword, *self._feeding("keyword")),
        }
        self._accesses: dict[AgentId, dict[MemoryId, Access]] = {}
        self._noting: asyncio.Task[None] | None = None

    def _feeding(self, kind: IndexKind) -> tuple[MemoryWriter, MemoryReaders, ThreadPoolExecutor, Callable[[], int]]:
        return self._writer, self._store.readers(), self._threads[kind], lambda: self._store.committed_seq

    def start(self) -> None:
        """Begin, in the running event loop: the indexes are told what they have missed."""
        for feed in self._feeds.values():
            feed.start()
        self._noting = asyncio.create_task(self._keep_noting())

    async def stop(self) -> None:
        """End, once what is being written is."""
        for feed in self._feeds.values():
            await feed.stop()
        if self._noting is not None:
            self._noting.cancel()
        await self._note_accesses()
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
        write = _write_of(fact, self._clock.now())
        verdict = await self._verdict(write) if fact.is_verified else Verdict(verification="not_needed")
        result = await self._writer.write(verdict.applied_to(write))
        superseded = result.superseded
        if verdict.outdated_by is not None:
            by = verdict.outdated_by.version_id
            ended = await self._writer.run(lambda store: _end_outdated(store, write, result.version_id, by))
            superseded += tuple(ended)
        for related in verdict.noticed:
            logger.info("a memory of agent %s contradicts %s, and replaces nothing", write.agent_id, related.key)
        return Remembered(
            outcome=result.outcome,
            version_id=result.version_id,
            superseded=superseded,
            verification=verdict.verification,
            not_yet_in=await self._told(),
        )

    async def forget(self, agent_id: AgentId, scope: Scope, key: str) -> VersionId | None:
        """End what is active under a key; no channel finds it any more. What it was, or None."""
        now = self._clock.now()
        ended = await self._writer.run(lambda store: store.forget(agent_id=agent_id, scope=scope, key=key, at=now))
        if ended is not None:
            await self._told()
        return ended

    # Reading.

    async def recall(self, query: RecallQuery) -> Recalled:
        """What the channels find, fused, explained and filled up; channels that could not answer are named."""
        text = clean_text(query.text)
        visible = query.visible
        limits = self._settings.recall
        top_k = limits.top_k if query.top_k is None else _checked_count(query.top_k, "top_k")
        scope = _index_scope(visible)
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
        hot = self._store.hot
        found["exact_key"] = exact_key_found(hot.exact_key(visible, query_tokens(text), width))
        now = self._clock.now()
        recalled = recall(
            found,
            unanswered,
            hot.touches(visible) if query.is_filled else (),
            lambda rows: hot.by_rows(visible, rows),
            now,
            limits,
            top_k,
        )
        self._note_use(visible.agent_id, (hit.memory for hit in recalled.hits if not hit.is_filled), now)
        return recalled

    async def recall_key(self, wanted: KeyRecall) -> Sequence[Memory]:
        """What stands under a key, the contact's before the agent's; without a key the newest of all."""
        if wanted.as_of is not None:
            as_of, key = wanted.as_of, wanted.key
            held = await self._read(lambda readers: readers.memories.as_of(wanted.visible, as_of, key))
            return held[: wanted.limit]
        now = self._clock.now()
        if wanted.key is None:
            found: Sequence[Memory] = await self.page(wanted.visible, limit=wanted.limit)
        else:
            current = self._store.hot.current(wanted.visible, stored_key(wanted.key))
            found = [] if current is None else [current]
        self._note_use(wanted.visible.agent_id, found, now)
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
        return await self._feeds[kind].reindex(lambda _: None)

    async def differences(self, *, repair: bool = False) -> Sequence[Difference]:
        """How each index differs from the file; repaired, if asked for."""
        return [await self._feeds[kind].difference(repair=repair) for kind in INDEX_KINDS]

    def problems(self) -> dict[IndexKind, str]:
        """Indexes that cannot be told now, each with the reason."""
        return {kind: feed.problem for kind, feed in self._feeds.items() if feed.problem is not None}

    # Inside.

    async def _verdict(self, write: MemoryWrite) -> Verdict:
        settings = self._settings.memory
        scope = Visibility(agent_id=write.agent_id, scopes=(write.scope,))
        if not settings.verify or not self._store.hot.touches(scope):
            return Verdict(verification="not_needed")
        new = NewMemory.of_write(write, self._store.hot.current(scope, write.key))
        if new.kind == "task":
            return Verdict(verification="not_needed")
        try:
            async with asyncio.timeout(settings.verify_timeout_s):
                candidates = await self._candidates(scope, clean_text(write.value))
                return await asyncio.to_thread(verify, new, candidates, self._decisions, settings)
        except (PerdureError, TimeoutError) as error:
            logger.info("a memory of agent %s is to be verified later: %s", write.agent_id, error)
            return Verdict(verification="unverified")

    async def _candidates(self, scope: Visibility, value: str) -> list[Memory]:
        """Active memories of the scope that are like a value, the likest first."""
        settings = self._settings.memory
        vectors = (await self._vectors.of(value)).vectors
        answer = await self._vector.search(vectors[0], _index_scope(scope), settings.verify_candidates + 2)
        near = [VectorId(hit.source) for hit in answer.hits if hit.score >= settings.verify_similarity]
        memories = self._store.hot.by_vector_ids(scope, near)
        return [memories[vector_id] for vector_id in near if vector_id in memories]

    async def _told(self) -> dict[IndexKind, str]:
        """Tell the indexes what is committed; those that could not be told."""
        seq = self._store.committed_seq
        timeout_s = self._settings.index.tell_timeout_s
        reasons = await asyncio.gather(*(feed.until_told(seq, timeout_s) for feed in self._feeds.values()))
        return {kind: reason for kind, reason in zip(self._feeds, reasons, strict=True) if reason is not None}

    async def _query_vector(self, query: RecallQuery, text: str) -> NDArray[np.float32]:
        if query.vector is not None:
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
        found: list[Found] = []
        for _ in range(MOST_WIDENED):
            answer = await search(width)
            if not await feed.answered(answer.incarnation, self._settings.recall.channel_timeout_s):
                continue
            found = self._resolved(visible, answer.hits)
            if len(found) >= wanted or len(answer.hits) < width:
                return found
            width *= 4
        return found

    def _resolved(self, visible: Visibility, hits: Iterable[IndexHit]) -> list[Found]:
        scores = {VectorId(hit.source): hit.score for hit in hits}
        memories = self._store.hot.by_vector_ids(visible, scores)
        return [
            Found(memory=memories[vector_id], relevance=score)
            for vector_id, score in scores.items()
            if vector_id in memories
        ]

    def _note_use(self, agent_id: AgentId, memories: Iterable[Memory], at: datetime) -> None:
        noted = self._accesses.setdefault(agent_id, {})
        for memory in memories:
            before = noted.get(memory.memory_id)
            times = 1 if before is None else before.times + 1
            noted[memory.memory_id] = Access(memory_id=memory.memory_id, times=times, at=at)

    async def _keep_noting(self) -> None:
        while True:
            await asyncio.sleep(ACCESS_FLUSH_S)
            try:
                await self._note_accesses()
            except PerdureError as error:
                logger.warning("the use of memories was not noted: %s", error)

    async def _note_accesses(self) -> None:
        accesses, self._accesses = self._accesses, {}
        for agent_id, noted in accesses.items():
            if noted:
                await self._writer.run(
                    lambda store, agent_id=agent_id, noted=noted: store.record_access(  # type: ignore[misc]
                        agent_id=agent_id, accesses=list(noted.values())
                    )
                )

    async def _read(self, body: Callable[[MemoryReaders], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads["read"], body, self._readers)


def _index_scope(visible: Visibility) -> IndexScope:
    agent = AgentName(visible.agent_id)
    if visible.scopes is None:
        return IndexScope(agent=agent, contacts=None)
    contacts = tuple(scope.contact_id for scope in visible.scopes if scope.contact_id is not None)
    return IndexScope(agent=agent, contacts=contacts, with_agent_wide=AGENT_WIDE in visible.scopes)


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


def _end_outdated(store: MemoryStore, write: MemoryWrite, version: VersionId, by: VersionId) -> Sequence[VersionId]:
    """Supersede what was stored just now by a memory that was said later."""
    reason = "outdated when it was stored"
    return store.supersede(agent_id=write.agent_id, versions=[version], by=by, reason=reason, at=write.at)


def _checked_count(given: object, field: str, least: int = 1) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not least <= given <= 10_000:
        raise InvalidInputError(field, f"{given!r} is out of range", f"give a whole number from {least} to 10,000")
    return given
