"""Verification at work: finds what a new memory may replace, and asks; what could not be asked is asked later."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from ..storage.errors import ModelError, PerdureError
from ..storage.index_scope import IndexScope
from ..storage.memory_keys import AgentId, VectorId, Visibility
from ..storage.memory_readers import MemoryReaders
from ..storage.memory_records import Memory, VersionId
from ..storage.memory_store import MemoryStore
from ..storage.memory_write_records import MemoryWrite
from ..storage.records import AgentName
from ..storage.settings import MemorySettings
from .clock import Clock
from .decision_model import DecisionModel
from .hot_reads import ask_hot
from .index_access import VectorAccess
from .memory_feeds import ValueVectors
from .memory_writer import MemoryWriter
from .verification import NewMemory, Verdict, verify

PAGE = 32
SPARE = 2
"""Candidates beyond those that are asked about: some may be left out."""

Read = Callable[[Callable[[MemoryReaders], list[Memory]]], Awaitable[list[Memory]]]

logger = logging.getLogger(__name__)


class MemoryVerifier:
    """Asks a decision model what new memories do to those that are like them. For one event loop."""

    def __init__(
        self,
        store: MemoryStore,
        writer: MemoryWriter,
        read: Read,
        index: VectorAccess,
        vectors: ValueVectors,
        decisions: DecisionModel,
        clock: Clock,
        settings: MemorySettings,
    ) -> None:
        self._store = store
        self._writer = writer
        self._read = read
        self._index = index
        self._vectors = vectors
        self._decisions = decisions
        self._clock = clock
        self._settings = settings

    async def verdict(self, write: MemoryWrite) -> Verdict:
        """What a checked write does to others, before it is stored. It always answers.

        `unverified`: nobody could be asked now.
        """
        scope = Visibility(agent_id=write.agent_id, scopes=(write.scope,))
        if not self._settings.verify:
            return Verdict(verification="not_needed")
        is_first, current = await ask_hot(
            self._store.hot, write.agent_id, lambda hot: (not hot.has_any(scope), hot.current(scope, write.key))
        )
        if is_first:
            return Verdict(verification="not_needed")
        return await self._asked(NewMemory.of_write(write, current), scope)

    async def end_outdated(self, agent_id: AgentId, version: VersionId, by: VersionId) -> Sequence[VersionId]:
        """Supersede what was stored by a memory that was said later; what was superseded by it now."""
        now = self._clock.now()
        return await self._writer.run(
            lambda store: store.supersede(
                agent_id=agent_id, versions=[version], by=by, reason="outdated when it was stored", at=now
            )
        )

    async def verify_later(self) -> int:
        """Verify what could not be when it was stored; how many were. Ends early where nobody answers."""
        count = after_row = 0
        while self._settings.verify:
            page = await self._read(lambda readers: readers.scan.unverified_page(after_row, PAGE))  # noqa: B023
            if not page:
                break
            after_row = page[-1].row_id
            for memory in page:
                scope = Visibility(agent_id=memory.agent_id, scopes=(memory.scope,))
                verdict = await self._asked(NewMemory.of_memory(memory), scope)
                if verdict.verification != "unverified":
                    await self._apply(memory, verdict)
                    count += 1
                elif verdict.failure is None or verdict.failure.retryable:
                    return count
        return count

    async def _asked(self, new: NewMemory, scope: Visibility) -> Verdict:
        if new.kind == "task":
            return Verdict(verification="not_needed")
        try:
            async with asyncio.timeout(self._settings.verify_timeout_s):
                candidates = await self._candidates(scope, new.text)
                return await asyncio.to_thread(verify, new, candidates, self._decisions, self._settings)
        except ModelError as error:
            return Verdict(verification="unverified", failure=error)
        except (PerdureError, TimeoutError) as error:
            logger.info("a memory of agent %s is to be verified later: %s", scope.agent_id, error)
            return Verdict(verification="unverified")

    async def _candidates(self, scope: Visibility, value: str) -> list[Memory]:
        """Active memories of the scope that are like a value, the likest first."""
        settings = self._settings
        vectors = (await self._vectors.of(value)).vectors
        answer = await self._index.search(vectors[0], index_scope(scope), settings.verify_candidates + SPARE)
        near = [VectorId(hit.source) for hit in answer.hits if hit.score >= settings.verify_similarity]
        memories = await ask_hot(self._store.hot, scope.agent_id, lambda hot: hot.by_vector_ids(scope, near))
        return [memories[vector_id] for vector_id in near if vector_id in memories]

    async def _apply(self, memory: Memory, verdict: Verdict) -> None:
        """Store what came of it; that it was verified comes last, so that a repeat after a kill ends the same."""
        agent_id, version, now = memory.agent_id, memory.version_id, self._clock.now()
        if verdict.replaced:
            await self._writer.run(
                lambda store: store.supersede(
                    agent_id=agent_id, versions=verdict.supersedes, by=version, reason=verdict.reason, at=now
                )
            )
        if verdict.outdated_by is not None:
            await self.end_outdated(agent_id, version, verdict.outdated_by.version_id)
        await self._writer.run(
            lambda store: store.set_verification(
                agent_id=agent_id, versions=[version], verification=verdict.verification
            )
        )


def index_scope(visible: Visibility) -> IndexScope:
    """What may be seen, as the indexes are asked for it."""
    agent = AgentName(visible.agent_id)
    if visible.scopes is None:
        return IndexScope(agent=agent, contacts=None)
    contacts = tuple(scope.contact_id for scope in visible.scopes if scope.contact_id is not None)
    is_agent_wide_seen = any(scope.contact_id is None for scope in visible.scopes)
    return IndexScope(agent=agent, contacts=contacts, with_agent_wide=is_agent_wide_seen)
